/* SPDX-License-Identifier: BSD-2-Clause
 *
 * conformance_directory.c - mkdir(2), rmdir(2), symlink(2) and mknod(2).
 */
#include <dirent.h>
#include <sys/socket.h>
#include <sys/sysmacros.h>
#include <sys/un.h>

#include "conformance.h"

static void make_directory(void)
{
    umask(027);
    CF_OK(mkdir("dir", 0777));
    const struct stat status = cf_stat("dir");
    CF_CHECK(S_ISDIR(status.st_mode));
    CF_EQUAL(status.st_mode & 07777, 0750);
    CF_EQUAL(status.st_nlink, 2);
    CF_EQUAL(status.st_uid, geteuid());
    CF_OK(mkdir("sticky", 01777));
    CF_EQUAL(cf_stat("sticky").st_mode & 07777, 01750);
    CF_OK(mkdir("slash/", 0755));
    CF_CHECK(S_ISDIR(cf_stat("slash").st_mode));
}

static void mkdir_errors(void)
{
    cf_write_file("file", "x");
    CF_OK(mkdir("dir", 0755));
    CF_OK(symlink("missing", "dangling"));
    CF_FAILS(mkdir("dir", 0755), EEXIST);
    CF_FAILS(mkdir("file", 0755), EEXIST);
    CF_FAILS(mkdir("dangling", 0755), EEXIST);
    CF_FAILS(mkdir(".", 0755), EEXIST);
    CF_FAILS(mkdir("missing/dir", 0755), ENOENT);
    CF_FAILS(mkdir("file/dir", 0755), ENOTDIR);
    CF_FAILS(mkdir("", 0755), ENOENT);
}

static void link_counts(void)
{
    char name[32];
    const nlink_t before = cf_stat(".").st_nlink;
    for (unsigned i = 0; i < 50; i++) {
        snprintf(name, sizeof name, "dir-%u", i);
        CF_OK(mkdir(name, 0755));
    }
    cf_write_file("file", "files do not count");
    CF_EQUAL(cf_stat(".").st_nlink, before + 50);
    for (unsigned i = 0; i < 50; i++) {
        snprintf(name, sizeof name, "dir-%u", i);
        CF_OK(rmdir(name));
    }
    CF_EQUAL(cf_stat(".").st_nlink, before);
}

static void rmdir_errors(void)
{
    cf_write_file("file", "x");
    CF_OK(mkdir("full", 0755));
    cf_write_file("full/file", "x");
    CF_OK(symlink("full", "link"));
    CF_FAILS_EITHER(rmdir("full"), ENOTEMPTY, EEXIST);
    CF_FAILS(rmdir("file"), ENOTDIR);
    CF_FAILS(rmdir("link"), ENOTDIR);
    CF_FAILS(rmdir("missing"), ENOENT);
    CF_FAILS(rmdir("full/."), EINVAL);
    CF_FAILS_EITHER(rmdir("full/.."), ENOTEMPTY, EEXIST);
    CF_OK(unlink("full/file"));
    CF_OK(rmdir("full"));
    CF_CHECK(!cf_exists("full"));
}

static void removed_but_open(void)
{
    CF_OK(mkdir("dir", 0755));
    const int fd = CF_OK(open("dir", O_RDONLY | O_DIRECTORY));
    CF_OK(rmdir("dir"));
    CF_EQUAL(cf_fstat(fd).st_nlink, 0);
    CF_FAILS(openat(fd, "file", O_WRONLY | O_CREAT, 0644), ENOENT);
    CF_FAILS(mkdirat(fd, "sub", 0755), ENOENT);
    CF_FAILS(symlinkat("x", fd, "link"), ENOENT);
    DIR *directory = fdopendir(fd);
    CF_CHECK(directory != NULL);
    errno = 0;
    for (struct dirent *entry; (entry = readdir(directory));)
        CF_CHECK(entry->d_name[0] == '.'); /* "." and ".." may still be listed */
    CF_CHECK(errno == 0 || errno == ENOENT);
    CF_OK(mkdir("dir", 0755)); /* the name is free */
}

static void needs_write_to_parent(void)
{
    cf_need_users();
    CF_OK(mkdir("parent", 0755));
    CF_OK(mkdir("parent/dir", 0777));
    cf_become(CF_USER, CF_USER);
    CF_FAILS(mkdir("parent/new", 0755), EACCES);
    CF_FAILS(rmdir("parent/dir"), EACCES);
    CF_FAILS(symlink("x", "parent/link"), EACCES);
    CF_FAILS(mknod("parent/fifo", S_IFIFO | 0644, 0), EACCES);
}

static void symlink_target(void)
{
    char target[4096], read_back[4096];
    static const unsigned sizes[] = {1, 59, 60, 255, 256, 257, 1000, 4095};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        memset(target, 'a', sizeof target);
        target[sizes[i]] = '\0';
        CF_OK(symlink(target, "link"));
        const struct stat status = cf_stat("link");
        CF_CHECK(S_ISLNK(status.st_mode));
        CF_EQUAL(status.st_size, sizes[i]);
        CF_EQUAL(readlink("link", read_back, sizeof read_back), sizes[i]);
        CF_SAME(read_back, target, sizes[i]);
        CF_EQUAL(readlink("link", read_back, 1), 1);
        CF_OK(unlink("link"));
    }
    char longer[4098];
    memset(longer, 'a', sizeof longer - 1);
    longer[sizeof longer - 1] = '\0';
    CF_FAILS(symlink(longer, "link"), ENAMETOOLONG);
    CF_CHECK(!cf_exists("link"));
}

static void symlink_errors(void)
{
    char target[16];
    cf_write_file("file", "x");
    CF_FAILS(symlink("x", "file"), EEXIST);
    CF_FAILS(symlink("x", "missing/link"), ENOENT);
    CF_FAILS(symlink("x", "file/link"), ENOTDIR);
    CF_FAILS(symlink("", "link"), ENOENT);
    CF_FAILS(readlink("file", target, sizeof target), EINVAL);
    CF_FAILS(readlink("missing", target, sizeof target), ENOENT);
}

static void symlink_resolution(void)
{
    CF_OK(mkdir("dir", 0755));
    cf_write_file("dir/file", "abc");
    CF_OK(symlink("dir", "link"));
    CF_OK(symlink("../dir/file", "dir/up"));
    cf_expect_file("link/file", "abc");
    cf_expect_file("link/up", "abc");
    CF_FAILS(unlink("link/"), ENOTDIR);
    CF_OK(unlink("link"));
    CF_CHECK(cf_exists("dir/file"));
}

static void special_files(void)
{
    CF_OK(mknod("fifo", S_IFIFO | 0640, 0));
    CF_OK(mknod("plain", S_IFREG | 0640, 0));
    CF_OK(mknod("socket", S_IFSOCK | 0640, 0));
    CF_CHECK(S_ISFIFO(cf_stat("fifo").st_mode));
    CF_CHECK(S_ISREG(cf_stat("plain").st_mode));
    CF_CHECK(S_ISSOCK(cf_stat("socket").st_mode));
    CF_EQUAL(cf_stat("fifo").st_mode & 07777, 0640);
    CF_FAILS(mknod("fifo", S_IFIFO | 0640, 0), EEXIST);
    CF_FAILS(mknod("missing/fifo", S_IFIFO | 0640, 0), ENOENT);
    cf_write_file("plain", "abc");
    cf_expect_file("plain", "abc");
}

static void write_fifo(void *arg)
{
    (void)arg;
    const int fd = CF_OK(open("fifo", O_WRONLY));
    CF_EQUAL(write(fd, "abc", 3), 3);
}

static void fifo_works(void)
{
    char content[8];
    CF_OK(mkfifo("fifo", 0644));
    const pid_t child = cf_fork(write_fifo, NULL);
    const int fd = CF_OK(open("fifo", O_RDONLY));
    CF_EQUAL(read(fd, content, sizeof content), 3);
    CF_SAME(content, "abc", 3);
    cf_join(child);
    CF_EQUAL(cf_stat("fifo").st_size, 0);
}

static void socket_works(void)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX, .sun_path = "socket"};
    const int server = CF_OK(socket(AF_UNIX, SOCK_STREAM, 0));
    const int client = CF_OK(socket(AF_UNIX, SOCK_STREAM, 0));
    CF_OK(bind(server, (struct sockaddr *)&address, sizeof address));
    CF_OK(listen(server, 1));
    CF_OK(connect(client, (struct sockaddr *)&address, sizeof address));
    CF_CHECK(S_ISSOCK(cf_stat("socket").st_mode));
    CF_FAILS(bind(client, (struct sockaddr *)&address, sizeof address), EADDRINUSE);
}

static void devices(void)
{
    if (geteuid() != 0)
        CF_SKIP("only root may make devices");
    static const unsigned numbers[][2] = {{1, 3}, {8, 17}, {259, 300000}};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        const dev_t device = makedev(numbers[i][0], numbers[i][1]);
        CF_OK(mknod("block", S_IFBLK | 0600, device));
        CF_OK(mknod("character", S_IFCHR | 0600, device));
        CF_CHECK(S_ISBLK(cf_stat("block").st_mode));
        CF_CHECK(S_ISCHR(cf_stat("character").st_mode));
        CF_EQUAL(major(cf_stat("block").st_rdev), numbers[i][0]);
        CF_EQUAL(minor(cf_stat("block").st_rdev), numbers[i][1]);
        CF_EQUAL(cf_stat("character").st_rdev, device);
        CF_OK(unlink("block"));
        CF_OK(unlink("character"));
    }
    cf_need_users();
    cf_become(CF_USER, CF_USER);
    CF_FAILS(mknod("device", S_IFCHR | 0600, makedev(1, 3)), EPERM);
}

static const struct cf_case cases[] = {
    {"mkdir makes an empty directory with mode less umask", make_directory},
    {"mkdir errors", mkdir_errors},
    {"subdirectories count as links of their parent", link_counts},
    {"rmdir errors, and success once empty", rmdir_errors},
    {"a removed open directory is dead and its name free", removed_but_open},
    {"new names need a writable directory", needs_write_to_parent},
    {"symlink targets of 1 to 4095 bytes", symlink_target},
    {"symlink and readlink errors", symlink_errors},
    {"symlinks resolve from their own directory", symlink_resolution},
    {"mknod makes FIFOs, sockets and regular files", special_files},
    {"a FIFO connects two processes", fifo_works},
    {"a socket is bound, connected to and not bound twice", socket_works},
    {"device numbers of root's devices are kept", devices},
    {NULL, NULL},
};

const struct cf_topic cf_topic_directory = {"directory", cases};
