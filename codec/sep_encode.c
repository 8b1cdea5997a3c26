/* SPDX-License-Identifier: BSD-2-Clause
 *
 * sep_encode.c - encodes one SEP block: choice of profile, stride and transform, then the model.
 *
 * Levels. 1: fast profiles, one vector of experts, no net. 2 and 3: the same with the net of a model.
 * 4 to 9: full profiles, two vectors, with the net. No more than these are offered: neither more experts nor choosing on the whole block instead of a sample
 * made blocks measurably smaller (docs/notes/codec.md).
 */
#include <stdbool.h>
#include <string.h>

#include "block.h"
#include "knowledge.h"
#include "range.h"
#include "transform.h"

#define DYNAMIC_MAX    3u /* candidates without a model */
#define PRIMED_MAX     2u /* primed states worth a trial */
#define CANDIDATES_MAX (DYNAMIC_MAX * (2u + PRIMED_MAX))
#define LEVEL_NET      2u /* first level that may use a net */
#define LEVEL_FULL     4u /* first level with the full profiles */
/* Bytes coded to compare candidates, in pieces from all over the block; shorter blocks whole. Data
 * with records needs more: a stride of a kilobyte shows only after some of its rows. */
#define SAMPLE_TEXT   (12u << 10)
#define SAMPLE_OTHER  (24u << 10)
#define LONG_STRIDE   512u /* of these, rows must follow each other: one piece */
#define SAMPLE_PIECES 3u

/* How far a trial has come after each KiB of the sample. */
#define STEP_SIZE  1024u
#define STEP_FIRST 3u /* before it a model has not learnt enough to be judged */
#define STEP_LATE  8u /* from here on, a small lead is enough */
#define STEP_COUNT (SAMPLE_OTHER / STEP_SIZE)

struct candidate {
    struct sep_block_info info;
    struct sep_knowledge knowledge;
};

struct trial {
    size_t written[STEP_COUNT];
};

static inline void code_byte(struct sep_model_state *m, const struct sep_kernel *kernel,
                             struct sep_range_encoder *coder, uint32_t byte, bool more)
{
    const uint32_t high = byte >> 4, low = byte & 15;

    sep_range_encode(coder, m->cumulative[high], m->probability[high]);
    sep_model_after_high(m, kernel, high);
    sep_range_encode(coder, m->cumulative[low], m->probability[low]);
    if (more)
        sep_model_after_low(m, kernel, low);
}

/* Codes BYTES with the model; returns the size that CAPACITY would have had to hold, or any value
 * above CAPACITY when it is clear that it does not suffice. */
static size_t code_bytes(struct sep_context *context, const struct candidate *how,
                         const uint8_t *bytes, size_t size, uint8_t *output, size_t capacity)
{
    struct sep_range_encoder coder;

    sep_range_encode_begin(&coder, output, capacity);
    sep_model_begin(context->model, context->kernel, bytes, size, how->info.profile,
                    how->info.stride, &how->knowledge);
    for (size_t i = 0; i < size; i++) {
        code_byte(context->model, context->kernel, &coder, bytes[i], i + 1 < size);
        if (coder.written > capacity)
            return coder.written;
    }
    return sep_range_encode_end(&coder);
}

/* The size of a sample; SIZE_MAX as soon as a part of it came out a good deal larger than BEST's. */
static size_t try_sample(struct sep_context *context, const struct candidate *how,
                         const uint8_t *bytes, size_t size, const struct trial *best,
                         struct trial *now)
{
    struct sep_range_encoder coder;

    sep_range_encode_begin(&coder, NULL, 0);
    sep_model_begin(context->model, context->kernel, bytes, size, how->info.profile,
                    how->info.stride, &how->knowledge);
    for (size_t i = 0; i < size; i++) {
        const size_t step = i / STEP_SIZE;

        code_byte(context->model, context->kernel, &coder, bytes[i], i + 1 < size);
        if (i % STEP_SIZE != STEP_SIZE - 1)
            continue;
        now->written[step] = coder.written;
        if (best != NULL && step >= STEP_FIRST - 1 &&
            coder.written >
                best->written[step] + 8 + best->written[step] / (step >= STEP_LATE ? 32 : 16))
            return SIZE_MAX;
    }
    return sep_range_encode_end(&coder);
}

/* What a block of this look may be coded as without a model, the likeliest first. */
static unsigned propose_dynamic(const struct sep_analysis *analysis, uint8_t level,
                                struct sep_block_info candidates[DYNAMIC_MAX])
{
    unsigned count = 0;

    if (analysis->stride != 0)
        candidates[count++] =
            (struct sep_block_info){.profile = SEP_PROFILE_RECORDS, .stride = analysis->stride};
    if (!analysis->text) {
        if (analysis->x86)
            candidates[count++] = (struct sep_block_info){.profile = SEP_PROFILE_BINARY,
                                                          .transform = SEP_TRANSFORM_X86};
        candidates[count++] = (struct sep_block_info){.profile = SEP_PROFILE_BINARY};
    }
    if (analysis->text || !analysis->x86)
        candidates[count++] = (struct sep_block_info){.profile = SEP_PROFILE_GENERIC};
    for (unsigned k = 0; k < count && level < LEVEL_FULL; k++)
        candidates[k].profile = (uint8_t)(candidates[k].profile + SEP_PROFILE_TO_FAST);
    return count;
}

/* Adds INFO with the net of OWNER, unless that is NULL. */
static unsigned add_net(const struct sep_context *context, const struct sep_model *owner,
                        const struct sep_block_info *info, struct candidate *to)
{
    unsigned knows;

    if (owner == NULL)
        return 0;
    *to = (struct candidate){.info = *info};
    to->knowledge.net = sep_knowledge_net(context, owner, &knows);
    to->info.knowledge = (uint8_t)knows;
    to->info.model_hash = owner->hash;
    return 1;
}

/* Adds INFO from a primed state, if it is for that profile. */
static unsigned add_primed(const struct sep_context *context,
                           const struct sep_primed_choice *choice,
                           const struct sep_block_info *info, struct candidate *to)
{
    const struct sep_primed *state = choice->model->state[choice->state];
    unsigned knows = 0;

    if (info->profile != state->profile)
        return 0;
    *to = (struct candidate){.info = *info, .knowledge.primed = state};
    if (state->with_net)
        to->knowledge.net = sep_knowledge_net(context, choice->model, &knows);
    to->info.knowledge = (uint8_t)(SEP_KNOWS_PRIMED | knows);
    to->info.model_hash = choice->model->hash;
    to->info.state = choice->state;
    return 1;
}

/* All that may be tried, the likeliest first: primed states that look like the block, then for text
 * the net, then what is learnt from the block alone. */
static unsigned propose(const struct sep_context *context, uint8_t level,
                        const struct sep_model *net_owner, const uint8_t *plain, size_t size,
                        const struct sep_analysis *analysis,
                        struct candidate candidates[CANDIDATES_MAX])
{
    struct sep_block_info dynamic[DYNAMIC_MAX];
    struct sep_primed_choice primed[PRIMED_MAX];
    unsigned dynamic_count, primed_count, count = 0;

    dynamic_count = propose_dynamic(analysis, level, dynamic);
    primed_count = sep_knowledge_propose(context, plain, size, level < LEVEL_FULL,
                                         level >= LEVEL_NET, primed, PRIMED_MAX);
    for (unsigned p = 0; p < primed_count; p++) {
        if (primed[p].score < primed[0].score - primed[0].score / 8)
            break;
        for (unsigned d = 0; d < dynamic_count; d++)
            count += add_primed(context, &primed[p], &dynamic[d], &candidates[count]);
    }
    for (unsigned d = 0; d < dynamic_count && analysis->text; d++)
        count += add_net(context, net_owner, &dynamic[d], &candidates[count]);
    for (unsigned d = 0; d < dynamic_count; d++)
        candidates[count++] = (struct candidate){.info = dynamic[d]};
    return count;
}

/* Trials of one block, and the best candidate so far. */
struct contest {
    const uint8_t *sample;
    size_t size;
    size_t block_size;
    struct trial trials[2]; /* the best one's and the one under way */
    unsigned spare;
    size_t best_size; /* of the whole block, projected */
    struct candidate best;
};

/* What the whole block may come to, when the sample came to WRITTEN: its second half, in which what
 * learns slowly has caught up, stands for all that the sample leaves out. */
static size_t project(const struct contest *contest, const struct trial *trial, size_t written)
{
    const size_t steps = contest->size / STEP_SIZE / 2;
    const size_t rest = contest->block_size - contest->size;

    if (steps == 0 || rest == 0)
        return written;
    return written +
           (written - trial->written[steps - 1]) * rest / (contest->size - steps * STEP_SIZE);
}

static void compete(struct sep_context *context, struct contest *contest,
                    const struct candidate *candidate)
{
    const uint8_t *bytes = contest->sample;
    size_t written;

    if (candidate->info.transform != SEP_TRANSFORM_NONE) {
        uint8_t *transformed = context->scratch + SAMPLE_OTHER;

        memcpy(transformed, bytes, contest->size);
        sep_transform_apply(candidate->info.transform, transformed, contest->size);
        bytes = transformed;
    }
    written =
        try_sample(context, candidate, bytes, contest->size,
                   contest->best_size != SIZE_MAX ? &contest->trials[1 - contest->spare] : NULL,
                   &contest->trials[contest->spare]);
    if (written != SIZE_MAX)
        written = project(contest, &contest->trials[contest->spare], written);
    if (written < contest->best_size) {
        contest->spare = 1 - contest->spare;
        contest->best_size = written;
        contest->best = *candidate;
    }
}

/* Copies pieces of the block behind each other to SAMPLE; returns how many bytes. Each piece begins
 * where its place in the sample is the same modulo the stride. */
static size_t take_sample(const uint8_t *plain, size_t size, const struct sep_analysis *analysis,
                          uint8_t *sample)
{
    const size_t sample_size = analysis->text ? SAMPLE_TEXT : SAMPLE_OTHER;
    const size_t pieces = analysis->stride >= LONG_STRIDE ? 1 : SAMPLE_PIECES;
    const size_t piece = sample_size / pieces, part = size / pieces;

    if (size <= sample_size) {
        memcpy(sample, plain, size);
        return size;
    }
    for (size_t k = 0; k < pieces; k++) {
        size_t start = part * k + (part - piece) / 2;

        if (analysis->stride != 0 && start - k * piece >= analysis->stride)
            start -= (start - k * piece) % analysis->stride;
        memcpy(sample + k * piece, plain + start, piece);
    }
    return sample_size;
}

/* The candidate that codes a sample of the block best. A winner that learns from the block alone has
 * to beat itself with the net, unless it was text and has done so. */
static struct candidate choose(struct sep_context *context, uint8_t level, const uint8_t *plain,
                               size_t size)
{
    const struct sep_model *net_owner =
        level >= LEVEL_NET ? sep_knowledge_best_net(context, plain, size) : NULL;
    struct contest contest = {
        .sample = context->scratch, .block_size = size, .best_size = SIZE_MAX};
    struct candidate candidates[CANDIDATES_MAX], with_net;
    struct sep_analysis analysis;
    unsigned count;
    bool net_tried = false;

    sep_analyse(plain, size, &analysis);
    count = propose(context, level, net_owner, plain, size, &analysis, candidates);
    if (count == 1 && add_net(context, net_owner, &candidates[0].info, &with_net) == 0)
        return candidates[0];
    contest.size = take_sample(plain, size, &analysis, context->scratch);
    for (unsigned k = 0; k < count; k++) {
        compete(context, &contest, &candidates[k]);
        net_tried = net_tried || (candidates[k].info.knowledge != 0 &&
                                  (candidates[k].info.knowledge & SEP_KNOWS_PRIMED) == 0);
    }
    if (contest.best.info.knowledge == 0 && !net_tried &&
        add_net(context, net_owner, &contest.best.info, &with_net) != 0)
        compete(context, &contest, &with_net);
    return contest.best;
}

enum sep_status sep_block_encode(struct sep_context *context, uint8_t level, const uint8_t *plain,
                                 size_t plain_size, uint8_t *payload, size_t capacity,
                                 size_t *payload_size)
{
    struct candidate how;
    const uint8_t *bytes = plain;
    size_t header, written;

    if (capacity <= SEP_BLOCK_HEADER_SIZE)
        return SEP_ERROR_CAPACITY;
    if (context->model == NULL)
        context->model = sep_allocate(sizeof *context->model);
    if (context->scratch == NULL)
        context->scratch = sep_allocate(SEP_BLOCK_SIZE_MAX);
    if (context->model == NULL || context->scratch == NULL)
        return SEP_ERROR_MEMORY;
    how = choose(context, level, plain, plain_size);
    if (how.info.transform != SEP_TRANSFORM_NONE) {
        memcpy(context->scratch, plain, plain_size);
        sep_transform_apply(how.info.transform, context->scratch, plain_size);
        bytes = context->scratch;
    }
    header = sep_block_header_size(&how.info);
    if (capacity <= header)
        return SEP_ERROR_CAPACITY;
    written = code_bytes(context, &how, bytes, plain_size, payload + header, capacity - header);
    if (written > capacity - header)
        return SEP_ERROR_CAPACITY;
    sep_block_write(payload, &how.info);
    *payload_size = header + written;
    return SEP_OK;
}
