/* SPDX-License-Identifier: BSD-2-Clause
 *
 * knowledge.c - finds models by hash, and primed states by their likeness to a block.
 *
 * Likeness: which share of groups of three bytes, sampled over the block, is common in the data that
 * a state was made from. It costs microseconds a state, so that a trial is spent only on the few
 * that may be worth it.
 */
#include "knowledge.h"

#define PROBES       2048u
#define SCORE_NEEDED 256u /* of 1024: below it, nothing that the state knows will be met */

static const struct sep_model *find_model(const struct sep_context *context, uint64_t hash)
{
    for (unsigned k = 0; k < context->model_count; k++)
        if (context->models[k].model->hash == hash)
            return context->models[k].model;
    return NULL;
}

const struct sep_net *sep_knowledge_net(const struct sep_context *context,
                                        const struct sep_model *model, unsigned *knows)
{
    const struct sep_model *owner = model;

    *knows = 0;
    if (model->net == NULL)
        owner = model->base != 0 ? find_model(context, model->base) : NULL;
    if (owner == NULL || owner->net == NULL)
        return NULL;
    *knows = owner->kind == SEP_MODEL_PRIVATE ? SEP_KNOWS_PRIVATE : SEP_KNOWS_PUBLIC;
    return owner->net;
}

enum sep_status sep_knowledge_find(const struct sep_context *context,
                                   const struct sep_block_info *info,
                                   struct sep_knowledge *knowledge)
{
    const unsigned net_bits = info->knowledge & (SEP_KNOWS_PUBLIC | SEP_KNOWS_PRIVATE);
    const struct sep_model *model;
    unsigned knows;

    *knowledge = (struct sep_knowledge){NULL, NULL};
    if (info->knowledge == 0)
        return SEP_OK;
    model = find_model(context, info->model_hash);
    if (model == NULL)
        return SEP_ERROR_MODEL_MISSING;
    if (net_bits != 0) {
        if (model->net == NULL && model->base == 0)
            return SEP_ERROR_HEADER;
        if (model->net == NULL && find_model(context, model->base) == NULL)
            return SEP_ERROR_MODEL_MISSING;
        knowledge->net = sep_knowledge_net(context, model, &knows);
        if (knowledge->net == NULL || knows != net_bits)
            return SEP_ERROR_HEADER;
    }
    if ((info->knowledge & SEP_KNOWS_PRIMED) != 0) {
        if (info->state >= model->state_count)
            return SEP_ERROR_HEADER;
        knowledge->primed = model->state[info->state];
        if (knowledge->primed->profile != info->profile ||
            knowledge->primed->with_net != (net_bits != 0))
            return SEP_ERROR_HEADER;
    }
    return SEP_OK;
}

/* 0 to 1024: which share of PLAIN's groups is known beyond what random groups would be. */
static uint32_t likeness(const struct sep_primed *primed, const uint8_t *plain, size_t size)
{
    const size_t step = size / PROBES + 1;
    uint32_t known = 0, probes = 0, set = 0, share, chance;

    for (uint32_t k = 0; k < SEP_FINGERPRINT_BYTES; k++)
        set += (uint32_t)__builtin_popcount(primed->fingerprint[k]);
    for (size_t i = 0; i + 3 <= size; i += step, probes++) {
        const uint32_t bit = sep_fingerprint_bit(plain + i);

        known += primed->fingerprint[bit / 8] >> bit % 8 & 1;
    }
    share = probes != 0 ? known * 1024 / probes : 0;
    chance = set >> (SEP_FINGERPRINT_LOG - 10);
    return share > chance ? (share - chance) * 1024 / (1025 - chance) : 0;
}

const struct sep_model *sep_knowledge_best_net(const struct sep_context *context,
                                               const uint8_t *plain, size_t size)
{
    const struct sep_model *best = NULL;
    uint32_t best_score = 0;

    for (unsigned k = 0; k < context->model_count; k++) {
        const struct sep_model *model = context->models[k].model;

        if (!context->models[k].encode || model->net == NULL)
            continue;
        if (best == NULL)
            best = model;
        for (unsigned s = 0; s < model->state_count; s++) {
            const uint32_t score = likeness(model->state[s], plain, size);

            if (score > best_score) {
                best = model;
                best_score = score;
            }
        }
    }
    return best;
}

static void insert(struct sep_primed_choice *choices, unsigned *count, unsigned most,
                   struct sep_primed_choice choice)
{
    unsigned at = *count;

    while (at > 0 && choices[at - 1].score < choice.score)
        at--;
    if (at >= most)
        return;
    if (*count < most)
        ++*count;
    for (unsigned k = *count - 1; k > at; k--)
        choices[k] = choices[k - 1];
    choices[at] = choice;
}

unsigned sep_knowledge_propose(const struct sep_context *context, const uint8_t *plain, size_t size,
                               bool fast, bool with_net, struct sep_primed_choice *choices,
                               unsigned most)
{
    unsigned count = 0;

    for (unsigned k = 0; k < context->model_count; k++) {
        const struct sep_model *model = context->models[k].model;
        unsigned knows;
        const bool has_net = with_net && sep_knowledge_net(context, model, &knows) != NULL;

        for (unsigned s = 0; s < model->state_count && context->models[k].encode; s++) {
            const struct sep_primed *primed = model->state[s];
            uint32_t score;

            if ((primed->profile >= SEP_PROFILE_TO_FAST) != fast || (primed->with_net && !has_net))
                continue;
            score = likeness(primed, plain, size);
            if (score >= SCORE_NEEDED)
                insert(choices, &count, most, (struct sep_primed_choice){model, (uint8_t)s, score});
        }
    }
    return count;
}
