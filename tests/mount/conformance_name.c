/* SPDX-License-Identifier: BSD-2-Clause
 *
 * conformance_name.c - names are bytes: any but '/' and NUL, 1 to 255 of them, compared as they are.
 */
#include <dirent.h>
#include <limits.h>

#include "conformance.h"

/* True when the working directory lists NAME, byte for byte. */
static bool lists(const char *name)
{
    DIR *directory = opendir(".");
    bool found = false;
    CF_CHECK(directory != NULL);
    for (struct dirent *entry; !found && (entry = readdir(directory));)
        found = strcmp(entry->d_name, name) == 0;
    closedir(directory);
    return found;
}

static void longest(void)
{
    char name[300], other[300];
    memset(name, 'n', sizeof name);
    name[255] = '\0';
    memcpy(other, name, sizeof other);
    other[254] = 'm'; /* differs in the last byte only */
    cf_write_file(name, "abc");
    cf_write_file(other, "def");
    cf_expect_file(name, "abc");
    cf_expect_file(other, "def");
    CF_CHECK(lists(name) && lists(other));
    CF_OK(mkdir("dir", 0755));
    char path[300] = "dir/";
    memcpy(path + 4, name, 256);
    CF_OK(rename(name, path));
    CF_CHECK(cf_exists(path));
    CF_OK(unlink(path));
    CF_OK(mkdir(name, 0755));
    CF_OK(rmdir(name));
}

static void too_long(void)
{
    char name[257];
    memset(name, 'n', 256);
    name[256] = '\0';
    cf_write_file("file", "x");
    struct stat status;
    CF_FAILS(open(name, O_RDWR | O_CREAT, 0644), ENAMETOOLONG);
    CF_FAILS(open(name, O_RDONLY), ENAMETOOLONG);
    CF_FAILS(stat(name, &status), ENAMETOOLONG);
    CF_FAILS(mkdir(name, 0755), ENAMETOOLONG);
    CF_FAILS(rmdir(name), ENAMETOOLONG);
    CF_FAILS(unlink(name), ENAMETOOLONG);
    CF_FAILS(link("file", name), ENAMETOOLONG);
    CF_FAILS(symlink("x", name), ENAMETOOLONG);
    CF_FAILS(mknod(name, S_IFIFO | 0644, 0), ENAMETOOLONG);
    CF_FAILS(rename("file", name), ENAMETOOLONG);
    CF_FAILS(rename(name, "other"), ENAMETOOLONG);
    CF_CHECK(cf_exists("file"));
}

static void every_byte(void)
{
    for (int byte = 1; byte < 256; byte++) {
        if (byte == '/')
            continue;
        char name[8] = {'b', (char)byte, 'e', '\0'};
        char content[16];
        snprintf(content, sizeof content, "%d", byte);
        cf_write_file(name, content);
    }
    for (int byte = 1; byte < 256; byte++) {
        if (byte == '/')
            continue;
        char name[8] = {'b', (char)byte, 'e', '\0'};
        char content[16];
        snprintf(content, sizeof content, "%d", byte);
        cf_expect_file(name, content);
        CF_CHECK(lists(name));
    }
}

static void odd_names(void)
{
    static const char *const names[] = {"...",  "..x",      ".x",           " ",    "\n",
                                        "-",    "a ",       "a.",           "CON",  "\\",
                                        "\xff", "\xc3\x28", "\xed\xa0\x80", "a\x01"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        cf_write_file(names[i], names[i]);
        CF_OK(symlink(names[i], "link"));
        cf_expect_file("link", names[i]);
        CF_OK(unlink("link"));
    }
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        cf_expect_file(names[i], names[i]);
        CF_CHECK(lists(names[i]));
        CF_OK(unlink(names[i]));
        CF_CHECK(!lists(names[i]));
    }
}

static void nothing_is_folded(void)
{
    cf_write_file("name", "lower");
    cf_write_file("NAME", "upper");
    cf_write_file("\xc3\xa9", "composed"); /* e with acute accent, as one code point and as two */
    cf_write_file("e\xcc\x81", "decomposed");
    cf_expect_file("name", "lower");
    cf_expect_file("NAME", "upper");
    cf_expect_file("\xc3\xa9", "composed");
    cf_expect_file("e\xcc\x81", "decomposed");
    CF_FAILS(open("Name", O_RDONLY), ENOENT);
}

static void longest_path(void)
{
    char component[256], path[PATH_MAX + 10] = "";
    memset(component, 'p', 255);
    component[255] = '\0';
    for (unsigned i = 0; i < 15; i++) { /* 15 * 256 bytes, then a name up to 4095 in all */
        CF_OK(mkdirat(AT_FDCWD, strcat(path, component), 0755));
        strcat(path, "/");
    }
    memset(path + 3840, 'f', 255);
    path[4095] = '\0';
    cf_write_file(path, "abc");
    cf_expect_file(path, "abc");
    path[4095] = 'f';
    path[4096] = '\0';
    CF_FAILS(open(path, O_RDONLY), ENAMETOOLONG);
}

static void deep_tree(void)
{
    enum { DEPTH = 300 };
    for (unsigned i = 0; i < DEPTH; i++) {
        CF_OK(mkdir("level", 0755));
        CF_OK(chdir("level"));
    }
    cf_write_file("file", "at the bottom");
    cf_expect_file("file", "at the bottom");
    char path[PATH_MAX];
    CF_CHECK(getcwd(path, sizeof path) != NULL);
    CF_OK(unlink("file"));
    for (unsigned i = 0; i < DEPTH; i++) {
        CF_OK(chdir(".."));
        CF_OK(rmdir("level"));
    }
}

static void reserved(void)
{
    CF_OK(mkdir("dir", 0755));
    CF_FAILS_EITHER(mkdir("dir/.", 0755), EEXIST, ENOENT);
    CF_FAILS_EITHER(mkdir("dir/..", 0755), EEXIST, ENOENT);
    CF_FAILS_EITHER(symlink("x", "dir/."), EEXIST, ENOENT);
    CF_FAILS_EITHER(rmdir("."), EINVAL, EBUSY);
    CF_FAILS_EITHER(open(".", O_RDWR | O_CREAT, 0644), EISDIR, EISDIR);
}

static const struct cf_case cases[] = {
    {"255 bytes are a name", longest},
    {"256 bytes are ENAMETOOLONG everywhere", too_long},
    {"every byte but '/' and NUL", every_byte},
    {"dots, blanks, control characters and what is no UTF-8", odd_names},
    {"neither case nor composition is folded", nothing_is_folded},
    {"a path of 4,095 bytes", longest_path},
    {"300 levels of directories", deep_tree},
    {"\".\" and \"..\" are taken", reserved},
    {NULL, NULL},
};

const struct cf_topic cf_topic_name = {"name", cases};
