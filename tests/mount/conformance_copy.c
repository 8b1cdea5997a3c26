/* SPDX-License-Identifier: BSD-2-Clause
 *
 * conformance_copy.c - copy_file_range(2): whatever is shared underneath, the two files stay two.
 */
#include "conformance.h"

/* Copies LENGTH bytes or up to the source's end; returns what was copied. */
static off_t copy(int in, off_t from, int out, off_t to, size_t length)
{
    off_t done = 0;
    while (length) {
        const ssize_t part = copy_file_range(in, &from, out, &to, length, 0);
        if (part < 0 && (errno == EXDEV || errno == EOPNOTSUPP || errno == ENOSYS))
            CF_SKIP("copy_file_range: %s", strerror(errno));
        CF_CHECK(part >= 0);
        if (part == 0)
            break;
        done += part;
        length -= (size_t)part;
    }
    return done;
}

static void whole_file(void)
{
    const size_t size = 3000001;
    unsigned char *data = cf_pattern(size, 1), *got = malloc(size);
    CF_CHECK(got != NULL);
    const int in = cf_open("in"), out = cf_open("out");
    cf_pwrite(in, data, size, 0);
    CF_EQUAL(copy(in, 0, out, 0, size + 1000), size);
    CF_EQUAL(cf_fstat(out).st_size, size);
    cf_pread(out, got, size, 0);
    CF_SAME(got, data, size);
    CF_EQUAL(copy(in, (off_t)size, out, 0, 10), 0);
    CF_EQUAL(copy(in, (off_t)size + 5, out, 0, 10), 0);
}

static void files_stay_apart(void)
{
    const size_t size = 1 << 20;
    unsigned char *data = cf_pattern(size, 2), *got = malloc(size);
    CF_CHECK(got != NULL);
    const int in = cf_open("in"), out = cf_open("out");
    cf_pwrite(in, data, size, 0);
    CF_OK(fsync(in));
    CF_EQUAL(copy(in, 0, out, 0, size), size);
    cf_pwrite(in, "changed", 7, 300000);
    cf_pread(out, got, size, 0);
    CF_SAME(got, data, size);
    cf_pwrite(out, "other", 5, 700000);
    CF_OK(fsync(out));
    cf_pread(in, got, size, 0);
    CF_SAME(got + 700000, data + 700000, 5);
    CF_SAME(got + 300000, "changed", 7);
    CF_OK(ftruncate(in, 0));
    CF_OK(fsync(in));
    CF_OK(unlink("in"));
    cf_pread(out, got, size, 0);
    memcpy(data + 700000, "other", 5);
    CF_SAME(got, data, size);
}

/* Between and within files, at offsets of every kind; the model is memory. */
static void random_ranges(void)
{
    enum { SIZE = 1 << 20, STEPS = 150 };
    unsigned char *want[2], *got = malloc(SIZE);
    int fds[2];
    CF_CHECK(got != NULL);
    for (unsigned i = 0; i < 2; i++) {
        want[i] = cf_pattern(SIZE, 10 + i);
        fds[i] = cf_open(i ? "one" : "zero");
        cf_pwrite(fds[i], want[i], SIZE, 0);
    }
    uint64_t state = 99;
    for (unsigned step = 0; step < STEPS; step++) {
        state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        const size_t unit = step % 3 == 0 ? 131072 : step % 3 == 1 ? 4096 : 1;
        const size_t from = (size_t)(state >> 40) % SIZE / unit * unit;
        const size_t to = (size_t)(state >> 20) % SIZE / unit * unit;
        size_t length = (size_t)(state >> 10) % 400000 / unit * unit + unit;
        length = from + length > SIZE ? SIZE - from : length;
        length = to + length > SIZE ? SIZE - to : length;
        const unsigned source = (unsigned)(state >> 63), target = step % 2;
        const size_t apart = from > to ? from - to : to - from;
        if (source == target && apart < length)
            continue; /* overlapping: an error, see below */
        if (step % 10 == 0)
            CF_OK(fsync(fds[source]));
        CF_EQUAL(copy(fds[source], (off_t)from, fds[target], (off_t)to, length), length);
        memcpy(want[target] + to, want[source] + from, length);
        if (step % 5 == 4) {
            cf_pread(fds[target], got, SIZE, 0);
            CF_SAME(got, want[target], SIZE);
        }
    }
    for (unsigned i = 0; i < 2; i++) {
        CF_EQUAL(cf_fstat(fds[i]).st_size, SIZE);
        cf_pread(fds[i], got, SIZE, 0);
        CF_SAME(got, want[i], SIZE);
    }
}

static void sparse_source(void)
{
    const int in = cf_open("in"), out = cf_open("out");
    CF_OK(ftruncate(in, 8 << 20));
    cf_pwrite(in, "middle", 6, 4 << 20);
    unsigned char *noise = cf_pattern(8 << 20, 3);
    cf_pwrite(out, noise, 8 << 20, 0); /* holes of the source must overwrite this */
    CF_EQUAL(copy(in, 0, out, 0, 8 << 20), 8 << 20);
    cf_expect_fill(out, 0, 4 << 20, 0);
    cf_expect_fill(out, 'm', 1, 4 << 20);
    cf_expect_fill(out, 0, (4 << 20) - 6, (4 << 20) + 6);
}

static void beyond_target_end(void)
{
    const int in = cf_open("in"), out = cf_open("out");
    cf_pwrite(in, "abcdef", 6, 0);
    cf_pwrite(out, "x", 1, 0);
    CF_EQUAL(copy(in, 1, out, 500000, 4), 4);
    CF_EQUAL(cf_fstat(out).st_size, 500004);
    cf_expect_fill(out, 'x', 1, 0);
    cf_expect_fill(out, 0, 499999, 1);
    char content[4];
    cf_pread(out, content, 4, 500000);
    CF_SAME(content, "bcde", 4);
}

static void beyond_4_gib(void)
{
    const off_t far = (INT64_C(5) << 30) + 17;
    const int in = cf_open("in"), out = cf_open("out");
    unsigned char *data = cf_pattern(500000, 7), *got = malloc(500000);
    CF_CHECK(got != NULL);
    cf_pwrite(in, data, 500000, far);
    CF_EQUAL(copy(in, far, out, 2 * far, 500000), 500000);
    cf_pread(out, got, 500000, 2 * far);
    CF_SAME(got, data, 500000);
    CF_EQUAL(cf_fstat(out).st_size, 2 * far + 500000);
}

static void own_offsets(void)
{
    cf_write_file("in", "abcdef");
    const int in = CF_OK(open("in", O_RDONLY)), out = cf_open("out");
    copy(in, 0, out, 0, 1); /* skips where there is no such call */
    CF_OK(lseek(in, 2, SEEK_SET));
    CF_OK(lseek(out, 1, SEEK_SET));
    CF_EQUAL(copy_file_range(in, NULL, out, NULL, 3, 0), 3);
    CF_EQUAL(lseek(in, 0, SEEK_CUR), 5);
    CF_EQUAL(lseek(out, 0, SEEK_CUR), 4);
    cf_expect_file("out", "acde");
}

static void errors(void)
{
    cf_write_file("in", "abcdef");
    CF_OK(mkdir("dir", 0755));
    const int in = CF_OK(open("in", O_RDWR)), out = cf_open("out");
    const int reader = CF_OK(open("out", O_RDONLY)), dir = CF_OK(open("dir", O_RDONLY));
    const int appender = CF_OK(open("out", O_WRONLY | O_APPEND));
    off_t from = 0, to = 0, inside = 2;
    copy(in, 0, out, 0, 1);
    CF_FAILS(copy_file_range(in, &from, out, &to, 1, 12345), EINVAL);
    CF_FAILS(copy_file_range(in, &from, in, &inside, 4, 0), EINVAL);
    CF_FAILS(copy_file_range(in, &from, reader, &to, 1, 0), EBADF);
    CF_FAILS(copy_file_range(in, &from, appender, &to, 1, 0), EBADF);
    CF_FAILS(copy_file_range(dir, &from, out, &to, 1, 0), EISDIR);
    cf_expect_file("in", "abcdef");
    cf_expect_file("out", "a");
}

static const struct cf_case cases[] = {
    {"a copied file has the same content, up to the source's end", whole_file},
    {"later changes of one file do not show in the other", files_stay_apart},
    {"150 random ranges, aligned and not, agree with a model", random_ranges},
    {"holes of the source overwrite data of the target", sparse_source},
    {"a copy beyond the target's end leaves zeros between", beyond_target_end},
    {"ranges beyond 4 GiB", beyond_4_gib},
    {"without offsets the descriptors' own are used and moved", own_offsets},
    {"errors", errors},
    {NULL, NULL},
};

const struct cf_topic cf_topic_copy = {"copy", cases};
