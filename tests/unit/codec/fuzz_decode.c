/* SPDX-License-Identifier: BSD-2-Clause
 *
 * fuzz_decode.c - fuzz target for block decoding, for libFuzzer or AFL++ (clang -fsanitize=fuzzer).
 *
 * Input: byte 0 codec, bytes 1-2 plain_size - 1 (little-endian), then the payload. Compiled with
 * FUZZ_REPLAY it gets a main that replays the files named as arguments, or, without arguments, a
 * fixed number of mutations of good payloads: an ordinary test for any compiler.
 */
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "codec/sep.h"
#include "samples.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct sep_context *context;
    struct sep_block_info info;
    uint8_t *plain;
    size_t plain_size;

    if (size < 3)
        return 0;
    plain_size = (size_t)(data[1] | data[2] << 8) + 1;
    context = sep_context_new();
    plain = malloc(plain_size);
    if (context != NULL && plain != NULL) {
        (void)sep_block_inspect(data + 3, size - 3, &info);
        (void)sep_decode(context, data[0], data + 3, size - 3, plain, plain_size);
    }
    free(plain);
    sep_context_free(context);
    return 0;
}

#ifdef FUZZ_REPLAY
static int replay_file(const char *path)
{
    static uint8_t data[1 << 20];
    FILE *file = fopen(path, "rb");
    size_t size;

    if (file == NULL) {
        perror(path);
        return 1;
    }
    size = fread(data, 1, sizeof data, file);
    fclose(file);
    return LLVMFuzzerTestOneInput(data, size);
}

/* Good payloads of every codec and kind of data, with one to four bytes changed or the end cut. */
static int replay_mutations(unsigned rounds)
{
    struct sep_context *context = sep_context_new();
    static uint8_t plain[2000], data[4096];
    uint64_t seed = 31;

    for (unsigned round = 0; round < rounds && context != NULL; round++) {
        const size_t plain_size = 1 + sample_random(&seed) % sizeof plain;
        const uint8_t codec = (uint8_t)(round % SEP_CODEC_COUNT);
        struct sep_method used;
        size_t size;

        sample_fill((enum sample)(round / SEP_CODEC_COUNT % SAMPLE_COUNT), plain, plain_size);
        if (sep_encode(context, (struct sep_method){codec, 0}, plain, plain_size, data + 3,
                       sep_bound(plain_size), &size, &used) != SEP_OK)
            return 1;
        data[0] = used.codec;
        data[1] = (uint8_t)(plain_size - 1);
        data[2] = (uint8_t)((plain_size - 1) >> 8);
        for (unsigned k = 0; k <= round % 4; k++)
            data[sample_random(&seed) % (size + 3)] = (uint8_t)(sample_random(&seed) >> 40);
        LLVMFuzzerTestOneInput(data, round % 8 == 7 ? 3 + size / 2 : 3 + size);
    }
    sep_context_free(context);
    return 0;
}

int main(int argc, char **argv)
{
    int failed = 0;

    for (int k = 1; k < argc; k++)
        failed |= replay_file(argv[k]);
    return argc > 1 ? failed : replay_mutations(400);
}
#endif
