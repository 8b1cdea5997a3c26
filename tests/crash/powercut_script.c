/* SPDX-License-Identifier: BSD-2-Clause
 *
 * powercut_script.c - see powercut_script.h. What a session must have done it asserts: a pack that was
 * to go and stays, or a block that was not moved, would be a session that shows nothing.
 */
#include "powercut_script.h"

#include <errno.h>

#include "fs/compactor.h"
#include "fs/promote.h"
#include "fs/writeback.h"

#define BLOCKS(n) ((n) * (uint64_t)POWERCUT_BLOCK)

static void expect(bool condition, const char *what)
{
    if (!condition)
        give_up(what, -EIO);
}

static uint32_t file_of(struct actor *a, uint32_t name, uint64_t size, uint32_t content,
                        uint64_t seed)
{
    const uint32_t number = actor_create(a, name);
    actor_write(a, number, 0, size, content, seed);
    return number;
}

/* Names and contents, without any help of the compactor; each kind of promise. */
static void names_and_contents(struct actor *a)
{
    actor_directory(a);
    actor_sync_names(a);
    const uint32_t one = file_of(a, 0, BLOCKS(3) + 100, POWERCUT_TEXT, 1);
    actor_sync_file(a, one);
    actor_write(a, one, BLOCKS(1), BLOCKS(1), POWERCUT_NOISE, 2); /* a whole block */
    actor_write(a, one, BLOCKS(2) + 77, 300, POWERCUT_TEXT, 3);   /* a part */
    actor_write(a, one, BLOCKS(3) + 100, 5000, POWERCUT_TEXT, 4); /* the end */
    actor_sync_file(a, one);
    actor_conf(a, 4711);
    const uint32_t small = file_of(a, 1, 90, POWERCUT_TEXT, 5); /* lies in its inode */
    actor_sync_file(a, small);
    actor_write(a, small, 90, 4000, POWERCUT_TEXT, 6); /* no more */
    actor_tag(a, small, 17);
    actor_sync_all(a);
    actor_tag(a, small, 18);
    actor_link(a, 0, 2);
    actor_rename(a, 1, 3);
    actor_sync_names(a);
    const uint32_t next = file_of(a, 4, BLOCKS(1) + 9, POWERCUT_TEXT, 7);
    actor_sync_file(a, next);
    actor_rename(a, 4, 3); /* over another, which is gone with that */
    actor_sync_names(a);
    file_of(a, 5, BLOCKS(2), POWERCUT_TEXT, 8);
    actor_rename(a, 5, 3); /* not synced before */
    actor_sync_names(a);
    actor_exchange(a, 2, 3);
    actor_unlink(a, 2, false);
    actor_sync_names(a);
    actor_unlink(a, 0, false); /* has a name left */
    actor_sync_names(a);
}

/* Sizes, holes, blocks that are shared. Behind the end of it much of the index is free. */
static void sizes_and_holes(struct actor *a)
{
    actor_directory(a);
    const uint32_t one = file_of(a, 0, BLOCKS(6), POWERCUT_TEXT, 11);
    actor_sync_file(a, one);
    actor_truncate(a, one, BLOCKS(4) + 10);
    actor_truncate(a, one, BLOCKS(5));
    actor_sync_file(a, one);
    actor_punch(a, one, BLOCKS(1), BLOCKS(2));
    actor_punch(a, one, BLOCKS(3) + 50, 1000);
    actor_sync_file(a, one);
    actor_write(a, one, BLOCKS(9), 100, POWERCUT_TEXT, 12); /* behind a hole */
    actor_write(a, one, BLOCKS(6), BLOCKS(2), POWERCUT_ZEROS, 0);
    actor_sync_all(a);
    actor_truncate(a, one, BLOCKS(8) + 1);
    const uint32_t two = file_of(a, 1, BLOCKS(5), POWERCUT_NOISE, 13);
    actor_copy(a, two, 1, one, 0, 3);
    const uint32_t same = file_of(a, 2, BLOCKS(5), POWERCUT_NOISE, 13); /* stored once */
    actor_sync_file(a, same);
    actor_sync_file(a, one);
    actor_write(a, two, BLOCKS(2), 500, POWERCUT_TEXT, 14);
    actor_sync_file(a, two);
    actor_unlink(a, 2, true);
    actor_truncate(a, two, 0);
    actor_sync_all(a);
    actor_conf(a, 4712);
    actor_bloat(a, false);
}

/* Small files and ends come to lie together, whole blocks are recoded, and back. */
static void compaction(struct actor *a)
{
    actor_directory(a);
    for (uint32_t i = 0; i < 6; i++)
        file_of(a, i, 1500 + 700 * i, POWERCUT_TEXT, 20 + i);
    const uint32_t large = file_of(a, 6, BLOCKS(2) + 700, POWERCUT_TEXT, 30);
    actor_sync_all(a);
    actor_compact(a, 0, "zstd:12", false, true);
    actor_write(a, 2, 100, 200, POWERCUT_TEXT, 31); /* a part of a shared block */
    actor_sync_file(a, 2);
    actor_compact(a, a->dir, "sep:1", false, true);
    actor_write(a, large, BLOCKS(1) + 5, 60, POWERCUT_TEXT, 32);
    actor_compact(a, a->dir, "sep:1", false, false); /* data that is not synced, in two forms */
    actor_sync_file(a, large);
    actor_unlink(a, 3, false);
    actor_compact(a, 0, "zstd:2", true, true);
    actor_sync_all(a);
}

/* What is read often goes back to the fast codec by itself. */
static void promotion(struct actor *a)
{
    struct fs_compact_status status = {0};
    actor_directory(a);
    const uint32_t file = file_of(a, 0, 6000, POWERCUT_TEXT, 41);
    actor_sync_all(a);
    actor_compact(a, a->dir, "sep:1", false, true);
    struct index_txn *txn;
    MUST(index_begin(a->fs->index, INDEX_READ, &txn));
    struct index_extent extent;
    struct index_block block;
    MUST(index_extent_get(txn, a->files[file].inode->ino, 0, &extent));
    MUST(index_block_get(txn, extent.block, &block));
    for (unsigned i = 0; i < FS_PROMOTE_READS; i++)
        fs_promote_read(a->fs, &block, a->files[file].inode->ino);
    index_end(txn);
    expect(fs_promote_ready(a->fs), "nothing is ready to be promoted");
    for (unsigned i = 0; fs_promote_ready(a->fs) || status.running; i++) {
        const struct timespec time = {.tv_nsec = 10000000};
        expect(i < 6000, "nothing is promoted");
        nanosleep(&time, NULL);
        fs_compactor_status(a->fs, &status);
    }
    actor_write(a, file, 10, 20, POWERCUT_TEXT, 42);
    actor_sync_file(a, file);
}

/* Packs fill, empty and go: what lives in them is moved; a pack that is dead goes without. */
static void collection(struct actor *a)
{
    struct index_gc_result result;
    actor_directory(a);
    for (uint32_t i = 0; i < 8; i++)
        file_of(a, i, BLOCKS(5), POWERCUT_NOISE, 50 + i);
    actor_sync_all(a);
    for (uint32_t i = 0; i < 8; i += 2)
        actor_unlink(a, i, true);
    actor_sync_names(a); /* punches */
    actor_model(a, 0, 9000, 61);
    result = actor_collect(a, 90);
    expect(result.records_moved > 0 && result.packs_removed > 0, "nothing was collected");
    actor_write(a, 1, BLOCKS(1), BLOCKS(2), POWERCUT_NOISE, 60);
    actor_sync_file(a, 1);
    for (uint32_t i = 3; i < 8; i += 2)
        actor_unlink(a, i, i == 3);
    actor_sync_names(a);
    actor_model(a, 1, 3000, 62);
    actor_collect(a, 90);
    actor_drop_model(a, 0);
    actor_drop_model(a, 1); /* a mount would not know it */
    actor_sync_all(a);
}

static void last_words(struct actor *a)
{
    actor_directory(a);
    file_of(a, 0, BLOCKS(1), POWERCUT_TEXT, 70);
    actor_sync_all(a);
}

const struct script powercut_script[] = {
    {.act = names_and_contents},
    {.act = sizes_and_holes},
    {.act = compaction},
    {.act = promotion, .killed = true},
    {.act = collection},
    {.damaged = true},
    {.act = last_words, .killed = true},
    {.damaged = true},
    {.act = last_words},
    {0},
};
