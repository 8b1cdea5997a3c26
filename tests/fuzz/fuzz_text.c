/* SPDX-License-Identifier: BSD-2-Clause
 *
 * fuzz_text.c - the small languages that users write: mount options (fs/options.c), policies
 * (fs/policy.c), methods (codec/api.c), sizes and times, numbers and names on a command line
 * (tools/cli.c), percent-encoding (fs/control_text.c).
 *
 * Input: byte 0 which, then the text. Properties: a refusal says why and changes nothing; what is
 * accepted is in range; what was written by our own code reads back as what it was.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fs/control_text.h"
#include "fs/options.h"
#include "fs/policy.h"
#include "fuzz.h"
#include "tools/cli.h"

static void method_valid(struct sep_method method)
{
    struct sep_method again;
    char text[32];

    FUZZ_CHECK(method.codec < SEP_CODEC_COUNT);
    FUZZ_CHECK(sep_method_format(method, text, sizeof text) < (int)sizeof text);
    FUZZ_CHECK(sep_method_parse(text, &again) == SEP_OK);
    FUZZ_CHECK(again.codec == method.codec && again.level == method.level);
}

static void options(const char *text)
{
    struct fs_options options;
    char error[256] = "";

    fs_options_init(&options);
    if (fs_options_parse(&options, text, error, sizeof error) != 0) {
        FUZZ_CHECK(error[0] != '\0');
        return;
    }
    FUZZ_CHECK(options.cache >= 1u << 20 && options.dirty >= 8u << 20);
    FUZZ_CHECK(options.threads >= 1 && options.threads <= 256);
    FUZZ_CHECK(options.cpu_share >= 1 && options.cpu_share <= 100);
    FUZZ_CHECK(options.commit >= 1 && options.commit <= 3600);
    FUZZ_CHECK(options.block_size == 0 || (options.block_size & (options.block_size - 1)) == 0);
    FUZZ_CHECK(options.compact <= FS_COMPACT_OFF);
    method_valid(options.hot);
    method_valid(options.cold);
    FUZZ_CHECK(options.hot.codec != SEP_CODEC_SEP);
    /* What goes to mount(2) and libfuse is made of words from our own table only. */
    FUZZ_CHECK(strlen(options.fuse) < sizeof options.fuse);
    FUZZ_CHECK(strspn(options.fuse, "abcdefghijklmnopqrstuvwxyz_,") == strlen(options.fuse));
}

static void policy(const char *text)
{
    const struct fs_policy before = {.hot = {SEP_CODEC_ZSTD, 3}, .cold = {SEP_CODEC_SEP, 5}};
    struct fs_policy policy = before;
    char error[64] = "";

    if (fs_policy_parse(text, &policy, error, sizeof error) != 0) {
        FUZZ_CHECK(error[0] != '\0' && memcmp(&policy, &before, sizeof policy) == 0);
        return;
    }
    method_valid(policy.hot);
    method_valid(policy.cold);
    FUZZ_CHECK(policy.hot.codec != SEP_CODEC_SEP && !(policy.cold_never && policy.cold_now));
}

static void numbers(const char *text)
{
    uint64_t value, again;
    uint32_t seconds, seconds_again;
    char written[64];

    if (fs_parse_size(text, &value) == 0) {
        snprintf(written, sizeof written, "%" PRIu64, value);
        FUZZ_CHECK(fs_parse_size(written, &again) == 0 && again == value);
        FUZZ_CHECK(text[0] >= '0' && text[0] <= '9');
    }
    if (fs_parse_time(text, &seconds) == 0) {
        snprintf(written, sizeof written, "%" PRIu32 "s", seconds);
        FUZZ_CHECK(fs_parse_time(written, &seconds_again) == 0 && seconds_again == seconds);
    }
    if (cli_parse_u64(text, 10, 1000, &value)) {
        FUZZ_CHECK(value >= 10 && value <= 1000);
        FUZZ_CHECK(strtoull(text, NULL, 10) == value);
    }
}

static void percent(char *text)
{
    const size_t length = strlen(text), need = fs_percent_encode(text, NULL, 0);
    char *const encoded = malloc(need + 1), *const copy = strdup(text);

    FUZZ_CHECK(encoded != NULL && copy != NULL && need >= length && need <= 3 * length);
    FUZZ_CHECK(fs_percent_encode(text, encoded, need + 1) == need && strlen(encoded) == need);
    FUZZ_CHECK(strpbrk(encoded, " \n\r\t=") == NULL);
    FUZZ_CHECK(fs_percent_decode(encoded) == 0 && strcmp(encoded, text) == 0);
    if (fs_percent_decode(copy) == 0)
        FUZZ_CHECK(strlen(copy) <= length);
    /* cut short: still whole codes */
    if (need > 3) {
        FUZZ_CHECK(fs_percent_encode(text, encoded, need / 2 + 1) == need);
        FUZZ_CHECK(fs_percent_decode(encoded) == 0);
        FUZZ_CHECK(strncmp(encoded, text, strlen(encoded)) == 0);
    }
    free(copy);
    free(encoded);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_input input = {data, size};
    const uint8_t kind = fuzz_u8(&input);
    char *const text = fuzz_text(&input);
    struct sep_method method;

    switch (kind % 5) {
    case 0:
        options(text);
        break;
    case 1:
        policy(text);
        break;
    case 2:
        numbers(text);
        break;
    case 3:
        percent(text);
        break;
    default:
        if (sep_method_parse(text, &method) == SEP_OK)
            method_valid(method);
    }
    free(text);
    return 0;
}
