/* SPDX-License-Identifier: BSD-2-Clause
 *
 * check_damage.c - pass 9: names what is lost: for every block that cannot be read, each file and
 * range that it belongs to. One walk over all extents, whatever the number of blocks.
 *
 * Nothing is changed: reads of these ranges go on giving EIO, and all else in the files is readable.
 */
#include "check.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>

static int by_block(const void *left, const void *right)
{
    const struct check_damage *const a = left, *const b = right;
    return a->block < b->block ? -1 : a->block > b->block;
}

/* First row for a block; one reason is enough. */
static struct check_damage *find(const struct checker *c, uint64_t block)
{
    size_t low = 0, high = c->damage_count;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (c->damage[middle].block < block)
            low = middle + 1;
        else
            high = middle;
    }
    return low < c->damage_count && c->damage[low].block == block ? &c->damage[low] : NULL;
}

static void report_extent(struct checker *c, uint64_t ino, const struct index_extent *extent,
                          const struct check_damage *damage)
{
    const uint64_t block_size = index_block_size(c->index);
    const uint64_t start = extent->number > UINT64_MAX / block_size - 1
                               ? UINT64_MAX - extent->length
                               : extent->number * block_size;
    char path[PATH_MAX];
    check_problem(c, damage->kind, CHECK_LOST, ino, damage->block, damage->pack,
                  "%.250s: bytes %ju to %ju are lost: block %ju: %s",
                  index_inode_path(c->txn, ino, path, sizeof path), (uintmax_t)start,
                  (uintmax_t)(start + extent->length - 1), (uintmax_t)damage->block,
                  damage->reason);
}

static int walk_extents(struct checker *c)
{
    struct check_walk walk = {.db = INDEX_DB_EXTENT};
    const uint64_t total = index_db_entries(c->txn, INDEX_DB_EXTENT);
    int error;
    while ((error = check_next(c, &walk)) == 0) {
        struct index_extent extent;
        uint64_t ino;
        error = check_step(c, "lost data", total);
        if (error != 0)
            return error;
        if (index_record_get_extent(&walk.found, &walk.value, &ino, &extent) != 0)
            continue;
        struct check_damage *const damage = find(c, extent.block);
        if (damage != NULL) {
            report_extent(c, ino, &extent, damage);
            damage->named = true;
        }
    }
    return error == -ENOENT ? 0 : error;
}

int check_damage(struct checker *c)
{
    qsort(c->damage, c->damage_count, sizeof *c->damage, by_block);
    int error = index_begin(c->index, INDEX_READ, &c->txn);
    if (error != 0)
        return error;
    c->progress_done = 0;
    error = walk_extents(c);
    for (size_t i = 0; i < c->damage_count && error == 0; i++) {
        struct check_damage *const damage = &c->damage[i];
        if (!damage->named && (i == 0 || damage[-1].block != damage->block))
            check_problem(c, damage->kind, CHECK_LOST, 0, damage->block, damage->pack,
                          "block %ju, which no file uses: %s", (uintmax_t)damage->block,
                          damage->reason);
    }
    index_end(c->txn);
    c->txn = NULL;
    return error;
}
