/* SPDX-License-Identifier: BSD-2-Clause
 *
 * sample.h - which blocks a model is trained on, and which it is judged by.
 *
 * Every block that a source offers has a priority: a hash of the seed, its name and its offset. The
 * blocks with the lowest priorities are kept, as many as fit the limit, so the sample is the same
 * whatever order the source has, and memory is bounded by the limit and not by the source.
 */
#ifndef TRAIN_SAMPLE_H
#define TRAIN_SAMPLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "train.h"

/* Held-out blocks are one file in SPLIT; where there are fewer files than that, one stretch of
 * SPLIT_STRETCH bytes in SPLIT. */
#define TRAIN_SPLIT         8u
#define TRAIN_SPLIT_STRETCH (1u << 20)

struct train_block {
    uint64_t priority;
    char *name; /* owned */
    uint64_t offset;
    uint8_t *bytes; /* owned */
    uint32_t size;
    uint64_t hash; /* of the bytes */
    enum train_kind kind;
    bool held_out;
};

struct train_sample {
    uint64_t seed;
    uint64_t limit; /* bytes kept at most */
    unsigned kinds;
    uint64_t bytes;
    struct train_block
        *blocks; /* a heap, the highest priority on top; after close in random order */
    size_t count, room;
    uint64_t duplicates; /* blocks left out by close, since their bytes were there already */
};

#endif
