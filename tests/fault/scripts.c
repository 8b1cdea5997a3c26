/* SPDX-License-Identifier: BSD-2-Clause
 *
 * scripts.c - see scripts.h. Each is small, because it runs once or more for every call that it makes;
 * together they go through all that happens to data: new and changed blocks, names, holes, shared
 * blocks, reading with read-ahead, compaction with every method, promotion, garbage, recovery, and
 * the rewriting of the index at the end of a session.
 */
#include "scripts.h"

#include <stdio.h>
#include <unistd.h>

#include "fs/blocks.h"
#include "fs/promote.h"

#define K 1024u

static void nothing(struct world *w)
{
    (void)w;
}

/* Five files: text, noise, holes, inline, one byte. */
static void some_files(struct world *w)
{
    for (unsigned i = 0; i < 5; i++)
        world_create(w, i);
    world_write(w, 0, WORLD_TEXT, 1, 60 * K, 0);
    world_write(w, 1, WORLD_NOISE, 2, 40 * K, 0);
    world_write(w, 2, WORLD_TEXT, 3, 3 * K, 50 * K);
    world_write(w, 3, WORLD_TEXT, 4, 100, 0);
    world_write(w, 4, WORLD_TEXT, 5, 5000, 0);
    for (unsigned i = 0; i < 5; i++)
        world_sync(w, i);
}

static void create(struct world *w)
{
    world_create(w, 0);
    world_write(w, 0, WORLD_TEXT, 1, 20 * K, 0);
    world_sync(w, 0);
}

static void write_new(struct world *w)
{
    world_create(w, 5);
    world_write(w, 5, WORLD_TEXT, 10, 40 * K, 0);
    world_sync(w, 5);
    world_write(w, 5, WORLD_NOISE, 11, 5 * K, 59 * K - 1000); /* behind a hole */
    world_flush(w, 5);
    world_create(w, 6);
    world_write(w, 6, WORLD_TEXT, 12, 120, 0); /* inline */
    world_flush(w, 6);
    world_sync(w, 6);
    world_sync(w, 5);
}

static void overwrite(struct world *w)
{
    world_write(w, 0, WORLD_TEXT, 20, 100, 17 * K); /* a part of a stored block */
    world_write(w, 0, WORLD_TEXT, 21, 16 * K, 32 * K);
    world_sync(w, 0);
    world_write(w, 3, WORLD_TEXT, 22, 3000, 50); /* no longer inline */
    world_write(w, 1, WORLD_ZEROS, 0, 16 * K, 16 * K);
    world_sync(w, 3);
    world_commit(w);
    world_write(w, 0, WORLD_NOISE, 23, 30 * K, 10 * K); /* left to the end */
}

static void names(struct world *w)
{
    world_create(w, 5);
    world_link(w, 0, "second");
    world_attribute(w, 0, 300);
    world_commit(w);
    world_rename(w, 1, 2);
    world_unlink(w, 4, false);
    world_commit(w);
    world_unlink(w, 3, true);
    world_attribute(w, 0, 0);
    world_attribute(w, 0, 50000); /* pages of its own */
    world_commit(w);
}

static void shape(struct world *w)
{
    world_truncate(w, 0, 20 * K);
    world_zero(w, 0, 0, 16 * K, false);
    world_sync(w, 0);
    world_truncate(w, 0, 62 * K);
    world_zero(w, 1, 30 * K, 20 * K, true);
    world_zero(w, 1, 100, 300, false);
    world_sync(w, 1);
    world_sync(w, 0);
    world_truncate(w, 4, 0);
    world_commit(w);
}

static void copy(struct world *w)
{
    world_create(w, 5);
    world_copy(w, 0, 5, 0, 0, 48 * K);     /* shared blocks */
    world_copy(w, 0, 5, 100, 50 * K, 900); /* bytes */
    world_sync(w, 5);
    world_create(w, 6);
    world_write(w, 6, WORLD_NOISE, 2, 32 * K, 0); /* known: the same as in file 1 */
    world_sync(w, 6);
    world_copy(w, 1, 6, 0, 16 * K, 16 * K);
    world_commit(w);
}

static void read_files(struct world *w)
{
    for (unsigned i = 0; i < 5; i++)
        world_read(w, i, 4096);
    fs_cache_drop(w->fs.cache);
    world_read(w, 0, 33000);
    world_read(w, 1, 1000);
}

static void encode(struct world *w)
{
    world_compact(w, "zstd:9", false);
    world_read(w, 0, 64 * K);
}

static void encode_sep(struct world *w)
{
    world_compact(w, "sep:1", false);
    fs_cache_drop(w->fs.cache);
    world_read(w, 4, 64 * K);
}

/* Small files, which the compactor lays together. */
static void small_files(struct world *w)
{
    for (unsigned i = 0; i < 7; i++) {
        world_create(w, i);
        world_write(w, i, WORLD_TEXT, 40 + i, 1000 + 300 * i, 0);
    }
    world_commit(w);
    for (unsigned i = 0; i < 7; i++)
        world_sync(w, i);
}

static void share(struct world *w)
{
    world_compact(w, "zstd:12", false);
    world_unlink(w, 2, false);
    world_write(w, 3, WORLD_TEXT, 50, 200, 100);
    world_sync(w, 3);
    world_read(w, 4, 64 * K);
}

static void cold_files(struct world *w)
{
    some_files(w);
    world_compact(w, "zstd:12", false);
}

static void recode(struct world *w)
{
    world_compact(w, "lz4", true);
    world_read(w, 0, 64 * K);
}

/* Read again and again: the compactor takes blocks back to the fast codec. */
static void promote(struct world *w)
{
    for (unsigned i = 0; i < 4; i++) {
        fs_cache_drop(w->fs.cache);
        world_read(w, 0, 64 * K);
        world_read(w, 4, 64 * K);
    }
    world_compact(w, "zstd:12", false);
    world_read(w, 0, 64 * K);
}

static void garbage(struct world *w)
{
    some_files(w);
    for (unsigned i = 5; i < 9; i++) {
        world_create(w, i);
        world_write(w, i, WORLD_NOISE, 60 + i, 64 * K, 0);
        world_sync(w, i);
    }
    for (unsigned i = 5; i < 9; i += 2)
        world_unlink(w, i, false);
}

static void collect(struct world *w)
{
    world_gc(w, 95);
    world_unlink(w, 6, false);
    world_unlink(w, 8, false);
    world_commit(w);
    world_gc(w, 95);
    world_read(w, 1, 64 * K);
}

/* Killed with an unlinked file open, and with data behind the last commit. */
static void crash(struct world *w)
{
    some_files(w);
    world_create(w, 5);
    world_write(w, 5, WORLD_NOISE, 70, 64 * K, 0);
    world_sync(w, 5);
    world_unlink(w, 5, true);
    world_commit(w);
    world_create(w, 6);
    world_write(w, 6, WORLD_NOISE, 71, 48 * K, 0);
    fs_file_write_back(&w->fs, w->files[6].inode);
}

/* An index that is mostly free pages is rewritten by the close at the end of the run. */
static void bloat(struct world *w)
{
    some_files(w);
    for (unsigned i = 5; i < 11; i++) {
        world_create(w, i);
        world_attribute(w, i, 60000);
    }
    world_commit(w);
}

static void rebuild(struct world *w)
{
    for (unsigned i = 5; i < 11; i++)
        world_attribute(w, i, 0);
    world_commit(w);
    world_close(w);
}

/* Derived records that are wrong, and a name that leads nowhere. */
static void damage(struct world *w)
{
    struct index_inode inode;
    struct index_txn *txn;
    some_files(w);
    world_must(index_begin(w->index, INDEX_WRITE, &txn) == 0, "no transaction");
    world_must(index_inode_get(txn, w->files[0].ino, &inode) == 0, "no inode");
    inode.nlink = 7;
    inode.stored += 4096;
    world_must(index_inode_put(txn, &inode) == 0, "no record");
    world_must(index_dirent_add(txn, INDEX_ROOT_INO, "nowhere", 4711, 8) == 0, "no name");
    index_end(txn);
}

const struct fault_script fault_scripts[] = {
    {"create", NULL, false, false, create},
    {"write", some_files, false, false, write_new},
    {"overwrite", some_files, false, false, overwrite},
    {"names", some_files, false, false, names},
    {"shape", some_files, false, false, shape},
    {"copy", some_files, false, false, copy},
    {"read", cold_files, false, false, read_files},
    {"encode", some_files, false, false, encode},
    {"sep", small_files, false, false, encode_sep},
    {"share", small_files, false, false, share},
    {"recode", cold_files, false, false, recode},
    {"promote", cold_files, false, false, promote},
    {"garbage", garbage, false, false, collect},
    {"recover", crash, true, false, nothing},
    {"rebuild", bloat, false, false, rebuild},
    {"repair", damage, false, true, world_repair},
};
const unsigned fault_script_count = sizeof fault_scripts / sizeof fault_scripts[0];
