/* SPDX-License-Identifier: BSD-2-Clause
 *
 * primed.c - from a primed state to the state of a block.
 *
 * Slots are written one by one, in the order of their lines, into a table that was just cleared: that
 * touches a fraction of the 4 MiB that a copy of a whole table would read, and a model keeps 22 bytes
 * a slot instead of a table.
 */
#include <string.h>

#include "codec.h"
#include "model.h"
#include "primed.h"

/* A primed block begins with the learning rates of a block this far in: what the weights know
 * already should not be thrown about by its first bytes. */
#define SEEN_BEFORE (16u << 10)

struct sep_primed *sep_primed_new(uint32_t slot_count)
{
    struct sep_primed *primed;

    if (slot_count > SEP_PRIMED_SLOTS_MAX)
        return NULL;
    primed = sep_allocate(sizeof *primed);
    if (primed == NULL)
        return NULL;
    primed->slot_count = slot_count;
    primed->slots = sep_allocate((slot_count > 0 ? slot_count : 1) * sizeof *primed->slots);
    if (primed->slots == NULL) {
        sep_release(primed);
        return NULL;
    }
    return primed;
}

void sep_primed_free(struct sep_primed *primed)
{
    if (primed == NULL)
        return;
    sep_release(primed->slots);
    sep_release(primed);
}

void sep_primed_apply(const struct sep_primed *primed, struct sep_model_state *m)
{
    uint32_t line = UINT32_MAX, way = 0;

    memcpy(m->weight, primed->weight, sizeof m->weight);
    memcpy(m->weight_set, primed->weight_set, sizeof m->weight_set);
    memcpy(m->bias1, primed->bias1, sizeof m->bias1);
    memcpy(m->bias2, primed->bias2, sizeof m->bias2);
    m->seen_before = SEEN_BEFORE;
    for (uint32_t k = 0; k < primed->slot_count; k++) {
        const struct sep_primed_slot *slot = &primed->slots[k];
        struct sep_line *to = &m->lines[1 + slot->line];

        way = slot->line == line ? way + 1 : 0;
        line = slot->line;
        to->what[way] = slot->check | (uint32_t)slot->state << 16;
        memcpy(to->row[way], slot->row, sizeof slot->row);
    }
}
