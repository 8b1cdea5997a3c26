/* SPDX-License-Identifier: BSD-2-Clause
 *
 * conformance_open.c - open(2): flags, creation, and the errors of path resolution.
 */
#include "conformance.h"

static void creates_with_umask(void)
{
    umask(027);
    const int fd = CF_OK(open("file", O_RDWR | O_CREAT, 0666));
    const struct stat status = cf_fstat(fd);
    CF_CHECK(S_ISREG(status.st_mode));
    CF_EQUAL(status.st_mode & 07777, 0640);
    CF_EQUAL(status.st_size, 0);
    CF_EQUAL(status.st_nlink, 1);
    CF_EQUAL(status.st_uid, geteuid());
    CF_EQUAL(cf_stat("file").st_ino, status.st_ino);
}

static void exclusive_refuses(void)
{
    cf_write_file("file", "x");
    CF_OK(symlink("nowhere", "dangling"));
    CF_OK(mkdir("dir", 0755));
    CF_FAILS(open("file", O_RDWR | O_CREAT | O_EXCL, 0644), EEXIST);
    CF_FAILS(open("dangling", O_RDWR | O_CREAT | O_EXCL, 0644), EEXIST);
    CF_FAILS(open("dir", O_RDONLY | O_CREAT | O_EXCL, 0644), EEXIST);
    CF_CHECK(!cf_exists("nowhere"));
    cf_expect_file("file", "x");
}

struct race {
    struct cf_signal won;
    unsigned rounds;
};

static void create_exclusively(void *arg)
{
    const struct race *race = arg;
    for (unsigned i = 0; i < race->rounds; i++) {
        char name[32];
        snprintf(name, sizeof name, "race-%u", i);
        const int fd = open(name, O_WRONLY | O_CREAT | O_EXCL, 0644);
        if (fd >= 0)
            cf_signal_send(&race->won);
        else
            CF_EQUAL(errno, EEXIST);
        close(fd);
    }
}

static void exclusive_has_one_winner(void)
{
    struct race race = {.won = cf_signal_new(), .rounds = 100};
    pid_t children[4];
    for (size_t i = 0; i < 4; i++)
        children[i] = cf_fork(create_exclusively, &race);
    for (size_t i = 0; i < 4; i++)
        cf_join(children[i]);
    char wins[1000];
    CF_EQUAL(read(race.won.read, wins, sizeof wins), race.rounds);
}

static void missing_is_enoent(void)
{
    CF_FAILS(open("missing", O_RDONLY), ENOENT);
    CF_FAILS(open("missing/file", O_RDWR | O_CREAT, 0644), ENOENT);
    CF_FAILS(open("", O_RDONLY), ENOENT);
    CF_OK(symlink("missing", "dangling"));
    CF_FAILS(open("dangling", O_RDONLY), ENOENT);
}

static void creates_through_symlink(void)
{
    CF_OK(symlink("target", "link"));
    CF_OK(close(CF_OK(open("link", O_WRONLY | O_CREAT, 0644))));
    CF_CHECK(S_ISREG(cf_stat("target").st_mode));
    CF_CHECK(S_ISLNK(cf_stat("link").st_mode));
}

static void truncates(void)
{
    cf_write_file("file", "some content");
    const int fd = CF_OK(open("file", O_RDWR | O_TRUNC));
    CF_EQUAL(cf_fstat(fd).st_size, 0);
    CF_OK(close(fd));
    cf_expect_file("file", "");
}

static void wrong_kinds(void)
{
    cf_write_file("file", "x");
    CF_OK(mkdir("dir", 0755));
    CF_OK(symlink("file", "link"));
    CF_FAILS(open("file", O_RDONLY | O_DIRECTORY), ENOTDIR);
    CF_FAILS(open("file/below", O_RDONLY), ENOTDIR);
    CF_FAILS(open("file/", O_RDONLY), ENOTDIR);
    CF_FAILS(open("link", O_RDONLY | O_NOFOLLOW), ELOOP);
    CF_FAILS(open("dir", O_WRONLY), EISDIR);
    CF_FAILS(open("dir", O_RDWR | O_CREAT, 0644), EISDIR);
    CF_FAILS(open("new/", O_WRONLY | O_CREAT, 0644), EISDIR);
    CF_CHECK(!cf_exists("new"));
}

static void symlink_loop(void)
{
    CF_OK(symlink("b", "a"));
    CF_OK(symlink("a", "b"));
    CF_FAILS(open("a", O_RDONLY), ELOOP);
    CF_FAILS(open("a/file", O_RDONLY), ELOOP);
}

static void access_modes(void)
{
    char byte = 'x';
    cf_write_file("file", "abc");
    const int reader = CF_OK(open("file", O_RDONLY));
    const int writer = CF_OK(open("file", O_WRONLY));
    CF_FAILS(write(reader, &byte, 1), EBADF);
    CF_FAILS(read(writer, &byte, 1), EBADF);
    CF_FAILS_EITHER(ftruncate(reader, 0), EINVAL, EBADF);
    cf_expect_file("file", "abc");
}

static void directory_is_not_read(void)
{
    char byte;
    CF_OK(mkdir("dir", 0755));
    const int fd = CF_OK(open("dir", O_RDONLY));
    CF_FAILS(read(fd, &byte, 1), EISDIR);
}

static void read_only_mode_is_writable_by_creator(void)
{
    cf_need_users();
    cf_become(CF_USER, CF_USER);
    const int fd = CF_OK(open("file", O_RDWR | O_CREAT, 0400));
    cf_pwrite(fd, "abc", 3, 0);
    CF_FAILS(open("file", O_RDWR), EACCES);
    cf_expect_file("file", "abc");
}

static void permission_needed(void)
{
    cf_need_users();
    cf_write_file("file", "abc");
    CF_OK(chmod("file", 0604));
    CF_OK(mkdir("closed", 0700));
    cf_write_file("closed/file", "abc");
    cf_become(CF_USER, CF_USER);
    CF_OK(open("file", O_RDONLY));
    CF_FAILS(open("file", O_WRONLY), EACCES);
    CF_FAILS(open("file", O_RDONLY | O_TRUNC), EACCES);
    CF_FAILS(open("closed/file", O_RDONLY), EACCES);
    CF_FAILS(open("closed/new", O_RDWR | O_CREAT, 0644), EACCES);
    cf_become_root();
    cf_expect_file("file", "abc");
}

static void path_only(void)
{
    char byte;
    cf_write_file("file", "abc");
    const int fd = CF_OK(open("file", O_PATH));
    CF_EQUAL(cf_fstat(fd).st_size, 3);
    CF_FAILS(read(fd, &byte, 1), EBADF);
    char path[64];
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    cf_expect_file(path, "abc");
}

static void unnamed_file(void)
{
    const int fd = CF_OK_OR_SKIP(open(".", O_TMPFILE | O_RDWR, 0600));
    cf_pwrite(fd, "abc", 3, 0);
    CF_EQUAL(cf_fstat(fd).st_nlink, 0);
    char path[64];
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    CF_OK(linkat(AT_FDCWD, path, AT_FDCWD, "named", AT_SYMLINK_FOLLOW));
    CF_EQUAL(cf_fstat(fd).st_nlink, 1);
    cf_expect_file("named", "abc");
}

static void relative_to_moved_directory(void)
{
    CF_OK(mkdir("old", 0755));
    const int dir = CF_OK(open("old", O_RDONLY | O_DIRECTORY));
    CF_OK(rename("old", "new"));
    CF_OK(close(CF_OK(openat(dir, "file", O_WRONLY | O_CREAT, 0644))));
    CF_CHECK(cf_exists("new/file"));
    CF_FAILS(open("old/file", O_RDONLY), ENOENT);
}

static void closed_descriptors(void)
{
    char byte;
    const int fd = cf_open("file");
    CF_OK(close(fd));
    CF_FAILS(close(fd), EBADF);
    CF_FAILS(pread(fd, &byte, 1, 0), EBADF);
    CF_FAILS(fsync(fd), EBADF);
}

static const struct cf_case cases[] = {
    {"O_CREAT makes an empty file with mode less umask", creates_with_umask},
    {"O_EXCL refuses a file, a directory and a dangling symlink", exclusive_refuses},
    {"O_EXCL lets exactly one of four processes win", exclusive_has_one_winner},
    {"a missing file or directory is ENOENT", missing_is_enoent},
    {"O_CREAT on a dangling symlink creates its target", creates_through_symlink},
    {"O_TRUNC empties the file", truncates},
    {"O_DIRECTORY, O_NOFOLLOW, slashes and directories as files", wrong_kinds},
    {"a loop of symlinks is ELOOP", symlink_loop},
    {"a descriptor allows what it was opened for only", access_modes},
    {"read of a directory is EISDIR", directory_is_not_read},
    {"the creator may write a file of mode 0400 through its first descriptor",
     read_only_mode_is_writable_by_creator},
    {"the modes of file and directories decide on open", permission_needed},
    {"O_PATH gives fstat but no read", path_only},
    {"O_TMPFILE has no name until linkat gives it one", unnamed_file},
    {"openat follows a directory that was renamed", relative_to_moved_directory},
    {"a closed descriptor is EBADF", closed_descriptors},
    {NULL, NULL},
};

const struct cf_topic cf_topic_open = {"open", cases};
