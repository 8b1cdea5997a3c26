/* SPDX-License-Identifier: BSD-2-Clause
 *
 * conformance_rename.c - rename(2): every kind of source onto every kind of target, directory moves,
 * and what they do to "..", link counts and open files.
 */
#include <dirent.h>

#include "conformance.h"

enum kind { NOTHING, FILE_KIND, SYMLINK, EMPTY_DIR, FULL_DIR, KINDS };

static void make(const char *name, enum kind kind)
{
    char inner[64];
    switch (kind) {
    case FILE_KIND:
        cf_write_file(name, name);
        break;
    case SYMLINK:
        CF_OK(symlink("nowhere", name));
        break;
    case EMPTY_DIR:
    case FULL_DIR:
        CF_OK(mkdir(name, 0755));
        if (kind == FULL_DIR) {
            snprintf(inner, sizeof inner, "%s/inner", name);
            cf_write_file(inner, "inner");
        }
        break;
    default:
        break;
    }
}

static void matrix(void)
{
    /* errno, 0 = succeeds; rows: source, columns: target */
    static const int expected[KINDS][KINDS] = {
        [NOTHING] = {ENOENT, ENOENT, ENOENT, ENOENT, ENOENT},
        [FILE_KIND] = {0, 0, 0, EISDIR, EISDIR},
        [SYMLINK] = {0, 0, 0, EISDIR, EISDIR},
        [EMPTY_DIR] = {0, ENOTDIR, ENOTDIR, 0, ENOTEMPTY},
        [FULL_DIR] = {0, ENOTDIR, ENOTDIR, 0, ENOTEMPTY},
    };
    for (int from = 0; from < KINDS; from++) {
        for (int to = 0; to < KINDS; to++) {
            char source[32], target[32];
            snprintf(source, sizeof source, "from-%d-%d", from, to);
            snprintf(target, sizeof target, "to-%d-%d", from, to);
            make(source, (enum kind)from);
            make(target, (enum kind)to);
            const ino_t ino = from == NOTHING ? 0 : cf_stat(source).st_ino;
            const int result = rename(source, target), code = errno;
            if (expected[from][to]) {
                CF_EQUAL(result, -1);
                if (code != EEXIST || expected[from][to] != ENOTEMPTY)
                    CF_EQUAL(code, expected[from][to]);
                CF_EQUAL(cf_exists(source), from != NOTHING);
                CF_EQUAL(cf_exists(target), to != NOTHING);
            } else {
                CF_EQUAL(result, 0);
                CF_CHECK(!cf_exists(source));
                CF_EQUAL(cf_stat(target).st_ino, ino);
            }
        }
    }
}

static void replaced_file_lives_on(void)
{
    const int fd = cf_open("target");
    cf_pwrite(fd, "old", 3, 0);
    cf_write_file("source", "new");
    CF_OK(rename("source", "target"));
    cf_expect_file("target", "new");
    CF_EQUAL(cf_fstat(fd).st_nlink, 0);
    char content[8];
    CF_EQUAL(pread(fd, content, sizeof content, 0), 3);
    CF_SAME(content, "old", 3);
}

static void replaced_file_keeps_other_name(void)
{
    cf_write_file("target", "old");
    CF_OK(link("target", "other"));
    cf_write_file("source", "new");
    CF_OK(rename("source", "target"));
    CF_EQUAL(cf_stat("other").st_nlink, 1);
    cf_expect_file("other", "old");
}

static void same_file(void)
{
    cf_write_file("a", "abc");
    CF_OK(link("a", "b"));
    CF_OK(rename("a", "b")); /* POSIX: nothing happens, both names stay */
    CF_EQUAL(cf_stat("a").st_nlink, 2);
    CF_CHECK(cf_exists("b"));
    CF_OK(rename("a", "a"));
    CF_CHECK(cf_exists("a"));
}

static void open_file_moves(void)
{
    CF_OK(mkdir("dir", 0755));
    const int fd = cf_open("file");
    CF_OK(rename("file", "dir/moved"));
    cf_pwrite(fd, "abc", 3, 0);
    cf_expect_file("dir/moved", "abc");
    CF_EQUAL(cf_fstat(fd).st_nlink, 1);
}

static void into_itself(void)
{
    CF_OK(mkdir("a", 0755));
    CF_OK(mkdir("a/b", 0755));
    CF_FAILS(rename("a", "a/b/c"), EINVAL);
    CF_FAILS(rename("a", "a/c"), EINVAL);
    CF_FAILS_EITHER(rename("a/b", "a"), ENOTEMPTY, EEXIST);
    CF_FAILS_EITHER(rename("a/.", "c"), EBUSY, EINVAL);
    CF_FAILS_EITHER(rename("a/..", "c"), EBUSY, EINVAL);
    CF_CHECK(cf_exists("a/b"));
}

static void path_errors(void)
{
    cf_write_file("file", "x");
    CF_OK(mkdir("dir", 0755));
    CF_FAILS(rename("file/below", "new"), ENOTDIR);
    CF_FAILS(rename("file", "dir/missing/new"), ENOENT);
    CF_FAILS(rename("file", "file/new"), ENOTDIR);
    CF_FAILS(rename("file", "new/"), ENOTDIR);
    CF_OK(rename("dir", "renamed/")); /* a slash is fine for directories */
    CF_CHECK(cf_exists("renamed"));
}

static ino_t listed_parent(const char *name)
{
    DIR *directory = opendir(name);
    CF_CHECK(directory != NULL);
    for (struct dirent *entry; (entry = readdir(directory));) {
        if (strcmp(entry->d_name, "..") == 0) {
            const ino_t ino = entry->d_ino;
            closedir(directory);
            return ino;
        }
    }
    closedir(directory);
    return 0;
}

static void directory_moves(void)
{
    CF_OK(mkdir("a", 0755));
    CF_OK(mkdir("b", 0755));
    CF_OK(mkdir("a/d", 0755));
    CF_OK(mkdir("a/d/e", 0755));
    cf_write_file("a/d/e/file", "abc");
    CF_EQUAL(cf_stat("a").st_nlink, 3);
    CF_EQUAL(cf_stat("a/d/..").st_ino, cf_stat("a").st_ino);
    CF_OK(rename("a/d", "b/d"));
    CF_EQUAL(cf_stat("a").st_nlink, 2);
    CF_EQUAL(cf_stat("b").st_nlink, 3);
    CF_EQUAL(cf_stat("b/d").st_nlink, 3);
    CF_EQUAL(cf_stat("b/d/..").st_ino, cf_stat("b").st_ino);
    CF_EQUAL(listed_parent("b/d"), cf_stat("b").st_ino);
    cf_expect_file("b/d/e/file", "abc");
    CF_OK(chdir("b/d/e"));
    CF_OK(rename("../../d", "../../../a/d2")); /* the working directory moves along */
    CF_EQUAL(cf_stat("../..").st_ino, cf_stat("../../../a").st_ino);
    CF_EQUAL(cf_stat("../../../b").st_nlink, 2);
}

static void directory_onto_empty(void)
{
    CF_OK(mkdir("a", 0755));
    CF_OK(mkdir("a/sub", 0755));
    CF_OK(mkdir("b", 0755));
    CF_OK(mkdir("b/target", 0755));
    const int fd = CF_OK(open("b/target", O_RDONLY | O_DIRECTORY));
    CF_OK(rename("a/sub", "b/target"));
    CF_EQUAL(cf_stat("a").st_nlink, 2);
    CF_EQUAL(cf_stat("b").st_nlink, 3);
    CF_EQUAL(cf_fstat(fd).st_nlink, 0);
    CF_FAILS(openat(fd, "new", O_WRONLY | O_CREAT, 0644), ENOENT);
}

static void deep_moves(void)
{
    char path[600] = "p";
    CF_OK(mkdir(path, 0755));
    for (unsigned i = 0; i < 100; i++) {
        strcat(path, "/d");
        CF_OK(mkdir(path, 0755));
    }
    CF_FAILS(rename("p", path), EINVAL);
    strcat(path, "/x");
    CF_FAILS(rename("p/d", path), EINVAL);
    CF_OK(mkdir("q", 0755));
    CF_OK(rename("p/d/d", "q/d"));
    CF_OK(rename("p", "q/d/d/p"));
    CF_CHECK(cf_exists("q/d/d/p/d"));
    CF_CHECK(!cf_exists("q/d/d/p/d/d"));
}

struct swapper {
    struct cf_signal done;
};

static void keep_replacing(void *arg)
{
    const struct swapper *swapper = arg;
    for (unsigned i = 0; i < 500; i++) {
        cf_write_file("new", i % 2 ? "odd" : "even");
        CF_OK(rename("new", "file"));
    }
    cf_signal_send(&swapper->done);
}

static void never_missing(void)
{
    struct swapper swapper = {cf_signal_new()};
    cf_write_file("file", "even");
    CF_OK(fcntl(swapper.done.read, F_SETFL, O_NONBLOCK));
    const pid_t child = cf_fork(keep_replacing, &swapper);
    for (char byte; read(swapper.done.read, &byte, 1) != 1;) {
        char content[8];
        const int fd = CF_OK(open("file", O_RDONLY));
        const ssize_t size = CF_OK(read(fd, content, sizeof content));
        CF_CHECK((size == 3 && !memcmp(content, "odd", 3)) ||
                 (size == 4 && !memcmp(content, "even", 4)));
        CF_OK(close(fd));
    }
    cf_join(child);
}

static void permissions(void)
{
    cf_need_users();
    CF_OK(mkdir("mine", 0755));
    CF_OK(mkdir("all", 0777));
    CF_OK(chmod("all", 0777));
    CF_OK(mkdir("mine/dir", 0777));
    cf_write_file("mine/file", "x");
    cf_write_file("all/file", "x");
    cf_become(CF_USER, CF_USER);
    CF_FAILS(rename("mine/file", "all/new"), EACCES);
    CF_FAILS(rename("all/file", "mine/new"), EACCES);
    CF_OK(rename("all/file", "all/new"));
    /* Moving a directory changes its "..", so it needs write permission for the directory itself. */
    cf_become_root();
    CF_OK(mkdir("all/foreign", 0755));
    CF_OK(mkdir("all/target", 0777));
    CF_OK(chmod("all/target", 0777));
    cf_become(CF_USER, CF_USER);
    CF_FAILS(rename("all/foreign", "all/target/moved"), EACCES);
    CF_OK(rename("all/foreign", "all/renamed"));
}

static const struct cf_case cases[] = {
    {"every kind of source onto every kind of target", matrix},
    {"a replaced file that is open lives on without a name", replaced_file_lives_on},
    {"a replaced file keeps its other name", replaced_file_keeps_other_name},
    {"two names of one file: nothing happens", same_file},
    {"an open file moves and stays open", open_file_moves},
    {"a directory does not go into itself", into_itself},
    {"errors of the two paths", path_errors},
    {"a moved directory takes its tree along; \"..\" and link counts follow", directory_moves},
    {"a directory replaces an empty one", directory_onto_empty},
    {"moves across a hundred levels", deep_moves},
    {"a name that is replaced 500 times is never missing or half written", never_missing},
    {"permissions of both directories and of a moved directory", permissions},
    {NULL, NULL},
};

const struct cf_topic cf_topic_rename = {"rename", cases};
