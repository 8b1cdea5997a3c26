/* SPDX-License-Identifier: BSD-2-Clause
 *
 * inoset.c - see inoset.h. Invariant: between the slot where a number's search begins and the slot
 * where it lies, no slot is free.
 */
#include "inoset.h"

#include <stdlib.h>

#define CAPACITY_MIN 64u

static size_t home(const struct fs_inoset *set, uint64_t ino)
{
    return (size_t)((ino * UINT64_C(0x9E3779B97F4A7C15)) >> 32) & (set->capacity - 1);
}

/* Where INO lies, or the free slot where it would. */
static size_t find(const struct fs_inoset *set, uint64_t ino)
{
    size_t at = home(set, ino);

    while (set->slots[at] != 0 && set->slots[at] != ino)
        at = (at + 1) & (set->capacity - 1);
    return at;
}

static bool grow(struct fs_inoset *set)
{
    struct fs_inoset larger = {.count = set->count,
                               .capacity = set->capacity > 0 ? 2 * set->capacity : CAPACITY_MIN};

    larger.slots = calloc(larger.capacity, sizeof(*larger.slots));
    if (larger.slots == NULL)
        return false;
    for (size_t i = 0; i < set->capacity; i++) {
        if (set->slots[i] != 0)
            larger.slots[find(&larger, set->slots[i])] = set->slots[i];
    }
    free(set->slots);
    *set = larger;
    return true;
}

void fs_inoset_free(struct fs_inoset *set)
{
    free(set->slots);
    *set = (struct fs_inoset){0};
}

bool fs_inoset_has(const struct fs_inoset *set, uint64_t ino)
{
    return set->count > 0 && set->slots[find(set, ino)] == ino;
}

bool fs_inoset_add(struct fs_inoset *set, uint64_t ino)
{
    size_t at;

    if (3 * (set->count + 1) > 2 * set->capacity && !grow(set))
        return false;
    at = find(set, ino);
    set->count += set->slots[at] == 0;
    set->slots[at] = ino;
    return true;
}

bool fs_inoset_remove(struct fs_inoset *set, uint64_t ino)
{
    const size_t mask = set->capacity - 1;
    size_t hole, at;

    if (!fs_inoset_has(set, ino))
        return false;
    hole = find(set, ino);
    for (at = (hole + 1) & mask; set->slots[at] != 0; at = (at + 1) & mask) {
        /* one whose search begins behind the hole stays where it is */
        if (((at - home(set, set->slots[at])) & mask) < ((at - hole) & mask))
            continue;
        set->slots[hole] = set->slots[at];
        hole = at;
    }
    set->slots[hole] = 0;
    set->count--;
    return true;
}

uint64_t fs_inoset_pop(struct fs_inoset *set)
{
    for (size_t i = 0; set->count > 0 && i < set->capacity; i++) {
        const uint64_t ino = set->slots[i];

        if (ino != 0) {
            fs_inoset_remove(set, ino);
            return ino;
        }
    }
    return 0;
}
