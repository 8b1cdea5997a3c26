/* SPDX-License-Identifier: BSD-2-Clause
 *
 * fuzz_decode.c - block payloads of every codec (codec/).
 *
 * Input: byte 0 codec and mode, bytes 1-2 a size, then the payload or, in the other mode, plain
 * bytes. Properties: decoding any payload writes nothing outside the plain size asked for, and gives
 * the same status and the same bytes when it is done again in the used context; what was encoded
 * decodes to itself, and a header that can be inspected is one that was written.
 */
#include <stdlib.h>
#include <string.h>

#include "codec/sep.h"
#include "fuzz.h"

/* SEP codes about 100 KB/s under sanitizers. */
#define PLAIN_MAX 65536u
#define SLOW_MAX  512u

static struct sep_context *context;

static void decode_any(struct fuzz_input *input, unsigned codec, bool twice)
{
    const size_t plain_size = 1 + fuzz_u16(input) % (codec == SEP_CODEC_SEP ? SLOW_MAX : PLAIN_MAX);
    size_t size;
    uint8_t *const payload = fuzz_take(input, input->left, &size);
    uint8_t *const plain = malloc(plain_size), *const again = malloc(plain_size);
    struct sep_block_info info;

    FUZZ_CHECK(plain != NULL && again != NULL);
    (void)sep_block_inspect(payload, size, &info);
    const enum sep_status first = sep_decode(context, codec, payload, size, plain, plain_size);

    FUZZ_CHECK(first < SEP_STATUS_COUNT);
    if (twice) {
        FUZZ_CHECK(sep_decode(context, codec, payload, size, again, plain_size) == first);
        if (first == SEP_OK)
            FUZZ_CHECK(memcmp(plain, again, plain_size) == 0);
    }
    free(again);
    free(plain);
    free(payload);
}

static void round_trip(struct fuzz_input *input, uint8_t codec)
{
    const struct sep_method method = {.codec = codec, .level = fuzz_u8(input)};
    struct sep_method used;
    struct sep_block_info info;
    size_t plain_size, size = 0;
    uint8_t *const plain =
        fuzz_take(input, codec == SEP_CODEC_SEP ? SLOW_MAX : PLAIN_MAX, &plain_size);
    const size_t capacity = sep_bound(plain_size);
    uint8_t *const payload = malloc(capacity), *const again = malloc(plain_size + 1);
    const enum sep_status status =
        sep_encode(context, method, plain, plain_size, payload, capacity, &size, &used);

    FUZZ_CHECK(payload != NULL && again != NULL);
    if (plain_size > 0 && codec < SEP_CODEC_COUNT && method.level == 0)
        FUZZ_CHECK(status == SEP_OK);
    if (status == SEP_OK) {
        FUZZ_CHECK(size <= plain_size + SEP_EXPANSION_MAX);
        FUZZ_CHECK(used.codec == codec || used.codec == SEP_CODEC_RAW);
        FUZZ_CHECK(sep_decode(context, used.codec, payload, size, again, plain_size) == SEP_OK);
        FUZZ_CHECK(memcmp(plain, again, plain_size) == 0);
        if (used.codec == SEP_CODEC_SEP)
            FUZZ_CHECK(sep_block_inspect(payload, size, &info) == SEP_OK);
    }
    free(again);
    free(payload);
    free(plain);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_input input = {data, size};
    const uint8_t head = fuzz_u8(&input);
    const uint8_t codec = head % (SEP_CODEC_COUNT + 1); /* one of them unknown */

    if (context == NULL)
        context = sep_context_new();
    FUZZ_CHECK(context != NULL);
    if (head & 0x80)
        round_trip(&input, codec);
    else
        decode_any(&input, codec, head & 0x40);
    return 0;
}
