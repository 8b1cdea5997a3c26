/* SPDX-License-Identifier: BSD-2-Clause
 *
 * judge.c - what a model is worth: held-out blocks coded without it and with it, by the codec
 * itself as a store would code them, choice by trial included.
 */
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "sample.h"

struct judgement {
    const struct train_block **blocks; /* to be coded */
    size_t count;
    _Atomic size_t next;
    _Atomic int error;
    const struct sep_model *model;
    const struct train_beside *beside; /* or NULL */
    const struct train_watch *watch;
    pthread_t caller; /* the thread that may report */
    _Atomic uint64_t before[TRAIN_KIND_COUNT], after[TRAIN_KIND_COUNT];
};

static int size_of(struct sep_context *context, const struct train_block *block, uint8_t *payload,
                   size_t *size)
{
    const struct sep_method method = {.codec = SEP_CODEC_SEP, .level = 5};
    struct sep_method used;

    return sep_encode(context, method, block->bytes, block->size, payload, sep_bound(block->size),
                      size, &used) == SEP_OK
               ? 0
               : -ENOMEM;
}

static int judge_block(struct judgement *all, const struct train_block *block,
                       struct sep_context *without, struct sep_context *with, uint8_t *payload)
{
    size_t before, after;
    int error = size_of(without, block, payload, &before);

    if (error == 0)
        error = size_of(with, block, payload, &after);
    if (error != 0)
        return error;
    all->before[block->kind] += before;
    all->after[block->kind] += after;
    return 0;
}

static bool add_models(const struct judgement *all, struct sep_context *context, bool with)
{
    for (unsigned k = 0; all->beside != NULL && k < all->beside->count; k++)
        if (sep_context_add_model(context, all->beside->models[k], k < all->beside->encode) !=
            SEP_OK)
            return false;
    return !with || sep_context_add_model(context, all->model, true) == SEP_OK;
}

static void *judge(void *argument)
{
    struct judgement *const all = argument;
    struct sep_context *const without = sep_context_new(), *const with = sep_context_new();
    uint8_t *const payload = malloc(sep_bound(SEP_BLOCK_SIZE_MAX));
    int error = 0;

    if (without == NULL || with == NULL || payload == NULL || !add_models(all, without, false) ||
        !add_models(all, with, true))
        error = -ENOMEM;
    while (error == 0 && all->error == 0) {
        const size_t k = all->next++;

        if (k >= all->count)
            break;
        error = *all->watch->stop != 0 ? -EINTR
                                       : judge_block(all, all->blocks[k], without, with, payload);
        if (pthread_equal(pthread_self(), all->caller))
            all->watch->reading(all->watch->user, k);
    }
    if (error != 0)
        all->error = error;
    sep_context_free(without);
    sep_context_free(with);
    free(payload);
    return NULL;
}

static void choose_blocks(struct judgement *all, const struct train_sample *sample, uint64_t most,
                          struct train_sizes sizes[TRAIN_KIND_COUNT])
{
    for (size_t k = 0; k < sample->count; k++) {
        const struct train_block *const block = &sample->blocks[k];

        if (!block->held_out || sizes[block->kind].plain >= most)
            continue;
        sizes[block->kind].plain += block->size;
        all->blocks[all->count++] = block;
    }
}

int train_judge(const struct train_sample *sample, const uint8_t *file, size_t size, uint64_t most,
                unsigned threads, const struct train_beside *beside,
                const struct train_watch *watch, struct train_sizes sizes[TRAIN_KIND_COUNT])
{
    struct judgement all = {.watch = watch, .beside = beside, .caller = pthread_self()};
    pthread_t thread[TRAIN_THREADS_MAX];
    struct sep_model *model = NULL;
    unsigned started = 1;

    memset(sizes, 0, TRAIN_KIND_COUNT * sizeof *sizes);
    all.blocks = calloc(sample->count + 1, sizeof *all.blocks);
    if (all.blocks == NULL)
        return -ENOMEM;
    if (sep_model_load(file, size, &model) != SEP_OK) {
        free(all.blocks);
        return -EBADMSG;
    }
    all.model = model;
    choose_blocks(&all, sample, most, sizes);
    for (; started < threads && started < TRAIN_THREADS_MAX; started++)
        if (pthread_create(&thread[started], NULL, judge, &all) != 0)
            break;
    judge(&all);
    for (unsigned k = 1; k < started; k++)
        pthread_join(thread[k], NULL);
    for (unsigned k = 0; k < TRAIN_KIND_COUNT; k++) {
        sizes[k].before = all.before[k];
        sizes[k].after = all.after[k];
    }
    sep_model_free(model);
    free(all.blocks);
    return all.error;
}
