/* SPDX-License-Identifier: BSD-2-Clause
 *
 * sample.c - keeps the blocks with the lowest priorities, then splits and shuffles them.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "kind.h"
#include "random.h"
#include "sample.h"

struct train_sample *train_sample_new(uint64_t seed, uint64_t limit, unsigned kinds)
{
    struct train_sample *sample = calloc(1, sizeof *sample);

    if (sample != NULL) {
        sample->seed = seed;
        sample->limit = limit;
        sample->kinds = kinds;
    }
    return sample;
}

static void block_free(struct train_block *block)
{
    free(block->name);
    free(block->bytes);
    block->name = NULL;
    block->bytes = NULL;
}

void train_sample_free(struct train_sample *sample)
{
    if (sample == NULL)
        return;
    for (size_t k = 0; k < sample->count; k++)
        block_free(&sample->blocks[k]);
    free(sample->blocks);
    free(sample);
}

static uint64_t priority_of(const struct train_sample *sample, const char *name, uint64_t offset)
{
    return train_mix(train_hash(sample->seed, name, strlen(name)) + offset);
}

bool train_sample_wants(const struct train_sample *sample, const char *name, uint64_t offset)
{
    return sample->bytes < sample->limit || sample->count == 0 ||
           priority_of(sample, name, offset) < sample->blocks[0].priority;
}

static void swap(struct train_block *a, struct train_block *b)
{
    const struct train_block kept = *a;

    *a = *b;
    *b = kept;
}

static void heap_up(struct train_sample *sample, size_t at)
{
    for (; at > 0; at = (at - 1) / 2) {
        struct train_block *const parent = &sample->blocks[(at - 1) / 2];

        if (parent->priority >= sample->blocks[at].priority)
            return;
        swap(parent, &sample->blocks[at]);
    }
}

static void heap_down(struct train_sample *sample)
{
    struct train_block *const blocks = sample->blocks;

    for (size_t at = 0, child; (child = 2 * at + 1) < sample->count; at = child) {
        if (child + 1 < sample->count && blocks[child + 1].priority > blocks[child].priority)
            child++;
        if (blocks[at].priority >= blocks[child].priority)
            return;
        swap(&blocks[at], &blocks[child]);
    }
}

static void drop_top(struct train_sample *sample)
{
    struct train_block top = sample->blocks[0];

    sample->bytes -= top.size;
    sample->blocks[0] = sample->blocks[--sample->count];
    heap_down(sample);
    block_free(&top);
}

static int make_room(struct train_sample *sample)
{
    struct train_block *blocks;
    size_t room = sample->room * 2;

    if (sample->count < sample->room)
        return 0;
    if (room < 64)
        room = 64;
    blocks = reallocarray(sample->blocks, room, sizeof *blocks);
    if (blocks == NULL)
        return -ENOMEM;
    sample->blocks = blocks;
    sample->room = room;
    return 0;
}

int train_sample_add(struct train_sample *sample, const char *name, uint64_t offset,
                     const void *bytes, size_t size)
{
    struct train_block block = {
        .priority = priority_of(sample, name, offset), .offset = offset, .size = (uint32_t)size};

    if (size < TRAIN_BLOCK_MIN || size > SEP_BLOCK_SIZE_MAX || sep_incompressible(bytes, size))
        return 0;
    block.kind = train_kind_of(bytes, size);
    if ((sample->kinds & TRAIN_KIND_BIT(block.kind)) == 0)
        return 0;
    if (make_room(sample) != 0)
        return -ENOMEM;
    block.name = strdup(name);
    block.bytes = malloc(size);
    if (block.name == NULL || block.bytes == NULL) {
        block_free(&block);
        return -ENOMEM;
    }
    memcpy(block.bytes, bytes, size);
    sample->blocks[sample->count] = block;
    sample->bytes += size;
    heap_up(sample, sample->count++);
    while (sample->bytes > sample->limit && sample->count > 1)
        drop_top(sample);
    return 0;
}

/* ---- close ---------------------------------------------------------------------------------- */

static int by_content(const void *left, const void *right)
{
    const struct train_block *const a = left, *const b = right;

    if (a->hash != b->hash)
        return a->hash < b->hash ? -1 : 1;
    return a->priority < b->priority ? -1 : a->priority > b->priority;
}

static int by_name(const void *left, const void *right)
{
    const struct train_block *const a = left, *const b = right;
    const int order = strcmp(a->name, b->name);

    return order != 0 ? order : a->offset < b->offset ? -1 : a->offset > b->offset;
}

static void drop_duplicates(struct train_sample *sample)
{
    size_t kept = 0;

    for (size_t k = 0; k < sample->count; k++)
        sample->blocks[k].hash = train_hash(0, sample->blocks[k].bytes, sample->blocks[k].size);
    qsort(sample->blocks, sample->count, sizeof *sample->blocks, by_content);
    for (size_t k = 0; k < sample->count; k++) {
        struct train_block *const block = &sample->blocks[k];

        if (kept > 0 && sample->blocks[kept - 1].hash == block->hash) {
            sample->bytes -= block->size;
            sample->duplicates++;
            block_free(block);
        } else {
            sample->blocks[kept++] = *block;
        }
    }
    sample->count = kept;
}

static size_t count_names(const struct train_sample *sample)
{
    size_t names = 0;

    for (size_t k = 0; k < sample->count; k++)
        names += k == 0 || strcmp(sample->blocks[k].name, sample->blocks[k - 1].name) != 0;
    return names;
}

static void split(struct train_sample *sample)
{
    const bool by_file = count_names(sample) >= 4 * TRAIN_SPLIT;

    for (size_t k = 0; k < sample->count; k++) {
        struct train_block *const block = &sample->blocks[k];
        const uint64_t stretch = by_file ? 0 : block->offset / TRAIN_SPLIT_STRETCH;
        const uint64_t key =
            train_hash(sample->seed ^ stretch << 32, block->name, strlen(block->name));

        block->held_out = key % TRAIN_SPLIT == 0;
    }
}

void train_sample_close(struct train_sample *sample)
{
    uint64_t random = sample->seed;

    if (sample->count == 0)
        return;
    drop_duplicates(sample);
    qsort(sample->blocks, sample->count, sizeof *sample->blocks, by_name);
    split(sample);
    for (size_t k = sample->count; k > 1; k--)
        swap(&sample->blocks[k - 1], &sample->blocks[train_random_below(&random, k)]);
}

void train_sample_count(const struct train_sample *sample, struct train_counts *counts)
{
    *counts = (struct train_counts){.duplicates = sample->duplicates};
    for (size_t k = 0; k < sample->count; k++) {
        const struct train_block *const block = &sample->blocks[k];

        if (block->held_out) {
            counts->held_out_blocks++;
            counts->held_out_bytes += block->size;
        } else {
            counts->blocks++;
            counts->bytes += block->size;
            counts->kind_blocks[block->kind]++;
            counts->kind_bytes[block->kind] += block->size;
        }
    }
}
