/* SPDX-License-Identifier: BSD-2-Clause
 *
 * conformance_exchange.c - renameat2(2): RENAME_NOREPLACE and RENAME_EXCHANGE.
 */
#include "conformance.h"

static int rename_with(const char *from, const char *to, unsigned flags)
{
    return renameat2(AT_FDCWD, from, AT_FDCWD, to, flags);
}

/* EINVAL is how a file system refuses a flag that it does not know. */
static void need_flag(unsigned flag)
{
    cf_write_file("probe-a", "a");
    if (flag == RENAME_EXCHANGE)
        cf_write_file("probe-b", "b");
    if (rename_with("probe-a", "probe-b", flag) && (errno == EINVAL || errno == ENOSYS))
        CF_SKIP("the flag is not supported");
    unlink("probe-a");
    unlink("probe-b");
}

static void no_replace(void)
{
    need_flag(RENAME_NOREPLACE);
    cf_write_file("a", "a");
    cf_write_file("b", "b");
    CF_OK(mkdir("dir", 0755));
    CF_OK(symlink("missing", "link"));
    CF_FAILS(rename_with("a", "b", RENAME_NOREPLACE), EEXIST);
    CF_FAILS(rename_with("a", "dir", RENAME_NOREPLACE), EEXIST);
    CF_FAILS(rename_with("a", "link", RENAME_NOREPLACE), EEXIST);
    CF_FAILS(rename_with("dir", "b", RENAME_NOREPLACE), EEXIST);
    CF_FAILS(rename_with("missing", "new", RENAME_NOREPLACE), ENOENT);
    cf_expect_file("a", "a");
    cf_expect_file("b", "b");
    CF_OK(rename_with("a", "new", RENAME_NOREPLACE));
    cf_expect_file("new", "a");
    CF_CHECK(!cf_exists("a"));
    CF_OK(rename_with("dir", "newdir", RENAME_NOREPLACE));
    CF_CHECK(cf_exists("newdir"));
}

static void move_if_free(void *arg)
{
    const struct cf_signal *won = arg;
    char own[32];
    snprintf(own, sizeof own, "own-%d", getpid());
    for (unsigned i = 0; i < 50; i++) {
        char target[32];
        snprintf(target, sizeof target, "target-%u", i);
        cf_write_file(own, "x");
        if (rename_with(own, target, RENAME_NOREPLACE) == 0)
            cf_signal_send(won);
        else
            CF_EQUAL(errno, EEXIST);
    }
}

static void no_replace_race(void)
{
    need_flag(RENAME_NOREPLACE);
    struct cf_signal won = cf_signal_new();
    const pid_t one = cf_fork(move_if_free, &won), two = cf_fork(move_if_free, &won);
    cf_join(one);
    cf_join(two);
    char wins[200];
    CF_EQUAL(read(won.read, wins, sizeof wins), 50);
}

static void exchange_files(void)
{
    need_flag(RENAME_EXCHANGE);
    cf_write_file("a", "one");
    cf_write_file("b", "two");
    CF_OK(link("a", "a2"));
    const ino_t a = cf_stat("a").st_ino, b = cf_stat("b").st_ino;
    CF_OK(rename_with("a", "b", RENAME_EXCHANGE));
    CF_EQUAL(cf_stat("a").st_ino, b);
    CF_EQUAL(cf_stat("b").st_ino, a);
    cf_expect_file("a", "two");
    cf_expect_file("b", "one");
    CF_EQUAL(cf_stat("a").st_nlink, 1);
    CF_EQUAL(cf_stat("b").st_nlink, 2);
    cf_expect_file("a2", "one");
}

static void exchange_needs_both(void)
{
    need_flag(RENAME_EXCHANGE);
    cf_write_file("a", "a");
    CF_FAILS(rename_with("a", "missing", RENAME_EXCHANGE), ENOENT);
    CF_FAILS(rename_with("missing", "a", RENAME_EXCHANGE), ENOENT);
    CF_FAILS(rename_with("a", "a", RENAME_EXCHANGE | RENAME_NOREPLACE), EINVAL);
    cf_expect_file("a", "a");
}

static void exchange_kinds(void)
{
    need_flag(RENAME_EXCHANGE);
    CF_OK(mkdir("x", 0755));
    CF_OK(mkdir("y", 0755));
    CF_OK(mkdir("x/dir", 0755));
    cf_write_file("x/dir/inner", "inner");
    cf_write_file("y/file", "file");
    CF_OK(rename_with("x/dir", "y/file", RENAME_EXCHANGE));
    cf_expect_file("x/dir", "file");
    cf_expect_file("y/file/inner", "inner");
    CF_EQUAL(cf_stat("x").st_nlink, 2);
    CF_EQUAL(cf_stat("y").st_nlink, 3);
    CF_EQUAL(cf_stat("y/file/..").st_ino, cf_stat("y").st_ino);
    CF_FAILS(rmdir("y/file/../../x"), ENOTEMPTY); /* "..", twice, leads out of y */
}

static void exchange_directories(void)
{
    need_flag(RENAME_EXCHANGE);
    CF_OK(mkdir("a", 0755));
    CF_OK(mkdir("b", 0755));
    CF_OK(mkdir("a/one", 0755));
    CF_OK(mkdir("b/two", 0755));
    cf_write_file("b/two/file", "abc");
    CF_OK(rename_with("a/one", "b/two", RENAME_EXCHANGE));
    cf_expect_file("a/one/file", "abc");
    CF_EQUAL(cf_stat("a/one/..").st_ino, cf_stat("a").st_ino);
    CF_EQUAL(cf_stat("b/two/..").st_ino, cf_stat("b").st_ino);
    CF_EQUAL(cf_stat("a").st_nlink, 3);
    CF_EQUAL(cf_stat("b").st_nlink, 3);
    CF_OK(rmdir("b/two"));
}

static void exchange_into_itself(void)
{
    need_flag(RENAME_EXCHANGE);
    CF_OK(mkdir("a", 0755));
    CF_OK(mkdir("a/b", 0755));
    CF_OK(mkdir("a/b/c", 0755));
    CF_FAILS(rename_with("a", "a/b", RENAME_EXCHANGE), EINVAL);
    CF_FAILS(rename_with("a", "a/b/c", RENAME_EXCHANGE), EINVAL);
    CF_FAILS_EITHER(rename_with("a/b/c", "a", RENAME_EXCHANGE), EINVAL, ENOTEMPTY);
    CF_CHECK(cf_exists("a/b/c"));
}

static const struct cf_case cases[] = {
    {"RENAME_NOREPLACE refuses any existing target", no_replace},
    {"RENAME_NOREPLACE lets exactly one of two processes win", no_replace_race},
    {"RENAME_EXCHANGE swaps two files", exchange_files},
    {"RENAME_EXCHANGE needs both names", exchange_needs_both},
    {"RENAME_EXCHANGE swaps a file and a directory", exchange_kinds},
    {"RENAME_EXCHANGE swaps two directories of different parents", exchange_directories},
    {"RENAME_EXCHANGE does not put a directory into itself", exchange_into_itself},
    {NULL, NULL},
};

const struct cf_topic cf_topic_exchange = {"exchange", cases};
