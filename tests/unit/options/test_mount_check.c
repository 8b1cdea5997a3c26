/* SPDX-License-Identifier: BSD-2-Clause
 *
 * test_mount_check.c - what is refused before a store is opened: each case with its errno and text,
 * in a directory of its own.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "fs/mount_check.h"

static int set_up(void **state)
{
    char *directory = strdup("/tmp/test_mount_check.XXXXXX");
    FILE *file;

    if (directory == NULL || mkdtemp(directory) == NULL || chdir(directory) != 0)
        return -1;
    *state = directory;
    file = fopen("file", "w");
    if (file == NULL || fclose(file) != 0)
        return -1;
    return mkdir("store", 0700) || mkdir("store/inside", 0700) || mkdir("mnt", 0700) ||
           mkdir("full", 0700) || mkdir("full/entry", 0700) || mkdir("storefront", 0700) ||
           symlink("mnt", "link") || symlink("nowhere", "dangling");
}

static int tear_down(void **state)
{
    static const char *const names[] = {"file", "link", "dangling"};
    static const char *const directories[] = {"store/inside", "store", "mnt",
                                              "full/entry",   "full",  "storefront"};
    int failed = 0;

    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        failed |= unlink(names[i]);
    for (size_t i = 0; i < sizeof directories / sizeof directories[0]; i++)
        failed |= rmdir(directories[i]);
    failed |= chdir("/") || rmdir(*state);
    free(*state);
    return failed;
}

static void test_refusals(void **state)
{
    static const struct {
        const char *store, *mountpoint, *options;
        int error;
        const char *text; /* must occur in the message */
    } cases[] = {
        {"", "mnt", "", -EINVAL, "the store's path is empty"},
        {"nowhere/store", "mnt", "", -ENOENT,
         "store nowhere/store: its parent directory does not exist"},
        {"file/store", "mnt", "", -ENOTDIR, "store file/store: Not a directory"},
        {"file", "mnt", "", -ENOTDIR, "store file: not a directory"},
        {"new", "mnt", "ro", -ENOENT,
         "store new: does not exist, and a read-only mount does not create it"},
        {"store", "nowhere", "", -ENOENT, "mount point nowhere: does not exist"},
        {"store", "dangling", "", -ENOENT, "mount point dangling: does not exist"},
        {"store", "file", "", -ENOTDIR, "mount point file: not a directory"},
        {"store", "full", "", -ENOTEMPTY,
         "mount point full: not empty (-o nonempty mounts over what is there)"},
        {"mnt", "mnt", "", -EINVAL, "the store and the mount point are both /"},
        {"mnt", "link", "", -EINVAL, "the store and the mount point are both /"},
        {"store", "store/inside", "", -EINVAL, "lies inside the store /"},
        {"full/entry", "full", "nonempty", -EINVAL, "lies inside the mount point /"},
        {"mnt/new", "link", "", -EINVAL, "lies inside the mount point /"},
        {"store", "mnt", "allow_other,allow_root", -EINVAL,
         "options allow_other and allow_root exclude each other"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct fs_mount_paths paths;
        struct fs_options options;
        char error[512] = "";

        fs_options_init(&options);
        assert_int_equal(fs_options_parse(&options, cases[i].options, error, sizeof error), 0);
        assert_int_equal(fs_mount_check(cases[i].store, cases[i].mountpoint, &options, &paths,
                                        error, sizeof error),
                         cases[i].error);
        if (strstr(error, cases[i].text) == NULL)
            fail_msg("'%s' does not hold '%s'", error, cases[i].text);
    }
}

/* Accepted as far as paths go: only a missing device may refuse them. */
static void test_paths(void **state)
{
    static const struct {
        const char *store, *mountpoint, *options, *store_end, *mountpoint_end;
    } cases[] = {
        {"store", "mnt", "", "/store", "/mnt"},
        {"store/", "mnt/", "", "/store", "/mnt"},
        {"./store", "link", "", "/store", "/mnt"},
        {"new", "mnt", "", "/new", "/mnt"},
        {"store/../new//", "mnt", "", "/new", "/mnt"},
        {"store", "full", "nonempty", "/store", "/full"},
        /* a common beginning of the names is not nesting */
        {"store", "storefront", "", "/store", "/storefront"},
        {"storefront", "store", "nonempty", "/storefront", "/store"},
    };
    const bool device = access("/dev/fuse", R_OK | W_OK) == 0;

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct fs_mount_paths paths;
        struct fs_options options;
        char error[512] = "", expected[PATH_MAX];
        int result;

        fs_options_init(&options);
        assert_int_equal(fs_options_parse(&options, cases[i].options, error, sizeof error), 0);
        result = fs_mount_check(cases[i].store, cases[i].mountpoint, &options, &paths, error,
                                sizeof error);
        if (device)
            assert_int_equal(result, 0);
        else
            assert_non_null(strstr(error, "/dev/fuse"));
        snprintf(expected, sizeof expected, "%s%s", (const char *)*state, cases[i].store_end);
        assert_string_equal(paths.store, expected);
        snprintf(expected, sizeof expected, "%s%s", (const char *)*state, cases[i].mountpoint_end);
        assert_string_equal(paths.mountpoint, expected);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_paths),
    };

    return cmocka_run_group_tests(tests, set_up, tear_down);
}
