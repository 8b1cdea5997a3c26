/* SPDX-License-Identifier: BSD-2-Clause
 *
 * conformance_write.c - read(2) and write(2): offsets, append, vectors, direct and synchronous I/O.
 */
#include <signal.h>
#include <sys/resource.h>
#include <sys/uio.h>

#include "conformance.h"

#define LARGE ((8u << 20) + 4099u) /* bytes; crosses every block size and ends inside a page */

static void large_write(void)
{
    const int fd = cf_open("file");
    unsigned char *data = cf_pattern(LARGE, 1), *copy = malloc(LARGE);
    CF_CHECK(copy != NULL);
    cf_pwrite(fd, data, LARGE, 0);
    CF_EQUAL(cf_fstat(fd).st_size, LARGE);
    cf_pread(fd, copy, LARGE, 0);
    CF_SAME(copy, data, LARGE);
    const int other = CF_OK(open("file", O_RDONLY));
    cf_pread(other, copy, LARGE, 0);
    CF_SAME(copy, data, LARGE);
}

/* Small pieces in an order that never continues where the last one ended. */
static void scattered_writes(void)
{
    enum { PIECE = 1009, COUNT = 1021 };
    const int fd = cf_open("file");
    unsigned char *data = cf_pattern(PIECE * COUNT, 2), *copy = malloc(PIECE * COUNT);
    CF_CHECK(copy != NULL);
    for (size_t i = 0; i < COUNT; i++) {
        const size_t at = i * 617 % COUNT * PIECE; /* 1021 is prime: each piece once */
        cf_pwrite(fd, data + at, PIECE, (off_t)at);
    }
    cf_pread(fd, copy, PIECE * COUNT, 0);
    CF_SAME(copy, data, PIECE * COUNT);
}

static void end_of_file(void)
{
    char buffer[16];
    cf_write_file("file", "abcdef");
    const int fd = CF_OK(open("file", O_RDWR));
    CF_EQUAL(pread(fd, buffer, sizeof buffer, 4), 2);
    CF_SAME(buffer, "ef", 2);
    CF_EQUAL(pread(fd, buffer, sizeof buffer, 6), 0);
    CF_EQUAL(pread(fd, buffer, sizeof buffer, 1 << 20), 0);
    CF_FAILS(pread(fd, buffer, sizeof buffer, -1), EINVAL);
    CF_FAILS(pwrite(fd, buffer, sizeof buffer, -1), EINVAL);
    CF_FAILS(lseek(fd, -1, SEEK_SET), EINVAL);
}

static void zero_length(void)
{
    const int fd = cf_open("file");
    CF_EQUAL(pwrite(fd, "", 0, 1000), 0);
    CF_EQUAL(cf_fstat(fd).st_size, 0);
}

static void offsets(void)
{
    cf_write_file("file", "0123456789");
    const int fd = CF_OK(open("file", O_RDONLY)), twin = CF_OK(dup(fd));
    const int own = CF_OK(open("file", O_RDONLY));
    char byte;
    CF_EQUAL(lseek(fd, 3, SEEK_SET), 3);
    CF_EQUAL(read(twin, &byte, 1), 1);
    CF_EQUAL(byte, '3');
    CF_EQUAL(lseek(fd, 0, SEEK_CUR), 4);
    CF_EQUAL(pread(fd, &byte, 1, 9), 1);
    CF_EQUAL(lseek(fd, 0, SEEK_CUR), 4);
    CF_EQUAL(lseek(own, 0, SEEK_CUR), 0);
    CF_EQUAL(lseek(fd, -1, SEEK_END), 9);
}

static void append(void)
{
    cf_write_file("file", "abc");
    const int appender = CF_OK(open("file", O_RDWR | O_APPEND));
    const int other = CF_OK(open("file", O_WRONLY));
    cf_pwrite(other, "defg", 4, 3);
    CF_EQUAL(write(appender, "h", 1), 1);
    CF_EQUAL(lseek(appender, 0, SEEK_CUR), 8);
    CF_EQUAL(pwrite(appender, "i", 1, 0), 1); /* Linux: at the end in spite of the offset */
    CF_OK(lseek(appender, 0, SEEK_SET));
    CF_EQUAL(write(appender, "j", 1), 1);
    cf_expect_file("file", "abcdefghij");
}

#define RECORD  100
#define RECORDS 200

static void append_records(void *arg)
{
    const int fd = CF_OK(open("log", O_WRONLY | O_APPEND));
    char record[RECORD];
    memset(record, *(const char *)arg, sizeof record);
    for (unsigned i = 0; i < RECORDS; i++)
        CF_EQUAL(write(fd, record, sizeof record), RECORD);
}

static void concurrent_append(void)
{
    char letters[] = "ABCD";
    pid_t children[4];
    unsigned seen[4] = {0};
    CF_OK(close(cf_open("log")));
    for (size_t i = 0; i < 4; i++)
        children[i] = cf_fork(append_records, &letters[i]);
    for (size_t i = 0; i < 4; i++)
        cf_join(children[i]);
    const int fd = CF_OK(open("log", O_RDONLY));
    CF_EQUAL(cf_fstat(fd).st_size, 4 * RECORD * RECORDS);
    for (off_t at = 0; at < 4 * RECORD * RECORDS; at += RECORD) {
        char record[RECORD], expected[RECORD];
        cf_pread(fd, record, RECORD, at);
        memset(expected, record[0], RECORD);
        CF_SAME(record, expected, RECORD);
        CF_CHECK(record[0] >= 'A' && record[0] <= 'D');
        seen[record[0] - 'A']++;
    }
    for (size_t i = 0; i < 4; i++)
        CF_EQUAL(seen[i], RECORDS);
}

static void fill_own_blocks(void *arg)
{
    const unsigned number = *(const unsigned *)arg;
    const int fd = CF_OK(open("file", O_RDWR));
    unsigned char piece[3000];
    memset(piece, (int)number + 1, sizeof piece);
    for (unsigned i = 0; i < 250; i++)
        cf_pwrite(fd, piece, sizeof piece, (off_t)(i * 4 + number) * (off_t)sizeof piece);
}

static void concurrent_writes_to_one_file(void)
{
    unsigned numbers[4] = {0, 1, 2, 3};
    pid_t children[4];
    const int fd = cf_open("file");
    for (size_t i = 0; i < 4; i++)
        children[i] = cf_fork(fill_own_blocks, &numbers[i]);
    for (size_t i = 0; i < 4; i++)
        cf_join(children[i]);
    CF_EQUAL(cf_fstat(fd).st_size, 3000 * 1000);
    for (unsigned i = 0; i < 1000; i++)
        cf_expect_fill(fd, (unsigned char)(i % 4 + 1), 3000, (off_t)i * 3000);
}

static void vectors(void)
{
    const int fd = cf_open("file");
    char one[] = "abc", two[] = "", three[] = "defgh", low[5], high[3];
    const struct iovec out[] = {{one, 3}, {two, 0}, {three, 5}};
    const struct iovec in[] = {{low, 5}, {high, 3}};
    CF_EQUAL(pwritev(fd, out, 3, 2), 8);
    CF_EQUAL(preadv(fd, in, 2, 2), 8);
    CF_SAME(low, "abcde", 5);
    CF_SAME(high, "fgh", 3);
    cf_expect_fill(fd, 0, 2, 0);
}

static void direct(void)
{
    const size_t size = 1 << 20;
    void *aligned = NULL;
    CF_EQUAL(posix_memalign(&aligned, 4096, size), 0);
    unsigned char *data = cf_pattern(size, 3);
    const int fd = open("file", O_RDWR | O_CREAT | O_DIRECT, 0644);
    if (fd < 0 && errno == EINVAL)
        CF_SKIP("O_DIRECT is refused");
    CF_CHECK(fd >= 0);
    memcpy(aligned, data, size);
    cf_pwrite(fd, aligned, size, 4096);
    memset(aligned, 0, size);
    cf_pread(fd, aligned, size, 4096);
    CF_SAME(aligned, data, size);
    /* What went past the page cache is what a cached descriptor sees, and the other way round. */
    const int cached = CF_OK(open("file", O_RDWR));
    unsigned char page[4096];
    cf_pread(cached, page, sizeof page, 8192);
    CF_SAME(page, data + 4096, sizeof page);
    memset(page, 7, sizeof page);
    cf_pwrite(cached, page, sizeof page, 8192);
    cf_pread(fd, aligned, sizeof page, 8192);
    CF_SAME(aligned, page, sizeof page);
    memset(aligned, 9, sizeof page);
    cf_pwrite(fd, aligned, sizeof page, 8192);
    cf_expect_fill(cached, 9, sizeof page, 8192);
}

static void synchronous(void)
{
    static const int flags[] = {O_SYNC, O_DSYNC, O_SYNC | O_APPEND};
    for (size_t i = 0; i < sizeof flags / sizeof *flags; i++) {
        const int fd = CF_OK(open("file", O_RDWR | O_CREAT | O_TRUNC | flags[i], 0644));
        CF_EQUAL(write(fd, "abc", 3), 3);
        CF_EQUAL(write(fd, "def", 3), 3);
        CF_OK(close(fd));
        cf_expect_file("file", "abcdef");
    }
}

static void limit(void)
{
    const struct rlimit most = {.rlim_cur = 10000, .rlim_max = 10000};
    const int fd = cf_open("file");
    char bytes[20] = "";
    signal(SIGXFSZ, SIG_IGN);
    CF_OK(setrlimit(RLIMIT_FSIZE, &most));
    CF_EQUAL(pwrite(fd, bytes, sizeof bytes, 9990), 10);
    CF_FAILS(pwrite(fd, bytes, sizeof bytes, 10000), EFBIG);
    CF_FAILS(ftruncate(fd, 10001), EFBIG);
    CF_EQUAL(cf_fstat(fd).st_size, 10000);
}

/* The last offsets there are: accepted or refused, but never wrapped around. */
static void last_offset(void)
{
    const int fd = cf_open("file");
    CF_FAILS(pwrite(fd, "xy", 2, INT64_MAX), EINVAL);
    const ssize_t written = pwrite(fd, "x", 1, INT64_MAX - 1);
    if (written < 0) {
        CF_EQUAL(errno, EFBIG);
        CF_EQUAL(cf_fstat(fd).st_size, 0);
    } else {
        CF_EQUAL(cf_fstat(fd).st_size, INT64_MAX);
        cf_expect_fill(fd, 'x', 1, INT64_MAX - 1);
        cf_expect_fill(fd, 0, 10, INT64_MAX - 11);
    }
    if (ftruncate(fd, INT64_MAX) == 0)
        CF_EQUAL(cf_fstat(fd).st_size, INT64_MAX);
    else
        CF_EQUAL(errno, EFBIG);
}

static const struct cf_case cases[] = {
    {"8 MiB in one write read back through two descriptors", large_write},
    {"pieces written in scattered order read back in order", scattered_writes},
    {"reads end at the end of the file; negative offsets are EINVAL", end_of_file},
    {"a write of no bytes beyond the end does not extend", zero_length},
    {"dup shares the offset, open does not, pread moves none", offsets},
    {"O_APPEND writes at the end, whatever the offset", append},
    {"appends of four processes lose and tear nothing", concurrent_append},
    {"four processes write interleaved ranges of one file", concurrent_writes_to_one_file},
    {"pwritev and preadv gather and scatter", vectors},
    {"O_DIRECT and cached I/O agree", direct},
    {"O_SYNC and O_DSYNC writes keep order and content", synchronous},
    {"a write stops at RLIMIT_FSIZE, then is EFBIG", limit},
    {"a write at the last offset works or is EFBIG", last_offset},
    {NULL, NULL},
};

const struct cf_topic cf_topic_write = {"write", cases};
