/* SPDX-License-Identifier: BSD-2-Clause
 *
 * walk.h - what the patches see in a block, byte by byte: the codec's own patch code, without its
 * model around it.
 */
#ifndef TRAIN_WALK_H
#define TRAIN_WALK_H

#include <stddef.h>
#include <stdint.h>

#include "codec/profile.h"
#include "codec/state.h"

struct train_walk {
    struct sep_profile profile; /* the patches to follow */
    struct sep_model_state *m;  /* owned; only what patches need is ever touched */
    uint32_t size;
};

/* COUNT patches, at most SEP_PROFILE_EXPERTS. -ENOMEM when memory is short. */
int train_walk_init(struct train_walk *walk, const uint8_t *patch, unsigned count);
void train_walk_free(struct train_walk *walk);

/* Starts at the first byte; BYTES must live as long as the walk goes on. STRIDE 0: none. */
void train_walk_begin(struct train_walk *walk, const uint8_t *bytes, uint32_t size,
                      unsigned stride);
void train_walk_next(struct train_walk *walk);

static inline uint32_t train_walk_at(const struct train_walk *walk)
{
    return walk->m->position;
}

#endif
