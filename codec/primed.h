/* SPDX-License-Identifier: BSD-2-Clause
 *
 * primed.h - primed state: where a block starts instead of from nothing.
 *
 * What the model had learnt after other blocks of the same kind: weights, weight sets, bias rows and
 * those slots that proved useful in several blocks (step-wise model passing, SEP). A block copies it
 * into its own state at the start and pays nothing afterwards.
 *
 * A builder makes one by running the integer model itself, with a slot table so large that nothing
 * is replaced, over training blocks in sequence. A slot is kept when blocks after the one that made
 * it asked for it again; those asked for by most blocks come first, and counts are cut so that a
 * block's own data soon outweighs what others taught.
 */
#ifndef SEP_PRIMED_H
#define SEP_PRIMED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "codec/sep.h"
#include "net.h"
#include "state.h"

#define SEP_PRIMED_SLOTS_MAX  196608u /* the largest table full */
#define SEP_PRIMED_LABEL      16u
#define SEP_FINGERPRINT_LOG   16u
#define SEP_FINGERPRINT_BYTES ((1u << SEP_FINGERPRINT_LOG) / 8u)

struct sep_primed_slot {
    uint16_t line; /* of the largest table: 1 << SEP_LINES_LOG_MAX lines, its upper half for odd
                       experts */
    uint16_t check;
    uint16_t state; /* as in struct sep_line; count 1 .. SEP_COUNT_LIMIT */
    int8_t row[SEP_SYMBOLS];
};

struct sep_primed {
    char label[SEP_PRIMED_LABEL]; /* what it was trained on, for people; zero-padded, ends in 0 */
    uint8_t profile;              /* enum sep_profile_number: the only one it is for */
    bool with_net;                /* it was trained with the net as an expert, and is for that */

    /* One bit for each hash of three bytes that is common in the training data: how the encoder
     * finds the states worth a trial. */
    uint8_t fingerprint[SEP_FINGERPRINT_BYTES];

    struct sep_weight weight[2][SEP_EXPERTS_MAX][SEP_CONFIDENCES];
    int32_t weight_set[2][SEP_WEIGHT_SETS][SEP_SET_CONTEXTS][SEP_EXPERTS_MAX];
    int16_t bias1[256][17][SEP_SYMBOLS];
    int16_t bias2[1u << SEP_BIAS2_LOG_MAX][SEP_SYMBOLS];

    uint32_t slot_count;           /* 0 .. SEP_PRIMED_SLOTS_MAX */
    struct sep_primed_slot *slots; /* by line, at most SEP_WAYS of a line; owned */
};

struct sep_primed *sep_primed_new(uint32_t slot_count);
void sep_primed_free(struct sep_primed *primed);

/* Bit of a fingerprint for the three bytes at BYTES. */
static inline uint32_t sep_fingerprint_bit(const uint8_t *bytes)
{
    const uint32_t three = bytes[0] | (uint32_t)bytes[1] << 8 | (uint32_t)bytes[2] << 16;

    return (three * SEP_HASH_1) >> (32 - SEP_FINGERPRINT_LOG);
}

/* Builder: 0.3 GiB of memory while it exists. NET is borrowed, or NULL for a state without net. */
struct sep_primer;
struct sep_primer *sep_primer_new(unsigned profile, const struct sep_net *net);
void sep_primer_free(struct sep_primer *primer);

/* Learns one block of 1 .. SEP_BLOCK_SIZE_MAX bytes, to be given in a size that blocks will have.
 * STRIDE is the block's, TRANSFORM is applied to a copy of it first. */
enum sep_status sep_primer_block(struct sep_primer *primer, const uint8_t *plain, size_t plain_size,
                                 unsigned stride, unsigned transform);

/* The state after the blocks so far, with at most SLOTS_MAX slots that BLOCKS_MIN or more blocks
 * asked for, with counts cut to COUNT_MAX; NULL when memory is short. */
struct sep_primed *sep_primer_finish(const struct sep_primer *primer, const char *label,
                                     uint32_t slots_max, unsigned blocks_min, unsigned count_max);

#endif
