/* SPDX-License-Identifier: BSD-2-Clause
 *
 * conformance_limit.c - rules at the limits of numbers and sizes, and those on times, owners and
 * handles that follow from several calls together.
 */
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <sys/xattr.h>

#include "conformance.h"

/* ---- sizes -------------------------------------------------------------------------------------- */

static void allocate_limits(void)
{
    const int fd = cf_open("file");
    CF_OK_OR_SKIP(fallocate(fd, FALLOC_FL_KEEP_SIZE, 0, 1));
    CF_FAILS(fallocate(fd, 0, -1, 10), EINVAL);
    CF_FAILS(fallocate(fd, 0, 0, 0), EINVAL);
    CF_FAILS(fallocate(fd, 0, 0, -10), EINVAL);
    CF_FAILS(fallocate(fd, 0, INT64_MAX - 5, 10), EFBIG);
    CF_FAILS(fallocate(fd, FALLOC_FL_PUNCH_HOLE, 0, 10), EOPNOTSUPP); /* without KEEP_SIZE */
    CF_FAILS(fallocate(fd, 0x4000, 0, 10), EOPNOTSUPP);
    CF_EQUAL(cf_fstat(fd).st_size, 0);
}

/* Not everywhere; but where they are they do what they say. */
static void collapse_and_insert(void)
{
    const int fd = cf_open("file");
    unsigned char *bytes = cf_pattern(1 << 20, 7), *got = malloc(1 << 20);
    const off_t unit = 65536;
    CF_CHECK(got != NULL);
    cf_pwrite(fd, bytes, 1 << 20, 0);
    if (fallocate(fd, FALLOC_FL_COLLAPSE_RANGE, unit, unit)) {
        CF_EQUAL(errno, EOPNOTSUPP);
    } else {
        CF_EQUAL(cf_fstat(fd).st_size, (1 << 20) - unit);
        memmove(bytes + unit, bytes + 2 * unit, (size_t)((1 << 20) - 2 * unit));
        cf_pread(fd, got, (size_t)((1 << 20) - unit), 0);
        CF_SAME(got, bytes, (size_t)((1 << 20) - unit));
        CF_OK(fallocate(fd, FALLOC_FL_INSERT_RANGE, unit, unit));
        cf_expect_fill(fd, 0, (size_t)unit, unit);
    }
    CF_EQUAL(cf_fstat(fd).st_size, 1 << 20);
    cf_pread(fd, got, (size_t)unit, 0);
    CF_SAME(got, bytes, (size_t)unit);
    free(bytes);
    free(got);
}

static void exceed_limit(void *arg)
{
    const struct rlimit most = {.rlim_cur = 10000, .rlim_max = 10000};
    const int fd = CF_OK(open("file", O_WRONLY));
    CF_OK(setrlimit(RLIMIT_FSIZE, &most));
    signal(SIGXFSZ, arg ? SIG_IGN : SIG_DFL);
    CF_FAILS(fallocate(fd, 0, 5000, 5001), EFBIG);
    CF_FAILS(pwrite(fd, "x", 1, 10000), EFBIG);
}

static void limit_kills(void)
{
    int status, ignored = 1;
    const int fd = cf_open("file");
    CF_OK_OR_SKIP(fallocate(fd, FALLOC_FL_KEEP_SIZE, 0, 1));
    cf_join(cf_fork(exceed_limit, &ignored));
    const pid_t child = cf_fork(exceed_limit, NULL);
    CF_OK(waitpid(child, &status, 0));
    CF_CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGXFSZ);
    CF_EQUAL(cf_fstat(fd).st_size, 0);
}

/* Where the first data is said to be; -1: nowhere. */
static off_t first_data(int fd)
{
    const off_t found = lseek(fd, 0, SEEK_DATA);
    if (found < 0)
        CF_EQUAL(errno, ENXIO);
    return found;
}

static void huge_and_empty(void)
{
    const off_t size = INT64_C(1) << 43; /* 8 TiB: ext4 with blocks of 4 KiB has twice that */
    const int fd = cf_open("file");
    CF_OK(ftruncate(fd, size));
    CF_EQUAL(cf_fstat(fd).st_size, size);
    CF_CHECK(cf_fstat(fd).st_blocks < 1000);
    cf_expect_fill(fd, 0, 5000, size - 5000);
    char byte;
    CF_EQUAL(pread(fd, &byte, 1, size), 0);
    CF_CHECK(first_data(fd) <= 0); /* that a hole is one need not be told */
    cf_pwrite(fd, "end", 3, size - 3);
    CF_CHECK(first_data(fd) == 0 || first_data(fd) > size - (1 << 23));
    CF_CHECK(first_data(fd) <= size - 3);
    CF_OK(ftruncate(fd, 10));
    CF_OK(ftruncate(fd, size));
    cf_expect_fill(fd, 0, 3, size - 3);
}

/* Old tars and greps take a file with a size and no blocks for one hole. */
static void data_has_blocks(void)
{
    unsigned char *bytes = cf_pattern(300000, 11);
    const int fd = cf_open("file");
    cf_pwrite(fd, bytes, 300000, 0);
    CF_CHECK(cf_fstat(fd).st_blocks > 0);
    CF_CHECK(cf_stat("file").st_blocks > 0);
    CF_OK(ftruncate(fd, 0));
    CF_OK(ftruncate(fd, 300000));
    cf_pwrite(fd, bytes, 10, 200000);
    CF_CHECK(cf_fstat(fd).st_blocks > 0);
    CF_OK(fsync(fd));
    CF_CHECK(cf_fstat(fd).st_blocks > 0);
    free(bytes);
}

static void offsets_do_not_wrap(void)
{
    const int fd = cf_open("file");
    char byte;
    cf_pwrite(fd, "abc", 3, 0);
    CF_FAILS(lseek(fd, -1, SEEK_SET), EINVAL);
    CF_FAILS(lseek(fd, -4, SEEK_END), EINVAL);
    CF_EQUAL(lseek(fd, 10, SEEK_END), 13);
    CF_FAILS_EITHER(lseek(fd, INT64_MAX, SEEK_CUR), EOVERFLOW, EINVAL);
    CF_EQUAL(lseek(fd, 0, SEEK_CUR), 13);
    CF_EQUAL(read(fd, &byte, 1), 0);
    CF_FAILS(ftruncate(fd, -1), EINVAL);
    CF_FAILS(truncate("file", INT64_MIN), EINVAL);
    CF_FAILS(pread(fd, &byte, 1, INT64_MIN), EINVAL);
    cf_expect_file("file", "abc");
}

static void many_attributes(void)
{
    static char list[65536];
    char name[32], value[32];
    unsigned made = 0;
    cf_write_file("file", "");
    CF_OK_OR_SKIP(setxattr("file", "user.probe", "", 0, 0));
    CF_OK(removexattr("file", "user.probe"));
    for (; made < 500; made++) {
        snprintf(name, sizeof name, "user.number-%u", made);
        if (setxattr("file", name, name, strlen(name), XATTR_CREATE) == 0)
            continue;
        CF_EQUAL(errno, ENOSPC); /* ext4 keeps them in one block */
        break;
    }
    CF_CHECK(made >= 50);
    const ssize_t size = CF_OK(listxattr("file", list, sizeof list));
    unsigned listed = 0;
    for (ssize_t i = 0; i < size; i += (ssize_t)strlen(list + i) + 1)
        listed += strncmp(list + i, "user.number-", 12) == 0;
    CF_EQUAL(listed, made);
    for (unsigned i = 0; i < made; i += 7) {
        snprintf(name, sizeof name, "user.number-%u", i);
        CF_EQUAL(getxattr("file", name, value, sizeof value), strlen(name));
        CF_SAME(value, name, strlen(name));
        CF_OK(removexattr("file", name));
        CF_FAILS(getxattr("file", name, value, sizeof value), ENODATA);
    }
}

static void counts_of_statvfs(void)
{
    struct statvfs status;
    const int fd = cf_open("file");
    CF_OK(fstatvfs(fd, &status));
    CF_CHECK(status.f_bsize > 0 && status.f_frsize > 0);
    CF_CHECK((status.f_frsize & (status.f_frsize - 1)) == 0);
    CF_CHECK(status.f_blocks > 0 && status.f_bfree <= status.f_blocks);
    CF_CHECK(status.f_bavail <= status.f_bfree);
    CF_CHECK(status.f_ffree <= status.f_files && status.f_favail <= status.f_ffree);
    CF_CHECK(status.f_files - status.f_ffree > 0); /* this one is in use */
    CF_CHECK(!(status.f_flag & ST_RDONLY));
    CF_EQUAL(status.f_namemax, 255);
    CF_EQUAL(fpathconf(fd, _PC_NAME_MAX), 255);
    CF_EQUAL(fpathconf(fd, _PC_PATH_MAX), 4096);
}

/* ---- times -------------------------------------------------------------------------------------- */

static const struct timespec past[2] = {{.tv_sec = 1000000000}, {.tv_sec = 1000000000}};

/* After CALL, a change of the content, mtime and ctime of FD must be later than before. */
#define CHANGES(fd, call)                                                                          \
    do {                                                                                           \
        CF_OK(futimens((fd), past));                                                               \
        const struct stat before = cf_fstat(fd);                                                   \
        cf_tick();                                                                                 \
        CF_OK(call);                                                                               \
        CF_CHECK(cf_fstat(fd).st_mtim.tv_sec > past[0].tv_sec);                                    \
        CF_EQUAL(cf_compare_times(cf_fstat(fd).st_ctim, before.st_ctim), 1);                       \
    } while (0)

static void content_calls_set_times(void)
{
    loff_t in = 0, out = 50;
    const int fd = cf_open("file"), source = cf_open("source");
    cf_pwrite(fd, "0123456789", 10, 0);
    cf_pwrite(source, "0123456789", 10, 0);
    CHANGES(fd, write(fd, "x", 1));
    CHANGES(fd, ftruncate(fd, 100));
    CHANGES(fd, ftruncate(fd, 20));
    CHANGES(fd, copy_file_range(source, &in, fd, &out, 10, 0));
    CF_OK_OR_SKIP(fallocate(fd, 0, 0, 10000));
    CHANGES(fd, fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 2, 5));
    CHANGES(fd, fallocate(fd, 0, 0, 20000));
}

static void emptying_sets_times(void)
{
    const int fd = cf_open("file");
    CF_OK(fsync(fd));
    CHANGES(fd, close(open("file", O_WRONLY | O_TRUNC))); /* empty before, too */
    cf_pwrite(fd, "abc", 3, 0);
    CHANGES(fd, close(open("file", O_RDWR | O_TRUNC | O_CREAT, 0644)));
    CF_EQUAL(cf_fstat(fd).st_size, 0);
}

static void nothing_sets_no_time(void)
{
    const struct timespec omit[2] = {{.tv_nsec = UTIME_OMIT}, {.tv_nsec = UTIME_OMIT}};
    const int fd = cf_open("file");
    char byte;
    cf_pwrite(fd, "abc", 3, 0);
    CF_OK(fsync(fd));
    CF_OK(futimens(fd, past));
    const struct stat before = cf_fstat(fd);
    cf_tick();
    CF_EQUAL(write(fd, "", 0), 0);
    CF_OK(futimens(fd, omit));
    CF_EQUAL(pread(fd, &byte, 1, 10), 0);
    CF_OK(close(CF_OK(open("file", O_RDWR | O_CREAT, 0600))));
    CF_OK(access("file", R_OK));
    CF_EQUAL(cf_compare_times(cf_fstat(fd).st_mtim, before.st_mtim), 0);
    CF_EQUAL(cf_compare_times(cf_fstat(fd).st_ctim, before.st_ctim), 0);
    CF_EQUAL(cf_fstat(fd).st_mode, before.st_mode);
}

static void lost_name_sets_ctime(void)
{
    cf_write_file("one", "1");
    cf_write_file("new", "2");
    CF_OK(link("one", "two"));
    const struct stat before = cf_stat("two");
    CF_EQUAL(before.st_nlink, 2);
    cf_tick();
    CF_OK(rename("new", "one"));
    CF_EQUAL(cf_stat("two").st_nlink, 1);
    CF_EQUAL(cf_compare_times(cf_stat("two").st_ctim, before.st_ctim), 1);
    CF_EQUAL(cf_compare_times(cf_stat("two").st_mtim, before.st_mtim), 0);
}

/* ---- memory, owners, handles -------------------------------------------------------------------- */

static void private_pages_stay(void)
{
    unsigned char *bytes = cf_pattern(16384, 9);
    const int fd = cf_open("file");
    cf_pwrite(fd, bytes, 16384, 0);
    unsigned char *at = mmap(NULL, 16384, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
    CF_CHECK(at != MAP_FAILED);
    at[5000] = (unsigned char)~bytes[5000]; /* the second page is this process's own now */
    bytes[5000] = (unsigned char)~bytes[5000];
    CF_OK(ftruncate(fd, 8192));
    CF_OK(ftruncate(fd, 16384));
    cf_pwrite(fd, "written later", 13, 4200);
    CF_SAME(at + 4096, bytes + 4096, 4096);
    memset(bytes + 8192, 0, 8192); /* cut off, never touched */
    CF_SAME(at + 8192, bytes + 8192, 8192);
    free(bytes);
}

static void sticky_owner_and_root(void)
{
    cf_need_users();
    CF_OK(mkdir("tmp", 0777));
    CF_OK(chmod("tmp", 01777));
    CF_OK(chown("tmp", CF_USER, CF_USER));
    cf_become(CF_OTHER, CF_OTHER);
    for (unsigned i = 0; i < 4; i++) {
        char name[16];
        snprintf(name, sizeof name, "tmp/%u", i);
        cf_write_file(name, "");
    }
    CF_OK(unlink("tmp/0")); /* the file's owner */
    cf_become(CF_USER, CF_USER);
    CF_OK(unlink("tmp/1")); /* the directory's owner */
    CF_OK(rename("tmp/2", "tmp/5"));
    cf_become_root();
    CF_OK(unlink("tmp/3"));
    CF_OK(unlink("tmp/5"));
    CF_OK(rmdir("tmp"));
}

/* A file without names goes when nothing holds it any more, and a close may be under way. */
static void expect_stale(int here, struct file_handle *handle)
{
    int fd;
    for (unsigned i = 0; i < 20000; i++) {
        cf_tick();
        fd = open_by_handle_at(here, handle, O_RDONLY);
        if (fd < 0)
            break;
        CF_EQUAL(cf_fstat(fd).st_nlink, 0);
        CF_OK(close(fd));
    }
    CF_FAILS(fd, ESTALE);
}

static void handles(void)
{
    struct {
        struct file_handle head;
        unsigned char bytes[128];
    } handle = {.head.handle_bytes = 128};
    int mount;
    if (geteuid() != 0)
        CF_SKIP("only root may open by handle");
    cf_write_file("file", "by its handle");
    CF_OK_OR_SKIP(name_to_handle_at(AT_FDCWD, "file", &handle.head, &mount, 0));
    const int here = CF_OK(open(".", O_RDONLY));
    CF_OK(rename("file", "other")); /* a handle is of the file, not of a name */
    const int fd = CF_OK(open_by_handle_at(here, &handle.head, O_RDONLY));
    CF_EQUAL(cf_fstat(fd).st_ino, cf_stat("other").st_ino);
    CF_OK(close(fd));
    CF_OK(unlink("other"));
    expect_stale(here, &handle.head);
    cf_write_file("file", "another");
    expect_stale(here, &handle.head);
}

static const struct cf_case cases[] = {
    {"fallocate: ranges and modes that are none", allocate_limits},
    {"fallocate: collapse and insert are right or not there", collapse_and_insert},
    {"beyond RLIMIT_FSIZE is EFBIG and SIGXFSZ, for fallocate, too", limit_kills},
    {"a file of 8 TiB without data", huge_and_empty},
    {"a file with data has blocks, also before it is synced", data_has_blocks},
    {"offsets do not wrap around", offsets_do_not_wrap},
    {"hundreds of attributes are kept and listed", many_attributes},
    {"the fields of statvfs agree with each other", counts_of_statvfs},
    {"every call that changes content sets mtime and ctime", content_calls_set_times},
    {"O_TRUNC sets mtime and ctime, also of an empty file", emptying_sets_times},
    {"calls that change nothing set no time", nothing_sets_no_time},
    {"losing a name to rename sets ctime", lost_name_sets_ctime},
    {"pages of a private mapping stay once they were written", private_pages_stay},
    {"in a sticky directory its owner and root remove all", sticky_owner_and_root},
    {"handles name files for as long as they are there", handles},
    {NULL, NULL},
};

const struct cf_topic cf_topic_limit = {"limit", cases};
