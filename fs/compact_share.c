/* SPDX-License-Identifier: BSD-2-Clause
 *
 * compact_share.c - small files and tails, laid together into full shared blocks.
 *
 * A block coder learns while it codes, so a block of 2 KiB has hardly begun when it ends: a tree of
 * small files coded one by one is far larger than its tar. Pieces that are alike go into one block,
 * in the order that compact_order.c gives them.
 *
 * Pieces wait in a window of up to WINDOW items. A window is resolved (pieces that name the same
 * bytes become one, blocks with owners outside the window are coded alone), named, sorted, and cut
 * into units. The index is changed in one transaction a unit: each piece is moved only if its
 * extent still names the old bytes and nobody is at work in its file; what changed meanwhile is
 * left out, and when that is more than half, the new block is dropped.
 *
 * Why it is safe against readers: between looking up an extent and loading its block a reader holds
 * the inode and its lock. Inside the transaction an inode that is not resident has no reader, and of
 * one that is resident the lock is taken, without waiting, until the transaction has ended.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "blocks.h"
#include "compact_share.h"
#include "inode.h"

#define WINDOW 32768u /* items, about 3 MB */
/* When the next piece does not fit any more, so many after it are tried. */
#define LOOK_AHEAD  16u
#define TARGETS_MAX 2048u /* of one unit: bounds its transaction to some 20 ms */

int compact_window_add(struct compact_pass *pass, const struct compact_item *item)
{
    struct compact_window *window = &pass->window;

    if (window->count == window->capacity) {
        const unsigned capacity = window->capacity == 0 ? 1024 : window->capacity * 2;
        struct compact_item *grown = reallocarray(window->items, capacity, sizeof *grown);

        if (grown == NULL)
            return -ENOMEM;
        window->items = grown;
        window->capacity = capacity;
    }
    window->items[window->count++] = *item;
    return window->count >= WINDOW ? compact_window_flush(pass, false) : 0;
}

/* ---- resolving ----------------------------------------------------------------------------- */

#define COMPARE(a, b)                                                                              \
    do {                                                                                           \
        if ((a) != (b))                                                                            \
            return (a) < (b) ? -1 : 1;                                                             \
    } while (0)

static int by_bytes(const void *left, const void *right)
{
    const struct compact_item *a = left;
    const struct compact_item *b = right;

    COMPARE(a->extent.block, b->extent.block);
    COMPARE(a->extent.offset, b->extent.offset);
    COMPARE(a->extent.length, b->extent.length);
    COMPARE(a->ino, b->ino);
    COMPARE(a->extent.number, b->extent.number);
    return 0;
}

static bool same_bytes(const struct compact_item *a, const struct compact_item *b)
{
    return a->extent.block == b->extent.block && a->extent.offset == b->extent.offset &&
           a->extent.length == b->extent.length;
}

/* Looks at the items [at, *end) that name one block. All its owners are known when there are as
 * many items as references; a shared block may be emptied bit by bit. Otherwise moving some would
 * leave the bytes stored twice. */
static bool all_owners(const struct compact_item *items, unsigned at, unsigned count, unsigned *end)
{
    *end = at + 1;
    while (*end < count && items[*end].extent.block == items[at].extent.block)
        (*end)++;
    return items[at].shared || *end - at >= items[at].references;
}

/* Divides the window: groups that are complete, *ready items of them, move to its start; those of
 * which owners are missing go behind them. */
static int divide(struct compact_window *window, unsigned *ready)
{
    struct compact_item *items = window->items;
    struct compact_item *incomplete = calloc(window->count, sizeof *incomplete);
    unsigned stay = 0;
    unsigned go = 0;

    if (incomplete == NULL)
        return -ENOMEM;
    qsort(items, window->count, sizeof *items, by_bytes);
    for (unsigned i = 0, end; i < window->count; i = end) {
        if (all_owners(items, i, window->count, &end)) {
            memmove(items + go, items + i, (end - i) * sizeof *items);
            go += end - i;
        } else {
            memcpy(incomplete + stay, items + i, (end - i) * sizeof *items);
            stay += end - i;
        }
    }
    memcpy(items + go, incomplete, stay * sizeof *items);
    free(incomplete);
    *ready = go;
    return 0;
}

/* One piece for each run of items with the same bytes. */
static int make_pieces(struct compact_layout *layout, unsigned ready)
{
    const struct compact_item *items = layout->pass->window.items;

    layout->pieces = calloc(ready, sizeof *layout->pieces);
    if (layout->pieces == NULL)
        return -ENOMEM;
    for (unsigned i = 0; i < ready; i++) {
        if (i > 0 && same_bytes(&items[i - 1], &items[i]))
            layout->pieces[layout->count - 1].copies++;
        else
            layout->pieces[layout->count++] =
                (struct compact_piece){.item = &items[i], .copies = 1};
    }
    return 0;
}

/* ---- laying -------------------------------------------------------------------------------- */

/* Decodes the block that ITEM names into pass->scratch, unless it is there already. */
static int load(struct compact_pass *pass, const struct compact_item *item)
{
    int error;

    if (pass->scratch_id == item->extent.block)
        return 0;
    if (pass->context == NULL)
        pass->context = sep_context_new();
    if (pass->scratch == NULL)
        pass->scratch = malloc(pass->fs->block_size);
    if (pass->context == NULL || pass->scratch == NULL)
        return -ENOMEM;
    pass->scratch_id = 0;
    error = fs_block_decode(pass->fs, pass->context, item->extent.block, item->ino, pass->scratch,
                            &pass->scratch_size);
    if (error == 0)
        pass->scratch_id = item->extent.block;
    return error;
}

/* An earlier piece of the unit with the same bytes: its offset, or -1. */
static int64_t find_equal(const struct compact_unit *unit, const uint8_t *bytes, uint32_t length)
{
    for (unsigned i = 0; i < unit->target_count; i++) {
        const struct compact_target *target = &unit->targets[i];

        if (!target->twin && target->extent.length == length &&
            memcmp(unit->plain + target->offset, bytes, length) == 0)
            return target->offset;
    }
    return -1;
}

static int add_target(struct compact_unit *unit, const struct compact_item *item, uint32_t offset,
                      bool twin)
{
    if (unit->target_count % 64 == 0) {
        struct compact_target *grown =
            reallocarray(unit->targets, unit->target_count + 64, sizeof *grown);

        if (grown == NULL)
            return -ENOMEM;
        unit->targets = grown;
    }
    unit->targets[unit->target_count++] = (struct compact_target){
        .ino = item->ino, .extent = item->extent, .offset = offset, .twin = twin};
    return 0;
}

/* Adds a piece to the unit, with all extents that name it. A piece whose block is damaged or gone is left out. */
static int lay(struct compact_layout *layout, struct compact_unit *unit,
               const struct compact_piece *piece)
{
    const struct compact_item *item = piece->item;
    const struct index_extent *extent = &item->extent;
    uint32_t offset = unit->block.plain_size;
    int64_t equal;
    int error;

    if (layout->pass->damaged_id == extent->block)
        return 0;
    error = load(layout->pass, item);
    if (error == -EIO) {
        layout->pass->damaged_id = extent->block;
        return compact_decline(layout->pass, extent->block, unit->method, EIO, "damaged record");
    }
    if (error == -ENOENT || error == -ESTALE)
        return 0;
    if (error != 0)
        return error;
    if (extent->offset > layout->pass->scratch_size ||
        extent->length > layout->pass->scratch_size - extent->offset)
        return compact_decline(layout->pass, extent->block, unit->method, EUCLEAN,
                               "extent reaches beyond its block");
    equal = find_equal(unit, layout->pass->scratch + extent->offset, extent->length);
    if (equal >= 0) {
        offset = (uint32_t)equal;
    } else {
        memcpy(unit->plain + offset, layout->pass->scratch + extent->offset, extent->length);
        unit->block.plain_size += extent->length;
    }
    unit->stored += item->stored;
    unit->repack |= item->shared;
    error = add_target(unit, item, offset, equal >= 0);
    for (unsigned i = 1; i < piece->copies && error == 0; i++)
        error = add_target(unit, item + i, offset, true);
    return error;
}

/* Takes from FIRST on the pieces that fill one block. */
static unsigned choose(struct compact_layout *layout, unsigned first,
                       const struct compact_piece **chosen, unsigned most)
{
    const struct compact_item *begin = layout->pieces[first].item;
    uint32_t room = layout->pass->fs->block_size;
    unsigned count = 0;
    unsigned misses = 0;

    for (unsigned i = first; i < layout->count && count < most && misses < LOOK_AHEAD; i++) {
        struct compact_piece *piece = &layout->pieces[i];

        if (piece->taken)
            continue;
        if (piece->item->method.codec != begin->method.codec ||
            piece->item->method.level != begin->method.level)
            break;
        if (piece->item->extent.length > room) {
            misses++;
            continue;
        }
        room -= piece->item->extent.length;
        piece->taken = true;
        chosen[count++] = piece;
    }
    return count;
}

static int build(struct compact_layout *layout, const struct compact_piece *const *chosen,
                 unsigned count)
{
    struct compact_pass *pass = layout->pass;
    struct compact_unit unit = {.method = chosen[0]->item->method,
                                .ino = chosen[0]->item->ino,
                                .number = chosen[0]->item->extent.number};
    int error = 0;

    unit.plain = malloc(pass->fs->block_size);
    if (unit.plain == NULL)
        return -ENOMEM;
    for (unsigned i = 0; i < count && error == 0; i++)
        error = lay(layout, &unit, chosen[i]);
    if (error != 0 || unit.target_count == 0) {
        compact_unit_free(&unit);
        return error;
    }
    unit.block.id = index_block_new(pass->fs->index);
    unit.block.flags = INDEX_BLOCK_SHARED;
    unit.block.hash = index_hash_of(unit.plain, unit.block.plain_size);
    return compact_feed_unit(pass, &unit);
}

/* A piece that found no company. */
static int alone(struct compact_layout *layout, const struct compact_piece *piece)
{
    const struct compact_item *item = piece->item;

    if (item->settled)
        return 0;
    /* A range of a larger, otherwise dead block is worth moving even so. */
    if (item->shared || item->extent.length < item->plain_size)
        return build(layout, &piece, 1);
    return compact_feed(layout->pass, item);
}

static int lay_all(struct compact_layout *layout)
{
    const struct compact_piece **chosen = calloc(TARGETS_MAX, sizeof *chosen);
    int error = chosen == NULL ? -ENOMEM : 0;

    for (unsigned i = 0; i < layout->count && error == 0; i++) {
        unsigned count;

        if (layout->pieces[i].taken)
            continue;
        if (!compact_gate(layout->pass)) {
            error = -ECANCELED;
            break;
        }
        count = choose(layout, i, chosen, TARGETS_MAX);
        error = count == 1 ? alone(layout, chosen[0]) : build(layout, chosen, count);
    }
    free(chosen);
    return error;
}

/* Plain bytes that would be laid together. */
static uint64_t waiting(const struct compact_window *window)
{
    uint64_t bytes = 0;

    for (unsigned i = 0; i < window->count; i++)
        bytes += window->items[i].extent.length;
    return bytes;
}

/* What is left in the window is coded in place. */
static int feed_rest(struct compact_pass *pass)
{
    int error = 0;

    for (unsigned i = 0; i < pass->window.count && error == 0; i++) {
        if (!pass->window.items[i].settled)
            error = compact_feed(pass, &pass->window.items[i]);
    }
    pass->window.count = 0;
    return error;
}

int compact_window_flush(struct compact_pass *pass, bool last)
{
    struct compact_window *window = &pass->window;
    struct compact_layout layout = {.pass = pass};
    unsigned ready;
    int error;

    if (window->count == 0)
        return 0;
    /* Nobody waits for a timer's pass: small files keep until they fill a block. */
    if (pass->kind != COMPACT_ASKED && last && waiting(window) < pass->fs->block_size) {
        window->count = 0;
        return 0;
    }
    error = divide(window, &ready);
    if (error == 0 && ready > 0)
        error = make_pieces(&layout, ready);
    if (error == 0)
        error = compact_layout_order(&layout);
    if (error == 0)
        error = lay_all(&layout);
    compact_layout_free(&layout);
    if (error != 0)
        return error;
    window->count -= ready;
    memmove(window->items, window->items + ready, window->count * sizeof *window->items);
    /* Owners that have not turned up within half a window are not waited for. */
    return last || window->count > WINDOW / 2 ? feed_rest(pass) : 0;
}
