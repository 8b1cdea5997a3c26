/* SPDX-License-Identifier: BSD-2-Clause
 *
 * conformance_link.c - link(2) and unlink(2): link counts, and files that live on without a name.
 */
#include "conformance.h"

static void second_name(void)
{
    cf_write_file("a", "abc");
    CF_OK(link("a", "b"));
    const struct stat a = cf_stat("a"), b = cf_stat("b");
    CF_EQUAL(a.st_ino, b.st_ino);
    CF_EQUAL(a.st_nlink, 2);
    CF_EQUAL(b.st_nlink, 2);
    cf_write_file("b", "changed");
    cf_expect_file("a", "changed");
    CF_OK(unlink("a"));
    CF_EQUAL(cf_stat("b").st_nlink, 1);
    cf_expect_file("b", "changed");
}

static void link_errors(void)
{
    cf_write_file("file", "x");
    cf_write_file("other", "y");
    CF_OK(mkdir("dir", 0755));
    CF_FAILS(link("file", "other"), EEXIST);
    CF_FAILS(link("file", "dir"), EEXIST);
    CF_FAILS(link("missing", "new"), ENOENT);
    CF_FAILS(link("file", "missing/new"), ENOENT);
    CF_FAILS(link("file/below", "new"), ENOTDIR);
    CF_FAILS(link("dir", "new"), EPERM);
    CF_EQUAL(cf_stat("file").st_nlink, 1);
    CF_CHECK(!cf_exists("new"));
}

static void link_to_symlink(void)
{
    CF_OK(symlink("missing", "link"));
    CF_OK(link("link", "twin")); /* Linux: of the symlink itself */
    CF_CHECK(S_ISLNK(cf_stat("twin").st_mode));
    CF_EQUAL(cf_stat("twin").st_ino, cf_stat("link").st_ino);
    CF_EQUAL(cf_stat("link").st_nlink, 2);
    cf_write_file("file", "abc");
    CF_OK(symlink("file", "to-file"));
    CF_OK(linkat(AT_FDCWD, "to-file", AT_FDCWD, "followed", AT_SYMLINK_FOLLOW));
    CF_EQUAL(cf_stat("followed").st_ino, cf_stat("file").st_ino);
}

static void thousand_links(void)
{
    char name[32];
    cf_write_file("file", "abc");
    CF_OK(mkdir("dir", 0755));
    for (unsigned i = 0; i < 1000; i++) {
        snprintf(name, sizeof name, "dir/%u", i);
        CF_OK(link("file", name));
    }
    CF_EQUAL(cf_stat("file").st_nlink, 1001);
    for (unsigned i = 0; i < 1000; i++) {
        snprintf(name, sizeof name, "dir/%u", i);
        CF_OK(unlink(name));
    }
    CF_EQUAL(cf_stat("file").st_nlink, 1);
}

static void unlink_errors(void)
{
    cf_write_file("file", "x");
    CF_OK(mkdir("dir", 0755));
    CF_FAILS(unlink("missing"), ENOENT);
    CF_FAILS(unlink("missing/file"), ENOENT);
    CF_FAILS(unlink("file/below"), ENOTDIR);
    CF_FAILS(unlink("file/"), ENOTDIR);
    CF_FAILS_EITHER(unlink("dir"), EISDIR, EPERM);
    CF_FAILS(unlink(""), ENOENT);
}

static void unlink_symlink(void)
{
    cf_write_file("file", "abc");
    CF_OK(symlink("file", "link"));
    CF_OK(unlink("link"));
    CF_CHECK(!cf_exists("link"));
    cf_expect_file("file", "abc");
}

static void unlinked_but_open(void)
{
    const size_t size = 300000;
    unsigned char *data = cf_pattern(size, 1), *copy = malloc(size);
    CF_CHECK(copy != NULL);
    const int fd = cf_open("file");
    cf_pwrite(fd, data, size, 0);
    CF_OK(unlink("file"));
    CF_CHECK(!cf_exists("file"));
    CF_EQUAL(cf_fstat(fd).st_nlink, 0);
    cf_pread(fd, copy, size, 0);
    CF_SAME(copy, data, size);
    cf_pwrite(fd, "tail", 4, (off_t)size);
    CF_EQUAL(cf_fstat(fd).st_size, size + 4);
    CF_OK(fsync(fd));
    CF_OK(fchmod(fd, 0600));
    CF_OK(ftruncate(fd, 10));
    CF_OK(ftruncate(fd, 20));
    cf_pread(fd, copy, 20, 0);
    memset(data + 10, 0, 10);
    CF_SAME(copy, data, 20);
    CF_OK(close(fd));
}

static void name_is_free_while_open(void)
{
    const int old = cf_open("file");
    cf_pwrite(old, "old", 3, 0);
    CF_OK(unlink("file"));
    cf_write_file("file", "newer");
    char content[8];
    CF_EQUAL(pread(old, content, sizeof content, 0), 3);
    CF_SAME(content, "old", 3);
    cf_expect_file("file", "newer");
    CF_CHECK(cf_fstat(old).st_ino != cf_stat("file").st_ino);
}

static void unlink_one_of_two_open(void)
{
    const int fd = cf_open("a");
    CF_OK(link("a", "b"));
    CF_OK(unlink("a"));
    CF_EQUAL(cf_fstat(fd).st_nlink, 1);
    cf_pwrite(fd, "abc", 3, 0);
    CF_OK(close(fd));
    cf_expect_file("b", "abc");
}

static void no_new_name_for_dead_file(void)
{
    const int fd = cf_open("file");
    char path[64];
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    CF_OK(unlink("file"));
    CF_FAILS(linkat(AT_FDCWD, path, AT_FDCWD, "back", AT_SYMLINK_FOLLOW), ENOENT);
    CF_CHECK(!cf_exists("back"));
}

/* A descriptor that was never opened for I/O refers to the file all the same. */
static void unlinked_by_path_descriptor(void)
{
    char path[64];
    cf_write_file("file", "abc");
    const int fd = CF_OK(open("file", O_PATH));
    const ino_t ino = cf_fstat(fd).st_ino;
    CF_OK(unlink("file"));
    cf_write_file("file", "another");
    CF_EQUAL(cf_fstat(fd).st_nlink, 0);
    CF_EQUAL(cf_fstat(fd).st_ino, ino);
    CF_EQUAL(cf_fstat(fd).st_size, 3);
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    cf_expect_file(path, "abc");
    CF_OK(chmod(path, 0600));
    CF_EQUAL(cf_fstat(fd).st_mode & 07777, 0600);
    CF_EQUAL(cf_stat("file").st_mode & 07777, 0644);
}

static void needs_write_to_directory(void)
{
    cf_need_users();
    CF_OK(mkdir("dir", 0755));
    cf_write_file("dir/file", "x");
    cf_write_file("file", "x");
    CF_OK(chmod("dir/file", 0666)); /* a writable file does not make its directory writable */
    CF_OK(chmod("file", 0666));
    cf_become(CF_USER, CF_USER);
    CF_FAILS(unlink("dir/file"), EACCES);
    CF_FAILS(link("file", "dir/new"), EACCES);
    CF_OK(unlink("file")); /* the case's directory has mode 0777 */
}

static const struct cf_case cases[] = {
    {"two names are one file until one is removed", second_name},
    {"link errors leave everything as it was", link_errors},
    {"link of a symlink names the symlink, unless told to follow", link_to_symlink},
    {"a thousand links are counted up and down", thousand_links},
    {"unlink errors", unlink_errors},
    {"unlink of a symlink leaves its target", unlink_symlink},
    {"an unlinked open file is read, written, synced and truncated", unlinked_but_open},
    {"the name of an unlinked open file is free for another", name_is_free_while_open},
    {"the other name of an open file stays", unlink_one_of_two_open},
    {"an O_PATH descriptor keeps an unlinked file", unlinked_by_path_descriptor},
    {"a file without names gets no new one", no_new_name_for_dead_file},
    {"names are changed by those who may write the directory", needs_write_to_directory},
    {NULL, NULL},
};

const struct cf_topic cf_topic_link = {"link", cases};
