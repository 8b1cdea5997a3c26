/* SPDX-License-Identifier: BSD-2-Clause
 *
 * powercut_decode.c - see powercut_decode.h. A decode follows from codec, payload and plain size; that
 * it gave the bytes of the block's hash is remembered under a hash of all four.
 */
#include "powercut_decode.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

#include "codec/sep.h"
#include "powercut.h"

#define GOOD 8192u /* remembered, a power of two; a newer one takes the place of an older */

static int decode(const struct index_block *block, const void *payload, char *reason, size_t size)
{
    static uint8_t plain[POWERCUT_BLOCK];
    static struct sep_context *context; /* as long as the process */
    if (context == NULL)
        context = sep_context_new();
    if (context == NULL)
        return -ENOMEM;
    if (block->plain_size > sizeof plain) {
        snprintf(reason, size, "%" PRIu32 " plain bytes are more than a block", block->plain_size);
        return -EIO;
    }
    const enum sep_status status = sep_decode(context, block->codec, payload,
                                              block->at.payload_size, plain, block->plain_size);
    if (status != SEP_OK) {
        snprintf(reason, size, "does not decode: %s", sep_status_text(status));
        return -EIO;
    }
    const struct index_hash hash = index_hash_of(plain, block->plain_size);
    if (hash.low == block->hash.low && hash.high == block->hash.high)
        return 0;
    snprintf(reason, size, "decodes to other bytes than were written");
    return -EIO;
}

int powercut_decode(void *arg, unsigned worker, const struct index_block *block,
                    const void *payload, char *reason, size_t size)
{
    static struct index_hash good[GOOD];
    const struct index_hash stored = index_hash_of(payload, block->at.payload_size);
    const uint64_t all[] = {stored.low,       stored.high,       block->hash.low,
                            block->hash.high, block->plain_size, block->codec};
    const struct index_hash key = index_hash_of(all, sizeof all);
    struct index_hash *const place = &good[key.low % GOOD];
    (void)arg;
    (void)worker;
    if (place->low == key.low && place->high == key.high)
        return 0;
    const int error = decode(block, payload, reason, size);
    if (error == 0)
        *place = key;
    return error;
}
