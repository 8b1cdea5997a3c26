/* SPDX-License-Identifier: BSD-2-Clause
 *
 * model.c - puts a model together: the net, a primed state for each kind of block, the file.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "kind.h"
#include "sample.h"

#include "codec/codec.h"
#include "codec/model_file.h"
#include "codec/profile.h"
#include "codec/transform.h"

#define BLOCKS_MIN 4u /* fewer say nothing about what blocks have in common */

struct sep_model *train_model_new(enum sep_model_kind kind, const char *name)
{
    struct sep_model *const model = sep_allocate(sizeof *model);

    if (model != NULL) {
        model->kind = (uint8_t)kind;
        strncpy(model->name, name, sizeof model->name - 1);
    }
    return model;
}

static unsigned profile_of(enum train_kind kind)
{
    switch (kind) {
    case TRAIN_KIND_X86:
    case TRAIN_KIND_BINARY:
        return SEP_PROFILE_BINARY;
    case TRAIN_KIND_RECORDS:
        return SEP_PROFILE_RECORDS;
    default:
        return SEP_PROFILE_GENERIC;
    }
}

static int feed(struct sep_primer *primer, const struct train_sample *sample, enum train_kind kind,
                uint64_t most, const struct train_watch *watch)
{
    uint64_t fed = 0;

    for (size_t k = 0; k < sample->count && fed < most; k++) {
        const struct train_block *const block = &sample->blocks[k];

        if (block->held_out || block->kind != kind)
            continue;
        if (*watch->stop != 0)
            return -EINTR;
        if (sep_primer_block(primer, block->bytes, block->size, train_stride_of(block),
                             kind == TRAIN_KIND_X86 ? SEP_TRANSFORM_X86 : SEP_TRANSFORM_NONE) !=
            SEP_OK)
            return -EINVAL;
        fed += block->size;
        watch->reading(watch->user, fed);
    }
    return 0;
}

int train_model_prime(struct sep_model *model, const struct train_sample *sample,
                      enum train_kind kind, bool with_net, const struct train_priming *priming,
                      const struct train_watch *watch)
{
    struct sep_primed *primed = NULL;
    struct sep_primer *primer;
    struct train_counts counts;
    int error;

    train_sample_count(sample, &counts);
    if (counts.kind_blocks[kind] < BLOCKS_MIN)
        return -ENODATA;
    if (model->state_count == SEP_MODEL_STATES_MAX)
        return -ENOSPC;
    primer = sep_primer_new(profile_of(kind), with_net ? model->net : NULL);
    if (primer == NULL)
        return -ENOMEM;
    error = feed(primer, sample, kind, priming->bytes_max, watch);
    if (error == 0) {
        primed = sep_primer_finish(primer, train_kind_name(kind), priming->slots_max,
                                   priming->blocks_min, priming->count_max);
        error = primed == NULL ? -ENOMEM : 0;
    }
    sep_primer_free(primer);
    if (error == 0)
        model->state[model->state_count++] = primed;
    return error;
}

bool train_model_drop(struct sep_model *model, enum train_kind kind)
{
    uint32_t kept = 0;
    const uint32_t before = model->state_count;

    for (uint32_t k = 0; k < before; k++) {
        if (strcmp(model->state[k]->label, train_kind_name(kind)) == 0)
            sep_primed_free(model->state[k]);
        else
            model->state[kept++] = model->state[k];
    }
    for (uint32_t k = kept; k < before; k++)
        model->state[k] = NULL;
    model->state_count = kept;
    return kept != before;
}

int train_model_write(struct sep_model *model, const char *text, uint8_t **bytes, size_t *size)
{
    const size_t length = strlen(text) < SEP_MODEL_TEXT_MAX ? strlen(text) : SEP_MODEL_TEXT_MAX;
    enum sep_status status;

    sep_release(model->text);
    model->text = sep_allocate(length + 1);
    if (model->text == NULL)
        return -ENOMEM;
    memcpy(model->text, text, length);
    status = sep_model_store(model, bytes, size);
    return status == SEP_OK ? 0 : status == SEP_ERROR_MEMORY ? -ENOMEM : -EINVAL;
}
