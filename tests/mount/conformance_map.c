/* SPDX-License-Identifier: BSD-2-Clause
 *
 * conformance_map.c - mmap(2) of files: shared mappings and read(2)/write(2) are one view.
 */
#include <linux/magic.h>
#include <setjmp.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/vfs.h>
#include <sys/wait.h>

#include "conformance.h"

#define SIZE 300000u /* not a multiple of the page size */

static unsigned char *map(int fd, size_t size, int protection, int flags)
{
    void *at = mmap(NULL, size, protection, flags, fd, 0);
    if (at == MAP_FAILED && errno == ENODEV)
        CF_SKIP("files cannot be mapped");
    CF_CHECK(at != MAP_FAILED);
    return at;
}

static unsigned char *map_shared(int fd, size_t size)
{
    return map(fd, size, PROT_READ | PROT_WRITE, MAP_SHARED);
}

static void read_through_map(void)
{
    const int fd = cf_open("file");
    unsigned char *data = cf_pattern(SIZE, 1);
    cf_pwrite(fd, data, SIZE, 0);
    unsigned char *at = map(fd, SIZE, PROT_READ, MAP_SHARED);
    CF_SAME(at, data, SIZE);
    CF_OK(close(fd)); /* the mapping does not need it */
    CF_SAME(at, data, SIZE);
    CF_EQUAL(at[SIZE], 0); /* the rest of the last page */
}

static void write_shows_in_map(void)
{
    const int fd = cf_open("file");
    CF_OK(ftruncate(fd, SIZE));
    unsigned char *at = map_shared(fd, SIZE);
    unsigned char *data = cf_pattern(SIZE, 2);
    CF_EQUAL(at[12345], 0);
    const int other = CF_OK(open("file", O_WRONLY));
    cf_pwrite(other, data, SIZE, 0);
    CF_SAME(at, data, SIZE);
}

static void map_shows_in_read(void)
{
    const int fd = cf_open("file");
    CF_OK(ftruncate(fd, SIZE));
    unsigned char *at = map_shared(fd, SIZE);
    unsigned char *data = cf_pattern(SIZE, 3), *copy = malloc(SIZE);
    CF_CHECK(copy != NULL);
    memcpy(at, data, SIZE);
    const int other = CF_OK(open("file", O_RDONLY));
    cf_pread(other, copy, SIZE, 0);
    CF_SAME(copy, data, SIZE);
}

/* After msync the bytes have left the page cache: O_DIRECT, where there is, reads them back. */
static void synced(void)
{
    const int fd = cf_open("file");
    CF_OK(ftruncate(fd, SIZE));
    unsigned char *at = map_shared(fd, SIZE);
    unsigned char *data = cf_pattern(SIZE, 4);
    memcpy(at, data, SIZE);
    CF_OK(msync(at, SIZE, MS_SYNC));
    void *aligned = NULL;
    CF_EQUAL(posix_memalign(&aligned, 4096, 303104), 0);
    const int direct = open("file", O_RDONLY | O_DIRECT);
    if (direct >= 0) {
        CF_EQUAL(pread(direct, aligned, 303104, 0), SIZE);
        CF_SAME(aligned, data, SIZE);
    }
    at[1000] ^= 0xff;
    CF_OK(munmap(at, SIZE));
    CF_OK(fsync(fd));
    CF_OK(close(fd));
    CF_OK(posix_fadvise(CF_OK(open("file", O_RDONLY)), 0, 0, POSIX_FADV_DONTNEED));
    unsigned char byte;
    cf_pread(CF_OK(open("file", O_RDONLY)), &byte, 1, 1000);
    CF_EQUAL(byte, data[1000] ^ 0xff);
}

static void private_map(void)
{
    cf_write_file("file", "abcdef");
    const int fd = CF_OK(open("file", O_RDONLY));
    unsigned char *at = map(fd, 6, PROT_READ | PROT_WRITE, MAP_PRIVATE);
    memcpy(at, "XXXXXX", 6);
    cf_expect_file("file", "abcdef");
}

static void count_up(void *arg)
{
    (void)arg;
    const int fd = CF_OK(open("file", O_RDWR));
    unsigned *counter = (unsigned *)(void *)map_shared(fd, 8192);
    for (unsigned i = 0; i < 100000; i++)
        __atomic_fetch_add(&counter[1030], 1, __ATOMIC_RELAXED);
}

static void shared_between_processes(void)
{
    const int fd = cf_open("file");
    CF_OK(ftruncate(fd, 8192));
    const pid_t one = cf_fork(count_up, NULL), two = cf_fork(count_up, NULL);
    cf_join(one);
    cf_join(two);
    unsigned total;
    cf_pread(fd, &total, sizeof total, 1030 * sizeof total);
    CF_EQUAL(total, 200000);
}

static sigjmp_buf on_bus_error; /* a signal handler has no argument to carry it */

static void jump_out(int number)
{
    siglongjmp(on_bus_error, number);
}

static bool raises_bus_error(const volatile unsigned char *at)
{
    signal(SIGBUS, jump_out);
    const int number = sigsetjmp(on_bus_error, 1);
    if (number == 0)
        (void)*at;
    signal(SIGBUS, SIG_DFL);
    return number == SIGBUS;
}

static void beyond_the_end(void)
{
    const int fd = cf_open("file");
    CF_OK(ftruncate(fd, 5000));
    unsigned char *at = map_shared(fd, 16384);
    CF_CHECK(!raises_bus_error(at + 8191));
    CF_CHECK(raises_bus_error(at + 8192));
    CF_OK(ftruncate(fd, 16384));
    CF_CHECK(!raises_bus_error(at + 16383));
    at[16383] = 7;
    CF_OK(ftruncate(fd, 4096));
    CF_CHECK(raises_bus_error(at + 4096));
    CF_OK(ftruncate(fd, 16384));
    CF_EQUAL(at[16383], 0); /* what was cut off does not come back */
}

/* Bytes stored in the last page behind the end of the file are no part of it. */
static void tail_of_last_page(void)
{
    struct statfs status;
    const int fd = cf_open("file");
    CF_OK(fstatfs(fd, &status));
    if (status.f_type == TMPFS_MAGIC)
        CF_SKIP("tmpfs, which never writes back, keeps them");
    cf_pwrite(fd, "abc", 3, 0);
    unsigned char *at = map_shared(fd, 4096);
    memset(at, 'z', 4096);
    CF_OK(msync(at, 4096, MS_SYNC));
    CF_OK(munmap(at, 4096));
    CF_EQUAL(cf_fstat(fd).st_size, 3);
    CF_OK(ftruncate(fd, 8192));
    cf_expect_fill(fd, 'z', 3, 0);
    cf_expect_fill(fd, 0, 8189, 3);
}

static void access_errors(void)
{
    cf_write_file("file", "abc");
    CF_OK(mkdir("dir", 0755));
    const int reader = CF_OK(open("file", O_RDONLY)), writer = CF_OK(open("file", O_WRONLY));
    const int dir = CF_OK(open("dir", O_RDONLY));
    CF_FAILS((intptr_t)mmap(NULL, 1, PROT_WRITE, MAP_SHARED, reader, 0), EACCES);
    CF_FAILS((intptr_t)mmap(NULL, 1, PROT_READ, MAP_SHARED, writer, 0), EACCES);
    CF_FAILS((intptr_t)mmap(NULL, 1, PROT_READ, MAP_SHARED, dir, 0), ENODEV);
    CF_FAILS((intptr_t)mmap(NULL, 0, PROT_READ, MAP_SHARED, reader, 0), EINVAL);
}

static void unlinked(void)
{
    const int fd = cf_open("file");
    unsigned char *data = cf_pattern(SIZE, 6);
    cf_pwrite(fd, data, SIZE, 0);
    unsigned char *at = map_shared(fd, SIZE);
    CF_OK(unlink("file"));
    CF_OK(close(fd));
    CF_SAME(at, data, SIZE);
    at[77] = 1;
    CF_OK(msync(at, SIZE, MS_SYNC));
    CF_EQUAL(at[77], 1);
}

static void sets_times(void)
{
    const int fd = cf_open("file");
    CF_OK(ftruncate(fd, 4096));
    const struct timespec past[2] = {{.tv_sec = 1000000000}, {.tv_sec = 1000000000}};
    CF_OK(futimens(fd, past));
    unsigned char *at = map_shared(fd, 4096);
    at[5] = 1;
    CF_OK(msync(at, 4096, MS_SYNC));
    CF_OK(munmap(at, 4096));
    CF_CHECK(cf_fstat(fd).st_mtim.tv_sec > 1500000000);
}

static void program_runs(void)
{
    static char content[4 << 20];
    const int in = CF_OK(open("/bin/sh", O_RDONLY));
    const ssize_t size = CF_OK(read(in, content, sizeof content));
    const int out = CF_OK(open("shell", O_WRONLY | O_CREAT, 0755));
    cf_pwrite(out, content, (size_t)size, 0);
    CF_OK(close(out));
    const pid_t child = CF_OK(fork());
    if (child == 0) {
        execl("./shell", "shell", "-c", "exit 42", (char *)NULL);
        _exit(errno == EACCES ? 43 : 44);
    }
    int status;
    CF_OK(waitpid(child, &status, 0));
    if (WEXITSTATUS(status) == 43)
        CF_SKIP("mounted noexec");
    CF_EQUAL(WEXITSTATUS(status), 42);
}

static const struct cf_case cases[] = {
    {"a mapping shows the file and outlives the descriptor", read_through_map},
    {"what is written shows in a shared mapping at once", write_shows_in_map},
    {"what is stored in a shared mapping is read at once", map_shows_in_read},
    {"msync and munmap with fsync write back", synced},
    {"a private mapping changes no file", private_map},
    {"two processes count in one shared mapping", shared_between_processes},
    {"pages beyond the end raise SIGBUS until the file grows", beyond_the_end},
    {"bytes behind the end in the last page are not stored", tail_of_last_page},
    {"protection must fit the descriptor", access_errors},
    {"a mapping of an unlinked file works on", unlinked},
    {"a store through a mapping sets mtime by msync", sets_times},
    {"a program copied here runs", program_runs},
    {NULL, NULL},
};

const struct cf_topic cf_topic_map = {"map", cases};
