/* SPDX-License-Identifier: BSD-2-Clause
 *
 * conformance_time.c - time stamps: what sets which, to the nanosecond.
 *
 * mtime and atime are set into the past before an operation, so that "was updated" needs no waiting;
 * ctime cannot be set, so cf_tick lets the clock move on first.
 */
#include <time.h>

#include "conformance.h"

static const struct timespec old = {.tv_sec = 1000000000, .tv_nsec = 123456789};

static void set_times(const char *name, struct timespec atime, struct timespec mtime)
{
    const struct timespec both[2] = {atime, mtime};
    CF_OK(utimensat(AT_FDCWD, name, both, AT_SYMLINK_NOFOLLOW));
}

static bool is_recent(struct timespec stamp)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return stamp.tv_sec >= now.tv_sec - 60 && stamp.tv_sec <= now.tv_sec + 1;
}

/* The file's times as they were, aged, before an operation. */
static struct stat age(const char *name)
{
    set_times(name, old, old);
    const struct stat before = cf_stat(name);
    cf_tick();
    return before;
}

enum stamps { NONE = 0, MTIME = 1, CTIME = 2 };

/* NAME's times since age(): exactly those of UPDATED have changed, and to the present. */
static void expect_updated(const char *name, const struct stat *before, unsigned updated)
{
    const struct stat after = cf_stat(name);
    if (updated & MTIME)
        CF_CHECK(is_recent(after.st_mtim));
    else
        CF_EQUAL(cf_compare_times(after.st_mtim, before->st_mtim), 0);
    CF_EQUAL(cf_compare_times(after.st_ctim, before->st_ctim), updated & CTIME ? 1 : 0);
    CF_CHECK(is_recent(after.st_ctim));
}

static void nanoseconds(void)
{
    static const struct timespec values[] = {
        {0, 0}, {1, 1}, {1000000000, 999999999}, {2147483647, 500000001}, {1700000000, 123456789}};
    cf_write_file("file", "x");
    CF_OK(mkdir("dir", 0755));
    CF_OK(symlink("file", "link"));
    static const char *const names[] = {"file", "dir", "link"};
    for (size_t n = 0; n < 3; n++) {
        for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
            const struct timespec atime = values[sizeof values / sizeof *values - 1 - i];
            set_times(names[n], atime, values[i]);
            const struct stat status = cf_stat(names[n]);
            CF_EQUAL(status.st_mtim.tv_sec, values[i].tv_sec);
            CF_EQUAL(status.st_mtim.tv_nsec, values[i].tv_nsec);
            CF_EQUAL(status.st_atim.tv_sec, atime.tv_sec);
            CF_EQUAL(status.st_atim.tv_nsec, atime.tv_nsec);
        }
    }
}

static void beyond_2038_and_before_1970(void)
{
    static const struct timespec values[] = {{-1, 999999999}, {-1000000000, 5}, {4294967296, 7}};
    cf_write_file("file", "x");
    for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
        set_times("file", values[i], values[i]);
        CF_EQUAL(cf_stat("file").st_mtim.tv_sec, values[i].tv_sec);
        CF_EQUAL(cf_stat("file").st_mtim.tv_nsec, values[i].tv_nsec);
        CF_EQUAL(cf_stat("file").st_atim.tv_sec, values[i].tv_sec);
    }
}

static void now_and_omit(void)
{
    cf_write_file("file", "x");
    set_times("file", old, old);
    const struct timespec omit = {.tv_nsec = UTIME_OMIT}, now = {.tv_nsec = UTIME_NOW};
    set_times("file", omit, (struct timespec){5, 6});
    CF_EQUAL(cf_compare_times(cf_stat("file").st_atim, old), 0);
    CF_EQUAL(cf_stat("file").st_mtim.tv_sec, 5);
    set_times("file", (struct timespec){7, 8}, omit);
    CF_EQUAL(cf_stat("file").st_atim.tv_sec, 7);
    CF_EQUAL(cf_stat("file").st_mtim.tv_sec, 5);
    set_times("file", now, omit);
    CF_CHECK(is_recent(cf_stat("file").st_atim));
    CF_EQUAL(cf_stat("file").st_mtim.tv_sec, 5);
    CF_OK(utimensat(AT_FDCWD, "file", NULL, 0));
    CF_CHECK(is_recent(cf_stat("file").st_mtim));
    const struct timespec bad[2] = {{.tv_nsec = 1000000000}, {0}};
    CF_FAILS(utimensat(AT_FDCWD, "file", bad, 0), EINVAL);
}

static void who_may_set(void)
{
    cf_need_users();
    const struct timespec set[2] = {old, old};
    cf_write_file("writable", "x");
    cf_write_file("closed", "x");
    CF_OK(chmod("writable", 0666));
    cf_become(CF_USER, CF_USER);
    CF_OK(utimensat(AT_FDCWD, "writable", NULL, 0));
    CF_FAILS(utimensat(AT_FDCWD, "writable", set, 0), EPERM);
    CF_FAILS(utimensat(AT_FDCWD, "closed", NULL, 0), EACCES);
    CF_FAILS(utimensat(AT_FDCWD, "closed", set, 0), EPERM);
}

static void written(void)
{
    const int fd = cf_open("file");
    struct stat before = age("file");
    cf_pwrite(fd, "abc", 3, 0);
    expect_updated("file", &before, MTIME | CTIME);
    before = age("file");
    CF_OK(ftruncate(fd, 1));
    expect_updated("file", &before, MTIME | CTIME);
    before = age("file");
    CF_OK(ftruncate(fd, 100000));
    expect_updated("file", &before, MTIME | CTIME);
    before = age("file");
    CF_OK(close(CF_OK(open("file", O_WRONLY | O_TRUNC))));
    expect_updated("file", &before, MTIME | CTIME);
}

static void set_after_write_stays(void)
{
    const int fd = cf_open("file");
    cf_pwrite(fd, "abc", 3, 0);
    set_times("file", old, old); /* as tar does, before the descriptor is closed */
    CF_OK(fsync(fd));
    CF_OK(close(fd));
    CF_EQUAL(cf_compare_times(cf_stat("file").st_mtim, old), 0);
    CF_EQUAL(cf_compare_times(cf_stat("file").st_atim, old), 0);
}

static void read_changes_nothing_else(void)
{
    char content[8];
    cf_write_file("file", "abc");
    const struct stat before = age("file");
    const int fd = CF_OK(open("file", O_RDONLY));
    CF_EQUAL(read(fd, content, sizeof content), 3);
    CF_EQUAL(read(fd, content, sizeof content), 0);
    CF_OK(close(fd));
    expect_updated("file", &before, NONE);
}

static void attributes_change_ctime(void)
{
    cf_write_file("file", "x");
    struct stat before = age("file");
    CF_OK(chmod("file", 0600));
    expect_updated("file", &before, CTIME);
    before = age("file");
    CF_OK(chown("file", geteuid(), getegid()));
    expect_updated("file", &before, CTIME);
    before = age("file");
    CF_OK(link("file", "second"));
    expect_updated("file", &before, CTIME);
    before = age("file");
    CF_OK(unlink("second"));
    expect_updated("file", &before, CTIME);
    before = age("file");
    CF_OK(rename("file", "renamed"));
    expect_updated("renamed", &before, CTIME);
}

static void names_change_directory(void)
{
    CF_OK(mkdir("dir", 0755));
    CF_OK(mkdir("other", 0755));
    struct stat before = age("dir");
    cf_write_file("dir/file", "x");
    expect_updated("dir", &before, MTIME | CTIME);
    before = age("dir");
    CF_OK(mkdir("dir/sub", 0755));
    expect_updated("dir", &before, MTIME | CTIME);
    before = age("dir");
    CF_OK(symlink("x", "dir/link"));
    expect_updated("dir", &before, MTIME | CTIME);
    before = age("dir");
    CF_OK(link("dir/file", "dir/hard"));
    expect_updated("dir", &before, MTIME | CTIME);
    before = age("dir");
    CF_OK(rmdir("dir/sub"));
    expect_updated("dir", &before, MTIME | CTIME);
    before = age("dir");
    CF_OK(unlink("dir/link"));
    expect_updated("dir", &before, MTIME | CTIME);
    before = age("dir");
    const struct stat target = age("other");
    CF_OK(rename("dir/file", "other/file"));
    expect_updated("dir", &before, MTIME | CTIME);
    expect_updated("other", &target, MTIME | CTIME);
    before = age("dir");
    cf_write_file("dir/hard", "content does not change the directory");
    expect_updated("dir", &before, NONE);
}

static void failures_change_nothing(void)
{
    CF_OK(mkdir("dir", 0755));
    cf_write_file("dir/file", "x");
    const struct stat dir = age("dir"), file = age("dir/file");
    CF_FAILS(mkdir("dir/file", 0755), EEXIST);
    CF_FAILS(rmdir("dir/file"), ENOTDIR);
    CF_FAILS(unlink("dir/missing"), ENOENT);
    CF_FAILS(link("dir/file", "dir/file"), EEXIST);
    CF_FAILS(open("dir/file", O_RDWR | O_CREAT | O_EXCL, 0644), EEXIST);
    expect_updated("dir", &dir, NONE);
    expect_updated("dir/file", &file, NONE);
}

static void birth(void)
{
    struct statx status;
    cf_write_file("file", "x");
    CF_OK(statx(AT_FDCWD, "file", 0, STATX_BTIME, &status));
    if (!(status.stx_mask & STATX_BTIME))
        CF_SKIP("no birth time");
    const int64_t born = status.stx_btime.tv_sec;
    CF_CHECK(is_recent((struct timespec){born, 0}));
    set_times("file", old, old);
    CF_OK(statx(AT_FDCWD, "file", 0, STATX_BTIME, &status));
    CF_EQUAL(status.stx_btime.tv_sec, born);
}

static const struct cf_case cases[] = {
    {"utimensat keeps seconds and nanoseconds of files, directories and symlinks", nanoseconds},
    {"times before 1970 and after 2038", beyond_2038_and_before_1970},
    {"UTIME_NOW and UTIME_OMIT; a bad nanosecond is EINVAL", now_and_omit},
    {"owners set any time, writers the present only", who_may_set},
    {"write and truncate set mtime and ctime", written},
    {"a time set after a write survives fsync and close", set_after_write_stays},
    {"read leaves mtime and ctime alone", read_changes_nothing_else},
    {"chmod, chown, link, unlink and rename set ctime only", attributes_change_ctime},
    {"a change of names sets the directory's mtime and ctime", names_change_directory},
    {"calls that fail change no time", failures_change_nothing},
    {"the birth time is set once", birth},
    {NULL, NULL},
};

const struct cf_topic cf_topic_time = {"time", cases};
