/* SPDX-License-Identifier: BSD-2-Clause
 *
 * walk.c - drives codec/patch.c over a block.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "walk.h"

#include "codec/model.h"

#define DEFAULT_STRIDE 4u /* as model.c has it */

int train_walk_init(struct train_walk *walk, const uint8_t *patch, unsigned count)
{
    void *const memory = mmap(NULL, sizeof *walk->m, PROT_READ | PROT_WRITE,
                              MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    *walk = (struct train_walk){.profile = {.name = "training", .experts = (uint8_t)count}};
    if (memory == MAP_FAILED)
        return -ENOMEM;
    memcpy(walk->profile.patch, patch, count);
    walk->m = memory;
    return 0;
}

void train_walk_free(struct train_walk *walk)
{
    if (walk->m != NULL)
        munmap(walk->m, sizeof *walk->m);
    walk->m = NULL;
}

void train_walk_begin(struct train_walk *walk, const uint8_t *bytes, uint32_t size, unsigned stride)
{
    struct sep_model_state *const m = walk->m;

    walk->size = size;
    m->plain = bytes;
    m->position = 0;
    m->history = 0;
    m->profile = &walk->profile;
    m->slot_experts = walk->profile.experts;
    m->has_stride = stride != 0;
    m->stride = stride != 0 ? stride : DEFAULT_STRIDE;
    sep_patch_begin(m);
}

void train_walk_next(struct train_walk *walk)
{
    struct sep_model_state *const m = walk->m;

    m->history = m->history << 8 | m->plain[m->position];
    m->position++;
    sep_patch_next(m);
}
