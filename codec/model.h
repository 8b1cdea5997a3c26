/* SPDX-License-Identifier: BSD-2-Clause
 *
 * model.h - the model as encoder and decoder see it: a distribution for each nibble in turn.
 *
 * begin, then for each byte: code the high nibble from m->cumulative, after_high, code the low
 * nibble from m->cumulative, store the byte in the plain buffer, after_low. Both sides call the
 * same functions in the same order; there is no second model.
 */
#ifndef SEP_MODEL_H
#define SEP_MODEL_H

#include <stddef.h>

#include "kernel.h"
#include "state.h"

/* What a block knows before its first byte; both may be NULL. A primed state is for one profile, and
 * with or without a net. */
struct sep_knowledge {
    const struct sep_primed *primed;
    const struct sep_net *net;
};

/* PLAIN is read only below the position reached. PROFILE is below SEP_PROFILE_COUNT. */
void sep_model_begin(struct sep_model_state *m, const struct sep_kernel *kernel,
                     const uint8_t *plain, size_t plain_size, unsigned profile, unsigned stride,
                     const struct sep_knowledge *knowledge);

/* For training: prepare clears all that a state learns, with a table of 1 << LINES_LOG lines, which
 * may be larger than the struct when the caller has allocated room behind it; resume begins a block
 * with what the blocks before it taught. */
void sep_model_prepare(struct sep_model_state *m, unsigned profile, uint32_t lines_log,
                       uint32_t bias_log, const struct sep_net *net);
void sep_model_resume(struct sep_model_state *m, const struct sep_kernel *kernel,
                      const uint8_t *plain, size_t plain_size, unsigned stride);

/* primed.c: what a state learns, from PRIMED. The state has been prepared for the largest table. */
void sep_primed_apply(const struct sep_primed *primed, struct sep_model_state *m);

void sep_model_after_high(struct sep_model_state *m, const struct sep_kernel *kernel,
                          uint32_t high);
void sep_model_after_low(struct sep_model_state *m, const struct sep_kernel *kernel, uint32_t low);

/* patch.c: patch_value[] for the byte at m->position, but for the match's. */
void sep_patch_begin(struct sep_model_state *m);
void sep_patch_next(struct sep_model_state *m); /* m->history has a new byte */

/* match.c: ahead asks for the memory that next reads, when the high nibble is known. */
void sep_match_begin(struct sep_model_state *m, size_t plain_size);
void sep_match_ahead(struct sep_model_state *m);
void sep_match_next(struct sep_model_state *m);                    /* m->history has a new byte */
void sep_match_nibble(struct sep_model_state *m, unsigned nibble); /* inputs of the mixture */

#endif
