/* SPDX-License-Identifier: BSD-2-Clause
 *
 * conformance_hole.c - SEEK_DATA, SEEK_HOLE and st_blocks. A file system may report less holes than
 * there are (also none at all), but a hole it reports must read as zeros: whoever copies by holes
 * would lose data otherwise.
 */
#include "conformance.h"

/* Walks the whole file by SEEK_DATA and SEEK_HOLE and holds each segment against WANT, the right
 * content of SIZE bytes. Returns the bytes reported as data. */
static off_t walk(int fd, const unsigned char *want, off_t size)
{
    off_t at = 0, total = 0;
    int changes = 0; /* a file system may turn zeros that were data into a hole between two calls */
    CF_EQUAL(cf_fstat(fd).st_size, size);
    while (at < size) {
        off_t data = lseek(fd, at, SEEK_DATA);
        if (data < 0) {
            CF_EQUAL(errno, ENXIO);
            data = size;
        }
        CF_CHECK(data >= at && data <= size);
        for (off_t i = at; i < data; i++) {
            if (want[i])
                CF_EQUAL(i, -1); /* this byte lies in what was reported as a hole */
        }
        if (data == size)
            break;
        const off_t hole = CF_OK(lseek(fd, data, SEEK_HOLE));
        CF_CHECK(hole >= data && hole <= size);
        if (hole == data) {
            CF_CHECK(++changes < 100);
            at = data;
            continue;
        }
        if (hole < size)
            CF_EQUAL(lseek(fd, hole, SEEK_HOLE), hole);
        total += hole - data;
        at = hole;
    }
    return total;
}

static void full_file(void)
{
    const off_t size = 500000;
    unsigned char *data = cf_pattern((size_t)size, 1);
    const int fd = cf_open("file");
    cf_pwrite(fd, data, (size_t)size, 0);
    CF_EQUAL(walk(fd, data, size), size);
    CF_EQUAL(lseek(fd, 0, SEEK_HOLE), size); /* the end is a hole */
    CF_OK(fsync(fd));
    CF_EQUAL(walk(fd, data, size), size);
    CF_EQUAL(lseek(fd, 12345, SEEK_DATA), 12345);
}

static void ends(void)
{
    const int fd = cf_open("file");
    CF_FAILS(lseek(fd, 0, SEEK_DATA), ENXIO);
    CF_FAILS(lseek(fd, 0, SEEK_HOLE), ENXIO);
    cf_pwrite(fd, "abc", 3, 0);
    CF_EQUAL(lseek(fd, 1, SEEK_DATA), 1);
    CF_EQUAL(lseek(fd, 2, SEEK_HOLE), 3);
    CF_FAILS(lseek(fd, 3, SEEK_DATA), ENXIO);
    CF_FAILS(lseek(fd, 3, SEEK_HOLE), ENXIO);
    CF_FAILS(lseek(fd, -1, SEEK_DATA), ENXIO);
}

static void sparse_file(void)
{
    const off_t size = 64 << 20;
    unsigned char *want = calloc(1, (size_t)size);
    CF_CHECK(want != NULL);
    const int fd = cf_open("file");
    CF_OK(ftruncate(fd, size));
    for (unsigned i = 0; i < 8; i++) {
        const size_t at = (size_t)i * 8388608 + i * 10007;
        memset(want + at, 0xa0 + (int)i, 777);
        cf_pwrite(fd, want + at, 777, (off_t)at);
    }
    const off_t dirty = walk(fd, want, size);
    CF_OK(fsync(fd));
    CF_OK(close(fd)); /* holes may be hidden while a file can be written through a mapping */
    const off_t stored = walk(CF_OK(open("file", O_RDONLY)), want, size);
    /* 8 times 777 bytes: in blocks of at most 4 MiB these are no more than half of the file. */
    CF_CHECK(dirty <= size / 2 || dirty == size);
    CF_CHECK(stored <= size / 2 || stored == size);
}

static void random_writes_and_cuts(void)
{
    enum { SIZE = 2 << 20 };
    unsigned char *want = calloc(1, SIZE), *noise = cf_pattern(SIZE, 9);
    CF_CHECK(want != NULL);
    int fd = cf_open("file");
    CF_OK(ftruncate(fd, SIZE));
    uint64_t state = 12345;
    for (unsigned i = 0; i < 60; i++) {
        state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        const size_t at = (size_t)(state >> 33) % SIZE;
        size_t length = (size_t)(state >> 20) % 100000 + 1;
        length = at + length > SIZE ? SIZE - at : length;
        if (i % 4 != 3) {
            memcpy(want + at, noise + at, length);
            cf_pwrite(fd, want + at, length, (off_t)at);
        } else {
            CF_OK(ftruncate(fd, (off_t)at));
            CF_OK(ftruncate(fd, SIZE));
            memset(want + at, 0, SIZE - at);
        }
        if (i % 8 == 5)
            CF_OK(fsync(fd));
        walk(fd, want, SIZE);
        CF_OK(close(fd));
        fd = CF_OK(open("file", O_RDONLY));
        walk(fd, want, SIZE);
        CF_OK(close(fd));
        fd = CF_OK(open("file", O_RDWR));
    }
}

static void written_zeros(void)
{
    enum { SIZE = 600000 };
    unsigned char *want = calloc(1, SIZE);
    CF_CHECK(want != NULL);
    const int fd = cf_open("file");
    cf_pwrite(fd, want, SIZE, 0); /* may become a hole or stay data, but reads as zeros */
    memset(want + 300000, 1, 10);
    cf_pwrite(fd, want + 300000, 10, 300000);
    CF_OK(fsync(fd));
    walk(fd, want, SIZE);
    cf_expect_fill(fd, 0, 300000, 0);
    cf_expect_fill(fd, 1, 10, 300000);
    cf_expect_fill(fd, 0, SIZE - 300010, 300010);
}

static void offset_is_moved(void)
{
    const int fd = cf_open("file");
    cf_pwrite(fd, "abcdef", 6, 0);
    CF_EQUAL(lseek(fd, 2, SEEK_DATA), 2);
    CF_EQUAL(lseek(fd, 0, SEEK_CUR), 2);
    CF_EQUAL(lseek(fd, 0, SEEK_HOLE), 6);
    CF_EQUAL(lseek(fd, 0, SEEK_CUR), 6);
    CF_FAILS(lseek(fd, 0, 99), EINVAL);
}

static void blocks(void)
{
    const int fd = cf_open("file");
    CF_OK(ftruncate(fd, INT64_C(1) << 30));
    CF_OK(fsync(fd));
    CF_CHECK(cf_fstat(fd).st_blocks < 2048); /* a hole of 1 GiB takes less than 1 MiB */
    unsigned char *noise = cf_pattern(1 << 20, 4);
    cf_pwrite(fd, noise, 1 << 20, 0);
    CF_OK(fsync(fd));
    const blkcnt_t taken = cf_fstat(fd).st_blocks;
    CF_CHECK(taken >= 2000 && taken < 8192); /* 512-byte units; 1 MiB that cannot be compressed */
    CF_OK(ftruncate(fd, 0));
    CF_OK(fsync(fd));
    CF_CHECK(cf_fstat(fd).st_blocks < 64);
}

static const struct cf_case cases[] = {
    {"a file without holes is data up to its end", full_file},
    {"ENXIO from the end on", ends},
    {"a sparse file: data is found, before and after fsync", sparse_file},
    {"random writes and cuts: no data in a reported hole", random_writes_and_cuts},
    {"zeros that were written read as zeros", written_zeros},
    {"the offset moves along; an unknown whence is EINVAL", offset_is_moved},
    {"st_blocks follows what is stored", blocks},
    {NULL, NULL},
};

const struct cf_topic cf_topic_hole = {"hole", cases};
