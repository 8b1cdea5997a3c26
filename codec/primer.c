/* SPDX-License-Identifier: BSD-2-Clause
 *
 * primer.c - makes a primed state from training blocks (primed.h says how).
 *
 * The table has 2^21 lines instead of 2^16. A slot's line in the small table is given by the upper
 * bits of its line in the large one, because both come from the upper bits of one hash.
 */
#include <stdlib.h>
#include <string.h>

#include "codec.h"
#include "kernel.h"
#include "model.h"
#include "primed.h"
#include "transform.h"

#define LINES_LOG   21u
#define LINES       ((size_t)1 << LINES_LOG)
#define SLOTS       (LINES * SEP_WAYS)
#define CUT         (LINES_LOG - SEP_LINES_LOG_MAX) /* from a line here to one of the small table */
#define PROBES_LOG  SEP_FINGERPRINT_LOG
#define ROOM_IN_SET 8u /* bits cut from weights: 20 fraction bits to 12 */

/* Which blocks asked for a slot. */
struct asked {
    uint16_t last;   /* the last one that did */
    uint16_t blocks; /* how many did */
};

struct sep_primer {
    const struct sep_kernel *kernel;
    struct sep_model_state *state; /* with room for LINES lines behind it */
    struct asked *asked;           /* SLOTS */
    uint16_t *common;              /* blocks in which a fingerprint's bit was set */
    uint8_t *seen;                 /* bits set in this block */
    uint8_t *scratch;              /* the transformed block */
    uint16_t block;                /* 1 for the first */
    unsigned profile;
};

struct sep_primer *sep_primer_new(unsigned profile, const struct sep_net *net)
{
    struct sep_primer *primer;

    if (profile >= SEP_PROFILE_COUNT)
        return NULL;
    primer = sep_allocate(sizeof *primer);
    if (primer == NULL)
        return NULL;
    primer->kernel = sep_kernel_best();
    primer->profile = profile;
    primer->state = sep_allocate(sizeof *primer->state + LINES * sizeof(struct sep_line));
    primer->asked = sep_allocate(SLOTS * sizeof *primer->asked);
    primer->common = sep_allocate(sizeof *primer->common << PROBES_LOG);
    primer->seen = sep_allocate(SEP_FINGERPRINT_BYTES);
    primer->scratch = sep_allocate(SEP_BLOCK_SIZE_MAX);
    if (primer->state == NULL || primer->asked == NULL || primer->common == NULL ||
        primer->seen == NULL || primer->scratch == NULL) {
        sep_primer_free(primer);
        return NULL;
    }
    sep_model_prepare(primer->state, profile, LINES_LOG, SEP_BIAS2_LOG_MAX, net);
    return primer;
}

void sep_primer_free(struct sep_primer *primer)
{
    if (primer == NULL)
        return;
    sep_release(primer->state);
    sep_release(primer->asked);
    sep_release(primer->common);
    sep_release(primer->seen);
    sep_release(primer->scratch);
    sep_release(primer);
}

/* Notes which slots the nibble that was just predicted asks for. */
static void note_slots(struct sep_primer *primer)
{
    const struct sep_model_state *m = primer->state;

    for (uint32_t e = 0; e < m->slot_experts; e++) {
        const uint32_t at = m->what_at[e];
        struct asked *asked;

        if (at < SEP_LINE_BYTES) /* the net has none */
            continue;
        asked = &primer->asked[(at / SEP_LINE_BYTES - 1) * SEP_WAYS + at % SEP_LINE_BYTES / 4];
        if (m->source[e] == SEP_ROW_ZERO)
            *asked = (struct asked){.last = primer->block, .blocks = 1};
        else if (asked->last != primer->block)
            *asked = (struct asked){.last = primer->block, .blocks = (uint16_t)(asked->blocks + 1)};
    }
}

static void note_fingerprint(struct sep_primer *primer, const uint8_t *plain, size_t size)
{
    memset(primer->seen, 0, SEP_FINGERPRINT_BYTES);
    for (size_t i = 0; i + 3 <= size; i++) {
        const uint32_t bit = sep_fingerprint_bit(plain + i);

        if ((primer->seen[bit / 8] >> bit % 8 & 1) == 0)
            primer->common[bit]++;
        primer->seen[bit / 8] |= (uint8_t)(1u << bit % 8);
    }
}

enum sep_status sep_primer_block(struct sep_primer *primer, const uint8_t *plain, size_t plain_size,
                                 unsigned stride, unsigned transform)
{
    struct sep_model_state *m = primer->state;

    if (plain_size == 0 || plain_size > SEP_BLOCK_SIZE_MAX || stride > UINT16_MAX ||
        transform >= SEP_TRANSFORM_COUNT || primer->block == UINT16_MAX)
        return SEP_ERROR_ARGUMENT;
    primer->block++;
    note_fingerprint(primer, plain, plain_size);
    memcpy(primer->scratch, plain, plain_size);
    sep_transform_apply(transform, primer->scratch, plain_size);
    sep_model_resume(m, primer->kernel, primer->scratch, plain_size, stride);
    for (size_t i = 0; i < plain_size; i++) {
        note_slots(primer);
        sep_model_after_high(m, primer->kernel, primer->scratch[i] >> 4);
        note_slots(primer);
        if (i + 1 < plain_size)
            sep_model_after_low(m, primer->kernel, primer->scratch[i] & 15);
    }
    /* What the rates of the next block begin with. */
    m->seen_before = 16u << 10;
    return SEP_OK;
}

/* Candidates for a snapshot: where a slot is, and how many blocks asked for it. */
struct choice {
    uint32_t slot;
    uint32_t score;
};

static int by_score(const void *a, const void *b)
{
    const struct choice *x = a, *y = b;

    if (x->score != y->score)
        return x->score < y->score ? 1 : -1;
    return x->slot < y->slot ? -1 : x->slot > y->slot;
}

static int by_slot(const void *a, const void *b)
{
    const struct choice *x = a, *y = b;

    return x->slot < y->slot ? -1 : x->slot > y->slot;
}

static uint32_t state_of(const struct sep_primer *primer, uint32_t slot)
{
    return primer->state->lines[1 + slot / SEP_WAYS].what[slot % SEP_WAYS] >> 16;
}

/* The slots worth keeping, best first; returns their number, *CHOICES is from sep_allocate. */
static size_t collect(const struct sep_primer *primer, unsigned blocks_min, struct choice **choices)
{
    size_t count = 0;

    for (uint32_t slot = 0; slot < SLOTS; slot++)
        count += primer->asked[slot].blocks >= blocks_min && (state_of(primer, slot) & 15) != 0;
    *choices = sep_allocate((count > 0 ? count : 1) * sizeof **choices);
    if (*choices == NULL)
        return 0;
    count = 0;
    for (uint32_t slot = 0; slot < SLOTS; slot++)
        if (primer->asked[slot].blocks >= blocks_min && (state_of(primer, slot) & 15) != 0)
            (*choices)[count++] = (struct choice){slot, primer->asked[slot].blocks};
    qsort(*choices, count, sizeof **choices, by_score);
    return count;
}

/* Keeps the best SLOTS_MAX, no more than SEP_WAYS of a line of the small table. */
static size_t thin_out(struct choice *choices, size_t count, uint32_t slots_max, uint8_t *in_line)
{
    size_t kept = 0;

    for (size_t k = 0; k < count && kept < slots_max; k++) {
        uint8_t *used = &in_line[choices[k].slot / SEP_WAYS >> CUT];

        if (*used < SEP_WAYS) {
            ++*used;
            choices[kept++] = choices[k];
        }
    }
    qsort(choices, kept, sizeof *choices, by_slot);
    return kept;
}

static void copy_slot(const struct sep_primer *primer, uint32_t from, unsigned count_max,
                      struct sep_primed_slot *to)
{
    const struct sep_line *line = &primer->state->lines[1 + from / SEP_WAYS];
    const uint32_t state = state_of(primer, from);
    const uint32_t count = (state & 15) < count_max ? state & 15 : count_max;
    const uint32_t run = (state >> 4 & 15) < count ? state >> 4 & 15 : count;

    to->line = (uint16_t)(from / SEP_WAYS >> CUT);
    to->check = (uint16_t)line->what[from % SEP_WAYS];
    to->state = (uint16_t)((state & 0xf00) | run << 4 | count);
    memcpy(to->row, line->row[from % SEP_WAYS], sizeof to->row);
}

/* Fewer bits in weights cost nothing measurable and make the file smaller. */
static int32_t rounded(int32_t weight)
{
    return (weight + (1 << (ROOM_IN_SET - 1))) & -(1 << ROOM_IN_SET);
}

static void copy_weights(const struct sep_primer *primer, struct sep_primed *primed)
{
    const struct sep_model_state *m = primer->state;
    const int32_t *from = &m->weight_set[0][0][0][0];
    int32_t *to = &primed->weight_set[0][0][0][0];

    for (size_t k = 0; k < sizeof m->weight_set / sizeof *from; k++)
        to[k] = rounded(from[k]);
    from = &m->weight[0][0][0].row;
    to = &primed->weight[0][0][0].row;
    for (size_t k = 0; k < sizeof m->weight / sizeof *from; k++)
        to[k] = rounded(from[k]);
    memcpy(primed->bias1, m->bias1, sizeof primed->bias1);
    memcpy(primed->bias2, m->bias2, sizeof primed->bias2);
}

struct sep_primed *sep_primer_finish(const struct sep_primer *primer, const char *label,
                                     uint32_t slots_max, unsigned blocks_min, unsigned count_max)
{
    uint8_t *in_line = sep_allocate(1u << SEP_LINES_LOG_MAX);
    struct choice *choices = NULL;
    struct sep_primed *primed = NULL;
    size_t count;

    if (in_line == NULL || slots_max > SEP_PRIMED_SLOTS_MAX || count_max == 0 ||
        count_max > SEP_COUNT_LIMIT)
        goto out;
    count = collect(primer, blocks_min, &choices);
    if (choices == NULL)
        goto out;
    count = thin_out(choices, count, slots_max, in_line);
    primed = sep_primed_new((uint32_t)count);
    if (primed == NULL)
        goto out;
    strncpy(primed->label, label, sizeof primed->label - 1);
    primed->profile = (uint8_t)primer->profile;
    primed->with_net = primer->state->net != NULL;
    for (uint32_t bit = 0; bit < 1u << PROBES_LOG; bit++)
        if (primer->common[bit] > primer->block / 4)
            primed->fingerprint[bit / 8] |= (uint8_t)(1u << bit % 8);
    copy_weights(primer, primed);
    for (size_t k = 0; k < count; k++)
        copy_slot(primer, choices[k].slot, count_max, &primed->slots[k]);
out:
    sep_release(in_line);
    sep_release(choices);
    return primed;
}
