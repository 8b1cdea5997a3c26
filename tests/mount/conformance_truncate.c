/* SPDX-License-Identifier: BSD-2-Clause
 *
 * conformance_truncate.c - truncate(2): what is cut off is gone for good, what is added reads as
 * zeros, and sizes beyond 4 GiB work.
 */
#include "conformance.h"

/* Around pages, around the block sizes that stores may have, and inside both. */
static const off_t edges[] = {0,      1,      255,    256,    257,    4095,   4096,
                              4097,   16383,  16384,  16385,  65536,  131071, 131072,
                              131073, 200000, 262143, 262144, 262145, 300000};
#define EDGES (sizeof edges / sizeof *edges)
#define FULL  300000u

static void shrink_then_grow(void)
{
    unsigned char *data = cf_pattern(FULL, 1), *copy = malloc(FULL);
    CF_CHECK(copy != NULL);
    for (size_t i = 0; i < EDGES; i++) {
        const size_t cut = (size_t)edges[i];
        const int fd = CF_OK(open("file", O_RDWR | O_CREAT | O_TRUNC, 0644));
        cf_pwrite(fd, data, FULL, 0);
        if (i % 2)
            CF_OK(fsync(fd)); /* once from dirty data, once from stored data */
        CF_OK(ftruncate(fd, edges[i]));
        CF_EQUAL(cf_fstat(fd).st_size, edges[i]);
        CF_EQUAL(pread(fd, copy, FULL, 0), edges[i]);
        CF_SAME(copy, data, cut);
        CF_OK(ftruncate(fd, FULL));
        cf_pread(fd, copy, FULL, 0);
        CF_SAME(copy, data, cut);
        for (size_t at = cut; at < FULL; at++) {
            if (copy[at])
                CF_EQUAL(copy[at] + 1000 * at, 1000 * at);
        }
        CF_OK(close(fd));
    }
}

static void grow_in_steps(void)
{
    const int fd = cf_open("file");
    cf_pwrite(fd, "x", 1, 0);
    for (size_t i = 2; i < EDGES; i++) {
        CF_OK(ftruncate(fd, edges[i]));
        cf_expect_fill(fd, 0, (size_t)edges[i] - 1, 1);
    }
    char byte;
    cf_pread(fd, &byte, 1, 0);
    CF_EQUAL(byte, 'x');
}

static void write_beyond_end(void)
{
    for (size_t i = 2; i < EDGES; i++) {
        const int fd = CF_OK(open("file", O_RDWR | O_CREAT | O_TRUNC, 0644));
        cf_pwrite(fd, "a", 1, 0);
        cf_pwrite(fd, "z", 1, edges[i]);
        CF_EQUAL(cf_fstat(fd).st_size, edges[i] + 1);
        cf_expect_fill(fd, 'a', 1, 0);
        cf_expect_fill(fd, 0, (size_t)edges[i] - 1, 1);
        cf_expect_fill(fd, 'z', 1, edges[i]);
        CF_OK(close(fd));
    }
}

/* Bytes cut off must not come back when a write, not a truncate, makes the file longer again. */
static void cut_bytes_stay_gone(void)
{
    const int fd = cf_open("file");
    unsigned char *data = cf_pattern(FULL, 2);
    cf_pwrite(fd, data, FULL, 0);
    CF_OK(ftruncate(fd, 1000));
    cf_pwrite(fd, "end", 3, 250000);
    cf_expect_fill(fd, 0, 249000, 1000);
    CF_OK(fsync(fd));
    const int other = CF_OK(open("file", O_RDONLY));
    cf_expect_fill(other, 0, 249000, 1000);
}

static void by_path(void)
{
    cf_write_file("file", "abcdef");
    CF_OK(symlink("file", "link"));
    CF_OK(truncate("link", 3));
    cf_expect_file("file", "abc");
    CF_OK(mkdir("dir", 0755));
    CF_FAILS(truncate("dir", 0), EISDIR);
    CF_FAILS(truncate("missing", 0), ENOENT);
    CF_FAILS(truncate("file/below", 0), ENOTDIR);
    CF_FAILS(truncate("file", -1), EINVAL);
    cf_need_users();
    CF_OK(chmod("file", 0644));
    cf_become(CF_USER, CF_USER);
    CF_FAILS(truncate("file", 0), EACCES);
    cf_expect_file("file", "abc");
}

static void seen_by_others(void)
{
    cf_write_file("file", "abcdef");
    const int one = CF_OK(open("file", O_RDWR)), two = CF_OK(open("file", O_RDWR));
    char content[8];
    CF_EQUAL(read(two, content, 4), 4);
    CF_OK(ftruncate(one, 2));
    CF_EQUAL(cf_fstat(two).st_size, 2);
    CF_EQUAL(read(two, content, 4), 0);
    CF_EQUAL(pread(two, content, 4, 0), 2);
    CF_EQUAL(write(two, "z", 1), 1); /* its offset is still 4 */
    CF_EQUAL(cf_fstat(one).st_size, 5);
    cf_pread(one, content, 5, 0);
    CF_SAME(content, "ab\0\0z", 5);
}

static void beyond_4_gib(void)
{
    static const off_t starts[] = {(INT64_C(1) << 31) - 3, (INT64_C(1) << 32) - 3,
                                   (INT64_C(1) << 33) + 4093, (INT64_C(1) << 40) - 5};
    const int fd = cf_open("file");
    for (size_t i = 0; i < sizeof starts / sizeof *starts; i++) {
        unsigned char *data = cf_pattern(10000, i);
        cf_pwrite(fd, data, 10000, starts[i]);
        CF_EQUAL(cf_fstat(fd).st_size, starts[i] + 10000);
        free(data);
    }
    CF_OK(fsync(fd));
    const int other = CF_OK(open("file", O_RDONLY));
    unsigned char copy[10000];
    for (size_t i = 0; i < sizeof starts / sizeof *starts; i++) {
        unsigned char *data = cf_pattern(10000, i);
        cf_pread(other, copy, sizeof copy, starts[i]);
        CF_SAME(copy, data, sizeof copy);
        cf_expect_fill(other, 0, 5000, starts[i] - 5000);
        free(data);
    }
    cf_expect_fill(other, 0, 10000, 0); /* nothing has wrapped around */
    CF_OK(ftruncate(fd, (INT64_C(1) << 32) + 1));
    CF_EQUAL(cf_fstat(other).st_size, (INT64_C(1) << 32) + 1);
    cf_pread(other, copy, 4, (INT64_C(1) << 32) - 3);
    unsigned char *data = cf_pattern(10000, 1);
    CF_SAME(copy, data, 4);
}

static const struct cf_case cases[] = {
    {"shrinking and growing at every edge leaves zeros behind the cut", shrink_then_grow},
    {"growing in steps adds zeros", grow_in_steps},
    {"a write beyond the end leaves zeros between", write_beyond_end},
    {"bytes cut off do not come back under a later write", cut_bytes_stay_gone},
    {"truncate by path, and its errors", by_path},
    {"another descriptor sees the new size at once", seen_by_others},
    {"data around 2 GiB, 4 GiB, 8 GiB and 1 TiB", beyond_4_gib},
    {NULL, NULL},
};

const struct cf_topic cf_topic_truncate = {"truncate", cases};
