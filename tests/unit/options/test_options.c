/* SPDX-License-Identifier: BSD-2-Clause
 *
 * test_options.c - mount options: defaults, every value's limits, and the text of each refusal.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "fs/options.h"

static int parse(struct fs_options *options, const char *list, char error[256])
{
    fs_options_init(options);
    error[0] = '\0';
    return fs_options_parse(options, list, error, 256);
}

static void test_defaults(void **state)
{
    struct fs_options options;

    (void)state;
    fs_options_init(&options);
    assert_false(options.readonly || options.allow_other || options.writeback || options.acl);
    assert_false(options.cold_off || options.promote || options.nonempty || options.foreground);
    assert_int_equal(options.cold_after, 3600);
    assert_int_equal(options.hot.codec, SEP_CODEC_ZSTD);
    assert_int_equal(options.hot.level, 3);
    assert_int_equal(options.cold.codec, SEP_CODEC_SEP);
    assert_int_not_equal(options.cold.level, 0);
    assert_int_equal(options.compact, FS_COMPACT_AUTO);
    assert_int_equal(options.cache, 128 << 20);
    assert_int_equal(options.dirty, 64 << 20);
    assert_in_range(options.threads, 1, 256);
    assert_int_equal(options.cpu_share, 100);
    assert_int_equal(options.block_size, 0);
    assert_int_equal(options.commit, 5);
    assert_string_equal(options.fuse, "");
    assert_int_equal(options.models[0], '/');
}

static void test_values(void **state)
{
    struct fs_options options;
    char error[256];

    (void)state;
    assert_int_equal(parse(&options,
                           "ro,allow_other,cold_after=30d,hot=lz4,cold=zstd:19,compact=cpu,"
                           "cache=1G,dirty=1.5G,threads=3,cpu_share=25,block_size=64K,commit=1m,"
                           "writeback,promote,acl,nonempty,debug",
                           error),
                     0);
    assert_true(options.readonly && options.allow_other && options.writeback && options.promote);
    assert_true(options.acl && options.nonempty && options.debug);
    assert_int_equal(options.cold_after, 30 * 86400);
    assert_int_equal(options.hot.codec, SEP_CODEC_LZ4);
    assert_int_equal(options.cold.codec, SEP_CODEC_ZSTD);
    assert_int_equal(options.cold.level, 19);
    assert_int_equal(options.compact, FS_COMPACT_CPU);
    assert_int_equal(options.cache, 1 << 30);
    assert_int_equal(options.dirty, 3u << 29);
    assert_int_equal(options.threads, 3);
    assert_int_equal(options.cpu_share, 25);
    assert_int_equal(options.block_size, 65536);
    assert_int_equal(options.commit, 60);

    assert_int_equal(parse(&options, "ro,rw,,cold=off,", error), 0);
    assert_false(options.readonly);
    assert_true(options.cold_off);
    assert_int_equal(options.cold.codec, SEP_CODEC_RAW);
    assert_int_equal(parse(&options, "cold=off,cold=sep:9", error), 0);
    assert_false(options.cold_off);
    assert_int_equal(options.cold.level, 9);
}

/* What mount(8), fstab and mount.fuse3 hand over, and what goes on to libfuse. */
static void test_mount_options(void **state)
{
    struct fs_options options;
    char error[256];

    (void)state;
    assert_int_equal(parse(&options,
                           "rw,dev,suid,noatime,relatime,_netdev,noauto,nofail,user=joe,users,"
                           "x-systemd.requires=/dev/x,X-mount.mkdir,comment=a b,defaults,nodev,"
                           "auto_unmount,default_permissions",
                           error),
                     0);
    assert_string_equal(options.fuse, "dev,suid,noatime,nodev,auto_unmount");
}

static void test_refusals(void **state)
{
    static const struct {
        const char *list, *error;
    } cases[] = {
        {"frobnicate", "unknown option 'frobnicate'"},
        {"ro,cach=1M", "unknown option 'cach'"},
        {"remount", "unknown option 'remount'"},
        {"gpu_memory=1G", "unknown option 'gpu_memory'"},
        {"ro=1", "option ro takes no value"},
        {"nosuid=1", "option nosuid takes no value"},
        {"cache", "option cache needs a value: cache=SIZE"},
        {"cache=", "option cache needs a value: cache=SIZE"},
        {"cache=12X", "option cache=12X: expected a size from 1M to 1T"},
        {"cache=1", "option cache=1: expected a size from 1M to 1T"},
        {"cache=2T", "option cache=2T: expected a size from 1M to 1T"},
        {"cache=99999999999999999999", "option cache=99999999999999999999: expected a size from "
                                       "1M to 1T"},
        {"dirty=-1", "option dirty=-1: expected a size from 8M to 1T"},
        {"block_size=100K", "option block_size=100K: expected a power of two from 16K to 4M"},
        {"block_size=8K", "option block_size=8K: expected a power of two from 16K to 4M"},
        {"block_size=8M", "option block_size=8M: expected a power of two from 16K to 4M"},
        {"commit=0", "option commit=0: expected a time from 1s to 3600s, such as 90s, 5m, 12h or "
                     "30d"},
        {"cold_after=1y", "option cold_after=1y: expected a time from 0s to 315360000s, such as "
                          "90s, 5m, 12h or 30d"},
        {"threads=0", "option threads=0: expected a whole number from 1 to 256"},
        {"threads=2x", "option threads=2x: expected a whole number from 1 to 256"},
        {"cpu_share=101", "option cpu_share=101: expected a whole number from 1 to 100"},
        {"hot=sep", "option hot=sep: expected lz4[:1..12] or zstd[:1..19]"},
        {"hot=zstd:20", "option hot=zstd:20: expected lz4[:1..12] or zstd[:1..19]"},
        {"cold=lz4", "option cold=lz4: expected sep[:1..9], zstd[:1..19] or off"},
        {"compact=gpu", "option compact=gpu: expected auto, cpu or off"},
        {"fsname=x", "option fsname: cannot be set, it is the store's path"},
    };
    struct fs_options options;
    char error[256];

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        assert_int_equal(parse(&options, cases[i].list, error), -EINVAL);
        assert_string_equal(error, cases[i].error);
    }
}

/* More text than any buffer holds: refused, nothing written beyond. */
static void test_long_lists(void **state)
{
    struct fs_options options;
    char error[256], list[4096];

    (void)state;
    memset(list, 'a', 300);
    list[300] = '\0';
    assert_int_equal(parse(&options, list, error), -EINVAL);
    assert_string_equal(error, "option aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa...: too long");
    list[0] = '\0';
    for (unsigned i = 0; i < 200; i++)
        strcat(list, "nosuid,");
    assert_int_equal(parse(&options, list, error), -EINVAL);
    assert_string_equal(error, "option nosuid: too many options");
    assert_true(strlen(options.fuse) < sizeof options.fuse);
}

static void test_sizes(void **state)
{
    static const struct {
        const char *text;
        int result;
        uint64_t bytes;
    } cases[] = {
        {"0", 0, 0},
        {"1024", 0, 1024},
        {"16K", 0, 16384},
        {"16k", 0, 16384},
        {"1.5G", 0, 3ull << 29},
        {"0.5K", 0, 512},
        {"0.0009765625M", 0, 1023}, /* digits beyond the sixth are cut off */
        {"3M", 0, 3ull << 20},
        {"2T", 0, 2ull << 40},
        {"18446744073709551615", 0, UINT64_MAX},
        {"18446744073709551616", -ERANGE, 0},
        {"16777216T", -ERANGE, 0},
        {"16777215.9T", 0, (16777215ull << 40) + 989560464998ull},
        {"", -EINVAL, 0},
        {"K", -EINVAL, 0},
        {"1.5", -EINVAL, 0},
        {"1.K", -EINVAL, 0},
        {".5K", -EINVAL, 0},
        {"1KB", -EINVAL, 0},
        {"1 K", -EINVAL, 0},
        {"-1", -EINVAL, 0},
        {"+1", -EINVAL, 0},
        {"0x10", -EINVAL, 0},
        {"1e3", -EINVAL, 0},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        uint64_t bytes = 0;

        assert_int_equal(fs_parse_size(cases[i].text, &bytes), cases[i].result);
        assert_int_equal(bytes, cases[i].bytes);
    }
}

static void test_times(void **state)
{
    static const struct {
        const char *text;
        int result;
        uint32_t seconds;
    } cases[] = {
        {"0", 0, 0},
        {"90", 0, 90},
        {"90s", 0, 90},
        {"5m", 0, 300},
        {"12h", 0, 43200},
        {"30d", 0, 2592000},
        {"4294967295", 0, UINT32_MAX},
        {"4294967296", -ERANGE, 0},
        {"49711d", -ERANGE, 0},
        {"", -EINVAL, 0},
        {"d", -EINVAL, 0},
        {"1w", -EINVAL, 0},
        {"1hh", -EINVAL, 0},
        {"1.5h", -EINVAL, 0},
        {"-1s", -EINVAL, 0},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        uint32_t seconds = 0;

        assert_int_equal(fs_parse_time(cases[i].text, &seconds), cases[i].result);
        assert_int_equal(seconds, cases[i].seconds);
    }
}

/* Every option that takes effect is in --help with its placeholder. */
static void test_help(void **state)
{
    static const char *const names[] = {
        "ro ",          "allow_other ", "cold_after=TIME", "hot=METHOD", "cold=METHOD",
        "compact=MODE", "cache=SIZE",   "dirty=SIZE",      "threads=N",  "cpu_share=PERCENT",
        "commit=TIME",  "writeback ",   "block_size=SIZE", "promote ",   "acl ",
        "nonempty ",
    };
    char *text = NULL;
    size_t size = 0;
    FILE *const out = open_memstream(&text, &size);

    (void)state;
    assert_non_null(out);
    fs_options_help(out);
    fclose(out);
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        assert_non_null(strstr(text, names[i]));
    assert_null(strstr(text, "fsname"));
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_defaults),      cmocka_unit_test(test_values),
        cmocka_unit_test(test_mount_options), cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_long_lists),    cmocka_unit_test(test_sizes),
        cmocka_unit_test(test_times),         cmocka_unit_test(test_help),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
