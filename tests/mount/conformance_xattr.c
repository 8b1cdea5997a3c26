/* SPDX-License-Identifier: BSD-2-Clause
 *
 * conformance_xattr.c - extended attributes. Sizes stay below 4 KiB a file where a rule does not
 * need more: ext4 keeps them all in one block.
 */
#include <sys/xattr.h>

#include "conformance.h"

static void need(const char *name)
{
    cf_write_file("probe", "x");
    CF_OK_OR_SKIP(setxattr("probe", name, "x", 1, 0));
}

static void expect(const char *path, const char *name, const char *value)
{
    char got[256];
    CF_EQUAL(lgetxattr(path, name, got, sizeof got), strlen(value));
    CF_SAME(got, value, strlen(value));
}

static void set_get_remove(void)
{
    need("user.probe");
    static const char *const names[] = {"file", "dir"};
    cf_write_file("file", "abc");
    CF_OK(mkdir("dir", 0755));
    for (size_t i = 0; i < 2; i++) {
        CF_OK(setxattr(names[i], "user.one", "first", 5, 0));
        CF_OK(setxattr(names[i], "user.two", "second", 6, 0));
        expect(names[i], "user.one", "first");
        CF_OK(setxattr(names[i], "user.one", "changed value", 13, 0));
        expect(names[i], "user.one", "changed value");
        expect(names[i], "user.two", "second");
        CF_OK(removexattr(names[i], "user.one"));
        CF_FAILS(getxattr(names[i], "user.one", NULL, 0), ENODATA);
        CF_FAILS(removexattr(names[i], "user.one"), ENODATA);
        expect(names[i], "user.two", "second");
    }
    cf_expect_file("file", "abc");
}

static void flags(void)
{
    need("user.probe");
    cf_write_file("file", "x");
    CF_FAILS(setxattr("file", "user.a", "1", 1, XATTR_REPLACE), ENODATA);
    CF_OK(setxattr("file", "user.a", "1", 1, XATTR_CREATE));
    CF_FAILS(setxattr("file", "user.a", "2", 1, XATTR_CREATE), EEXIST);
    expect("file", "user.a", "1");
    CF_OK(setxattr("file", "user.a", "3", 1, XATTR_REPLACE));
    expect("file", "user.a", "3");
    CF_FAILS(setxattr("file", "user.a", "4", 1, 12345), EINVAL);
}

static void sizes(void)
{
    need("user.probe");
    char small[4];
    cf_write_file("file", "x");
    CF_OK(setxattr("file", "user.a", "12345", 5, 0));
    CF_EQUAL(getxattr("file", "user.a", NULL, 0), 5);
    CF_FAILS(getxattr("file", "user.a", small, sizeof small), ERANGE);
    const ssize_t list = CF_OK(listxattr("file", NULL, 0));
    CF_CHECK(list >= 7);
    CF_FAILS(listxattr("file", small, sizeof small), ERANGE);
    CF_OK(setxattr("file", "user.empty", "", 0, 0));
    CF_EQUAL(getxattr("file", "user.empty", small, sizeof small), 0);
    CF_OK(setxattr("file", "user.a", "", 0, 0));
    CF_EQUAL(getxattr("file", "user.a", NULL, 0), 0);
}

static void binary_values(void)
{
    need("user.probe");
    unsigned char *value = cf_pattern(2000, 1), got[2000];
    cf_write_file("file", "x");
    value[0] = 0;
    value[1999] = 0;
    CF_OK(setxattr("file", "user.binary", value, 2000, 0));
    CF_EQUAL(getxattr("file", "user.binary", got, sizeof got), 2000);
    CF_SAME(got, value, 2000);
    CF_OK(setxattr("file", "user.binary", value, 1, 0));
    CF_EQUAL(getxattr("file", "user.binary", got, sizeof got), 1);
}

static void largest_value(void)
{
    need("user.probe");
    unsigned char *value = cf_pattern(65537, 2), *got = malloc(65536);
    CF_CHECK(got != NULL);
    cf_write_file("file", "x");
    CF_FAILS(setxattr("file", "user.big", value, 65537, 0), E2BIG);
    if (setxattr("file", "user.big", value, 65536, 0) && (errno == ENOSPC || errno == E2BIG))
        CF_SKIP("values of 64 KiB are more than this file system takes");
    CF_EQUAL(getxattr("file", "user.big", got, 65536), 65536);
    CF_SAME(got, value, 65536);
}

/* How often NAME is in the list of PATH. */
static unsigned listed(const char *path, const char *name)
{
    static char list[65536];
    const ssize_t size = CF_OK(llistxattr(path, list, sizeof list));
    unsigned times = 0;
    for (const char *at = list; at < list + size; at += strlen(at) + 1)
        times += strcmp(at, name) == 0;
    return times;
}

static void list(void)
{
    need("user.probe");
    char name[64];
    cf_write_file("file", "x");
    CF_EQUAL(listed("file", "user.0"), 0);
    for (unsigned i = 0; i < 40; i++) {
        snprintf(name, sizeof name, "user.%u", i);
        CF_OK(setxattr("file", name, name, 3, 0));
    }
    for (unsigned i = 0; i < 40; i++) {
        snprintf(name, sizeof name, "user.%u", i);
        CF_EQUAL(listed("file", name), 1);
        if (i % 2)
            CF_OK(removexattr("file", name));
    }
    for (unsigned i = 0; i < 40; i++) {
        snprintf(name, sizeof name, "user.%u", i);
        CF_EQUAL(listed("file", name), i % 2 ? 0 : 1);
    }
}

static void names(void)
{
    need("user.probe");
    char name[300] = "user.";
    cf_write_file("file", "x");
    memset(name + 5, 'n', 250);
    CF_OK(setxattr("file", name, "long", 4, 0)); /* 255 bytes */
    expect("file", name, "long");
    CF_EQUAL(listed("file", name), 1);
    name[255] = 'n';
    CF_FAILS(setxattr("file", name, "x", 1, 0), ERANGE);
    CF_FAILS_EITHER(setxattr("file", "user.", "x", 1, 0), EINVAL, EOPNOTSUPP);
    CF_FAILS(setxattr("file", "nonsense", "x", 1, 0), EOPNOTSUPP);
    CF_FAILS(setxattr("file", "nonsense.name", "x", 1, 0), EOPNOTSUPP);
    CF_OK(setxattr("file", "user.\xff\xfe\n", "bytes", 5, 0));
    expect("file", "user.\xff\xfe\n", "bytes");
    CF_FAILS(setxattr("missing", "user.a", "x", 1, 0), ENOENT);
}

static void follow_the_file(void)
{
    need("user.probe");
    cf_write_file("file", "x");
    CF_OK(setxattr("file", "user.a", "kept", 4, 0));
    CF_OK(link("file", "hard"));
    expect("hard", "user.a", "kept");
    CF_OK(rename("file", "renamed"));
    expect("renamed", "user.a", "kept");
    cf_write_file("renamed", "new content, truncated first");
    expect("renamed", "user.a", "kept");
    const int fd = CF_OK(open("renamed", O_RDONLY));
    CF_OK(unlink("hard"));
    CF_OK(unlink("renamed"));
    char got[8];
    CF_EQUAL(fgetxattr(fd, "user.a", got, sizeof got), 4);
    CF_OK(fsetxattr(fd, "user.b", "x", 1, 0));
    cf_write_file("renamed", "another file");
    CF_FAILS(getxattr("renamed", "user.a", NULL, 0), ENODATA);
}

static void changes_ctime(void)
{
    need("user.probe");
    cf_write_file("file", "x");
    struct stat before = cf_stat("file");
    cf_tick();
    CF_OK(setxattr("file", "user.a", "1", 1, 0));
    struct stat after = cf_stat("file");
    CF_EQUAL(cf_compare_times(after.st_ctim, before.st_ctim), 1);
    CF_EQUAL(cf_compare_times(after.st_mtim, before.st_mtim), 0);
    cf_tick();
    CF_OK(removexattr("file", "user.a"));
    CF_EQUAL(cf_compare_times(cf_stat("file").st_ctim, after.st_ctim), 1);
}

static void user_namespace(void)
{
    need("user.probe");
    CF_OK(symlink("probe", "link"));
    CF_OK(mkfifo("fifo", 0666));
    CF_FAILS(lsetxattr("link", "user.a", "x", 1, 0), EPERM);
    CF_FAILS(setxattr("fifo", "user.a", "x", 1, 0), EPERM);
    CF_OK(setxattr("link", "user.a", "x", 1, 0)); /* followed */
    expect("probe", "user.a", "x");
    cf_need_users();
    cf_write_file("closed", "x");
    CF_OK(chmod("closed", 0600));
    cf_write_file("readable", "x");
    CF_OK(setxattr("readable", "user.a", "seen", 4, 0));
    cf_become(CF_USER, CF_USER);
    CF_FAILS(setxattr("closed", "user.a", "x", 1, 0), EACCES);
    CF_FAILS(getxattr("closed", "user.a", NULL, 0), EACCES);
    CF_FAILS(setxattr("readable", "user.a", "x", 1, 0), EACCES);
    expect("readable", "user.a", "seen");
}

static void trusted_namespace(void)
{
    if (geteuid() != 0)
        CF_SKIP("only root has trusted attributes");
    need("trusted.probe");
    cf_write_file("file", "x");
    CF_OK(symlink("file", "link"));
    CF_OK(setxattr("file", "trusted.a", "root", 4, 0));
    CF_OK(lsetxattr("link", "trusted.a", "of link", 7, 0));
    expect("file", "trusted.a", "root");
    expect("link", "trusted.a", "of link");
    CF_EQUAL(listed("file", "trusted.a"), 1);
    cf_need_users();
    CF_OK(chmod("file", 0666));
    cf_become(CF_USER, CF_USER);
    CF_FAILS_EITHER(getxattr("file", "trusted.a", NULL, 0), ENODATA, EPERM);
    CF_FAILS(setxattr("file", "trusted.b", "x", 1, 0), EPERM);
}

static const struct cf_case cases[] = {
    {"set, change, get and remove on files and directories", set_get_remove},
    {"XATTR_CREATE and XATTR_REPLACE", flags},
    {"sizes are told, small buffers are ERANGE, values may be empty", sizes},
    {"values are bytes", binary_values},
    {"64 KiB is the largest value", largest_value},
    {"listxattr lists each attribute once", list},
    {"names of up to 255 bytes in known namespaces", names},
    {"attributes belong to the file, not to a name", follow_the_file},
    {"setting and removing set ctime only", changes_ctime},
    {"user attributes follow the permissions of files and directories", user_namespace},
    {"trusted attributes are root's", trusted_namespace},
    {NULL, NULL},
};

const struct cf_topic cf_topic_xattr = {"xattr", cases};
