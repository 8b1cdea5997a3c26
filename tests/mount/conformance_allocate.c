/* SPDX-License-Identifier: BSD-2-Clause
 *
 * conformance_allocate.c - fallocate(2): allocate, keep size, punch hole, zero range.
 */
#include "conformance.h"

#define KEEP  FALLOC_FL_KEEP_SIZE
#define PUNCH (FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE)
#define ZERO  FALLOC_FL_ZERO_RANGE

static void need(int mode)
{
    const int fd = cf_open("probe");
    CF_OK_OR_SKIP(fallocate(fd, mode, 0, 4096));
    CF_OK(close(fd));
}

static void extends(void)
{
    need(0);
    const int fd = cf_open("file");
    cf_pwrite(fd, "abc", 3, 0);
    CF_OK(fallocate(fd, 0, 0, 200000));
    CF_EQUAL(cf_fstat(fd).st_size, 200000);
    cf_expect_fill(fd, 0, 199997, 3);
    cf_expect_fill(fd, 'a', 1, 0);
    CF_OK(fallocate(fd, 0, 1, 10)); /* inside: nothing changes */
    CF_EQUAL(cf_fstat(fd).st_size, 200000);
    cf_expect_fill(fd, 'b', 1, 1);
    CF_OK(fallocate(fd, 0, 300000, 1));
    CF_EQUAL(cf_fstat(fd).st_size, 300001);
}

static void keeps_size(void)
{
    need(KEEP);
    const int fd = cf_open("file");
    cf_pwrite(fd, "abc", 3, 0);
    CF_OK(fallocate(fd, KEEP, 0, 200000));
    CF_EQUAL(cf_fstat(fd).st_size, 3);
    cf_expect_file("file", "abc");
    cf_pwrite(fd, "z", 1, 100000);
    cf_expect_fill(fd, 0, 99997, 3);
}

/* The range's edges relative to pages and blocks; the bytes just outside must stay. */
static const struct {
    off_t offset, length;
} ranges[] = {{0, 1},         {0, 4096},        {1, 4094},         {4095, 2},
              {4096, 131072}, {100, 131072},    {131072, 131072},  {131071, 131074},
              {0, 131072},    {200000, 300000}, {262144, 1 << 20}, {999999, 1},
              {0, 1000000}};
#define SIZE 1000000u

static void zeroes(int mode)
{
    unsigned char *data = cf_pattern(SIZE, 1), *copy = malloc(SIZE);
    CF_CHECK(copy != NULL);
    for (size_t i = 0; i < sizeof ranges / sizeof *ranges; i++) {
        const size_t from = (size_t)ranges[i].offset;
        size_t to = from + (size_t)ranges[i].length;
        to = to > SIZE ? SIZE : to;
        unsigned char *want = malloc(SIZE);
        CF_CHECK(want != NULL);
        memcpy(want, data, SIZE);
        memset(want + from, 0, to - from);
        const int fd = CF_OK(open("file", O_RDWR | O_CREAT | O_TRUNC, 0644));
        cf_pwrite(fd, data, SIZE, 0);
        if (i % 2)
            CF_OK(fsync(fd));
        CF_OK(fallocate(fd, mode, ranges[i].offset, ranges[i].length));
        cf_pread(fd, copy, SIZE, 0);
        CF_SAME(copy, want, SIZE);
        if (mode & KEEP)
            CF_EQUAL(cf_fstat(fd).st_size, SIZE);
        CF_OK(fsync(fd));
        const int other = CF_OK(open("file", O_RDONLY));
        cf_pread(other, copy, SIZE, 0);
        CF_SAME(copy, want, SIZE);
        CF_OK(close(other));
        CF_OK(close(fd));
        free(want);
    }
}

static void punches(void)
{
    need(PUNCH);
    zeroes(PUNCH);
}

static void zeroes_range(void)
{
    need(ZERO);
    zeroes(ZERO | KEEP);
    zeroes(ZERO);
}

static void punch_beyond_end(void)
{
    need(PUNCH);
    cf_write_file("file", "abcdef");
    const int fd = CF_OK(open("file", O_RDWR));
    CF_OK(fallocate(fd, PUNCH, 3, 1 << 20));
    CF_EQUAL(cf_fstat(fd).st_size, 6);
    char content[6];
    cf_pread(fd, content, 6, 0);
    CF_SAME(content, "abc\0\0\0", 6);
    CF_OK(fallocate(fd, PUNCH, 1 << 20, 1 << 20));
    CF_EQUAL(cf_fstat(fd).st_size, 6);
}

static void zero_range_extends(void)
{
    need(ZERO);
    cf_write_file("file", "abcdef");
    const int fd = CF_OK(open("file", O_RDWR));
    CF_OK(fallocate(fd, ZERO, 3, 100000));
    CF_EQUAL(cf_fstat(fd).st_size, 100003);
    cf_expect_fill(fd, 0, 100000, 3);
    cf_expect_fill(fd, 'c', 1, 2);
    CF_OK(ftruncate(fd, 3));
    CF_OK(fallocate(fd, ZERO | KEEP, 0, 100000));
    CF_EQUAL(cf_fstat(fd).st_size, 3);
    cf_expect_fill(fd, 0, 3, 0);
}

static void gives_space_back(void)
{
    need(PUNCH);
    const int fd = cf_open("file");
    unsigned char *noise = cf_pattern(4 << 20, 3);
    cf_pwrite(fd, noise, 4 << 20, 0);
    CF_OK(fsync(fd));
    const blkcnt_t before = cf_fstat(fd).st_blocks;
    CF_OK(fallocate(fd, PUNCH, 0, 4 << 20));
    CF_OK(fsync(fd));
    CF_CHECK(cf_fstat(fd).st_blocks < before / 8);
    cf_expect_fill(fd, 0, 4 << 20, 0);
}

static void mapped_pages_follow(void)
{
    need(PUNCH);
    const int fd = cf_open("file");
    unsigned char *data = cf_pattern(SIZE, 5), byte;
    cf_pwrite(fd, data, SIZE, 0);
    const int other = CF_OK(open("file", O_RDONLY));
    cf_pread(other, &byte, 1, 500000); /* now in the page cache */
    CF_OK(fallocate(fd, PUNCH, 400000, 200000));
    cf_expect_fill(other, 0, 200000, 400000);
    cf_pread(other, &byte, 1, 399999);
    CF_EQUAL(byte, data[399999]);
    cf_pread(other, &byte, 1, 600000);
    CF_EQUAL(byte, data[600000]);
}

static void errors(void)
{
    need(0);
    const int fd = cf_open("file"), reader = CF_OK(open("file", O_RDONLY));
    CF_FAILS(fallocate(fd, 0, 0, 0), EINVAL);
    CF_FAILS(fallocate(fd, 0, -1, 10), EINVAL);
    CF_FAILS(fallocate(fd, 0, 10, -1), EINVAL);
    CF_FAILS(fallocate(reader, 0, 0, 10), EBADF);
    CF_FAILS(fallocate(fd, FALLOC_FL_PUNCH_HOLE, 0, 10), EOPNOTSUPP);
    CF_FAILS_EITHER(fallocate(fd, 0, INT64_MAX, INT64_MAX), EFBIG, EINVAL);
    CF_EQUAL(cf_fstat(fd).st_size, 0);
}

static const struct cf_case cases[] = {
    {"plain allocation extends with zeros and changes nothing else", extends},
    {"FALLOC_FL_KEEP_SIZE keeps size and content", keeps_size},
    {"FALLOC_FL_PUNCH_HOLE zeroes exactly its range", punches},
    {"FALLOC_FL_ZERO_RANGE zeroes exactly its range", zeroes_range},
    {"a hole across or beyond the end keeps the size", punch_beyond_end},
    {"FALLOC_FL_ZERO_RANGE extends unless told to keep the size", zero_range_extends},
    {"a punched hole gives its space back", gives_space_back},
    {"cached pages of a punched range are dropped", mapped_pages_follow},
    {"errors", errors},
    {NULL, NULL},
};

const struct cf_topic cf_topic_allocate = {"allocate", cases};
