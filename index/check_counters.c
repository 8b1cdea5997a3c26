/* SPDX-License-Identifier: BSD-2-Clause
 *
 * check_counters.c - pass 7: the next numbers lie beyond all in use, and the sums of the state
 * record are those of the records.
 */
#include "check.h"

#include <errno.h>
#include <sys/stat.h>

static int count_inodes(struct checker *c, struct index_counters *counters)
{
    struct check_walk walk = {.db = INDEX_DB_INODE};
    int error;
    while ((error = check_next(c, &walk)) == 0) {
        struct index_inode inode;
        if (index_record_get_inode(&walk.found, &walk.value, &inode) != 0)
            continue;
        if (S_ISREG(inode.mode))
            counters->logical += inode.size;
        else
            ++*(S_ISDIR(inode.mode)   ? &counters->directories
                : S_ISLNK(inode.mode) ? &counters->symlinks
                                      : &counters->others);
    }
    return error == -ENOENT ? 0 : error;
}

static int count_blocks(struct checker *c, struct index_counters *counters)
{
    struct check_walk walk = {.db = INDEX_DB_BLOCK};
    int error;
    while ((error = check_next(c, &walk)) == 0) {
        struct index_block block;
        if (index_record_get_block(&walk.found, &walk.value, &block) == 0)
            counters->shared_blocks += (block.flags & INDEX_BLOCK_SHARED) != 0;
    }
    return error == -ENOENT ? 0 : error;
}

static bool check_counter(struct checker *c, const char *name, uint64_t *recorded, uint64_t found)
{
    if (*recorded == found ||
        !check_problem(c, "counter", CHECK_DERIVABLE, 0, 0, 0, "%s: %ju recorded, %ju found", name,
                       (uintmax_t)*recorded, (uintmax_t)found))
        return false;
    *recorded = found;
    return true;
}

static bool check_number(struct checker *c, const char *name, uint64_t *next, uint64_t last)
{
    if (*next > last || !check_problem(c, "next-number", CHECK_DERIVABLE, 0, 0, 0,
                                       "next %s number is %ju, but %ju is in use", name,
                                       (uintmax_t)*next, (uintmax_t)last))
        return false;
    *next = last + 1;
    return true;
}

/* Where the scrub in operation is: without its record it begins anew. */
static int check_scrub_record(struct checker *c)
{
    struct index_scrub scrub;
    struct index_key key;
    MDB_val value;
    index_key_text(&key, "scrub");
    const int error = index_db_get(c->txn, INDEX_DB_META, &key, &value);
    if (error != 0)
        return error == -ENOENT ? 0 : error;
    if (index_record_get_scrub(&value, &scrub) == 0 ||
        !check_problem(c, "malformed-record", CHECK_DERIVABLE, 0, 0, 0,
                       "meta record of the scrub: malformed"))
        return 0;
    return index_db_delete(c->txn, INDEX_DB_META, &key);
}

int check_counters(struct checker *c)
{
    struct index *const index = c->index;
    struct index_counters found = {.live = c->live};
    struct index_state state;
    int error = index_state_load(c->txn, &state);
    if (error == 0)
        error = count_inodes(c, &found);
    if (error == 0)
        error = count_blocks(c, &found);
    if (error == 0)
        error = check_scrub_record(c);
    if (error != 0)
        return error;
    if (c->txn->writer) { /* the record is as of the last commit */
        state.counters = index->counters;
        state.next_ino = index->next_ino;
        state.next_block = atomic_load(&index->next_block);
    }
    struct index_counters *const counters = &state.counters;
    uint64_t next_pack = state.next_pack;
    bool fix = false;
    fix |= check_counter(c, "directories", &counters->directories, found.directories);
    fix |= check_counter(c, "symbolic links", &counters->symlinks, found.symlinks);
    fix |= check_counter(c, "special files", &counters->others, found.others);
    fix |= check_counter(c, "shared blocks", &counters->shared_blocks, found.shared_blocks);
    fix |= check_counter(c, "bytes of all files", &counters->logical, found.logical);
    fix |= check_counter(c, "live bytes of all packs", &counters->live, found.live);
    if (c->inode_count > 0)
        fix |= check_number(c, "inode", &state.next_ino, c->inodes[c->inode_count - 1].ino);
    if (c->block_count > 0)
        fix |= check_number(c, "block", &state.next_block, c->blocks[c->block_count - 1].id);
    fix |= check_number(c, "pack", &next_pack, c->last_pack);
    if (!fix)
        return 0;
    index->counters = state.counters;
    index->next_ino = state.next_ino;
    atomic_store(&index->next_block, state.next_block);
    if (next_pack <= UINT32_MAX && next_pack > index->packs.next_id)
        index->packs.next_id = (uint32_t)next_pack;
    return index_state_store(c->txn, false);
}
