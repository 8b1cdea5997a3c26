/* SPDX-License-Identifier: BSD-2-Clause
 *
 * kernel.h - the arithmetic of one nibble, once for each instruction set.
 *
 * kernel_scalar.c is the reference: what it computes is the format. The others must leave exactly
 * the same bytes in the state (tests/unit/codec/test_kernel.c compares them).
 */
#ifndef SEP_KERNEL_H
#define SEP_KERNEL_H

#include "state.h"

struct sep_kernel {
    const char *name;

    /* SALT is 0 for a high nibble and 1 + high nibble for a low one. For a high nibble hashes
     * patch_value[] to seed[] first; then from seed[] and SALT to line[] and check[]. Asks for the
     * lines early. */
    void (*locate)(struct sep_model_state *m, uint32_t salt);

    /* The net, when m->net is not NULL. ask: from patch_value[] to net_at[], and asks for the rows.
     * sum: from those to net_active[]. row: the row of the next nibble, HEAD as in net.h, to
     * SEP_ROW_NET, net_confidence and net_symbol. */
    void (*net_ask)(struct sep_model_state *m);
    void (*net_sum)(struct sep_model_state *m);
    void (*net_row)(struct sep_model_state *m, uint32_t head);

    /* From line[], check[], match, net and bias inputs to probability[] and cumulative[]. */
    void (*predict)(struct sep_model_state *m);

    /* The symbol whose share of cumulative[] holds TARGET; SEP_SYMBOLS - 1 when none does. */
    unsigned (*find)(const struct sep_model_state *m, uint32_t target);

    /* Learns that the nibble was SYMBOL. May run after the next locate. */
    void (*update)(struct sep_model_state *m, uint32_t symbol);
};

extern const struct sep_kernel sep_kernel_scalar;
#ifdef SEP_HAVE_AVX2
extern const struct sep_kernel sep_kernel_avx2;
#endif

/* The fastest kernel that this processor runs. */
const struct sep_kernel *sep_kernel_best(void);

#endif
