/* SPDX-License-Identifier: BSD-2-Clause
 *
 * knowledge.h - which models a context has, and what of them a block uses.
 */
#ifndef SEP_KNOWLEDGE_H
#define SEP_KNOWLEDGE_H

#include "codec.h"
#include "model.h"
#include "model_file.h"

#define SEP_KNOWS_PUBLIC  1u /* bits of sep_block_info.knowledge */
#define SEP_KNOWS_PRIVATE 2u
#define SEP_KNOWS_PRIMED  4u

/* What a header names, from the models that CONTEXT has. SEP_ERROR_HEADER when the model is there
 * and has no such thing. */
enum sep_status sep_knowledge_find(const struct sep_context *context,
                                   const struct sep_block_info *info,
                                   struct sep_knowledge *knowledge);

/* The net that MODEL's states and own blocks use: its own, or its base's; NULL without one. *knows
 * is the bit of its kind. */
const struct sep_net *sep_knowledge_net(const struct sep_context *context,
                                        const struct sep_model *model, unsigned *knows);

/* Of the models that CONTEXT encodes with and that have a net of their own, the one with the state that
 * looks most like PLAIN, or NULL. */
const struct sep_model *sep_knowledge_best_net(const struct sep_context *context,
                                               const uint8_t *plain, size_t size);

/* A primed state that may fit a block. */
struct sep_primed_choice {
    const struct sep_model *model;
    uint8_t state;
    uint32_t score; /* how much of the block's bytes look familiar, of 1024 */
};

/* The states that look most like PLAIN, best first, among those that the context encodes with, and
 * either fast profiles or full ones, with nets or only without; at most MOST. Returns their number. */
unsigned sep_knowledge_propose(const struct sep_context *context, const uint8_t *plain, size_t size,
                               bool fast, bool with_net, struct sep_primed_choice *choices,
                               unsigned most);

#endif
