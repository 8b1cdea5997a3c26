/* SPDX-License-Identifier: BSD-2-Clause
 *
 * check.c - index_check: runs the passes of check.h, and the tools that they share.
 */
#include "check.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- reporting ----------------------------------------------------------------------------- */

bool check_problem(struct checker *c, const char *kind, enum check_remedy remedy, uint64_t ino,
                   uint64_t block, uint32_t pack, const char *format, ...)
{
    const bool repair = remedy != CHECK_LOST && c->options->repair;
    struct index_problem problem = {
        .kind = kind,
        .state = remedy == CHECK_LOST ? INDEX_PROBLEM_LOST
                 : repair             ? INDEX_PROBLEM_FIXED
                                      : INDEX_PROBLEM_FOUND,
        .derivable = remedy == CHECK_DERIVABLE,
        .ino = ino,
        .block = block,
        .pack = pack,
    };
    va_list list;
    va_start(list, format);
    vsnprintf(problem.text, sizeof problem.text, format, list);
    va_end(list);
    c->options->problem(c->options->arg, &problem);
    c->modified = c->modified || repair;
    return repair;
}

int check_step(struct checker *c, const char *pass, uint64_t total)
{
    if (c->progress_done++ % 1024 != 0)
        return 0;
    if (c->options->stop != NULL && *c->options->stop)
        return -ECANCELED;
    if (c->options->progress != NULL)
        c->options->progress(c->options->arg, pass, c->progress_done - 1, total);
    return 0;
}

/* ---- walks --------------------------------------------------------------------------------- */

void check_walk_from(struct check_walk *walk, enum index_db db, const struct index_key *key)
{
    *walk = (struct check_walk){.db = db};
    walk->key = *key;
}

/* The key right behind every key that is <= KEY: its bytes and a zero byte. */
static void key_successor(struct index_key *key)
{
    if (key->size < sizeof key->bytes)
        key->bytes[key->size++] = 0;
}

int check_next(struct checker *c, struct check_walk *walk)
{
    const struct index_key before = walk->key;
    int error;
    if (walk->started && !walk->shared && !c->modified) {
        error = index_db_next(c->txn, walk->db, &walk->found, &walk->value);
    } else {
        if (walk->started)
            key_successor(&walk->key);
        else if (walk->key.size == 0) /* LMDB knows no empty keys: the lowest is one zero byte */
            walk->key.size = 1;
        error = index_db_seek(c->txn, walk->db, &walk->key, &walk->found, &walk->value);
        c->modified = false; /* one walk at a time changes records */
    }
    if (error != 0)
        return error;
    const size_t size = walk->found.mv_size;
    if (size > sizeof walk->key.bytes)
        return -EUCLEAN;
    const size_t common = size < before.size ? size : before.size;
    const int order = common == 0 ? 0 : memcmp(walk->found.mv_data, before.bytes, common);
    if (walk->started && (order < 0 || (order == 0 && size <= before.size)))
        return -EUCLEAN;
    walk->started = true;
    walk->key.size = size;
    memcpy(walk->key.bytes, walk->found.mv_data, size);
    return 0;
}

int check_delete(struct checker *c, struct check_walk *walk)
{
    const MDB_val key = {walk->key.size, walk->key.bytes};
    c->modified = true;
    return index_db_delete_raw(c->txn, walk->db, &key);
}

/* ---- tables -------------------------------------------------------------------------------- */

void *check_grow(void **array, size_t *count, size_t *room, size_t size)
{
    if (*count == *room) {
        const size_t more = *room == 0 ? 1024 : *room + *room / 2;
        void *const grown = reallocarray(*array, more, size);
        if (grown == NULL)
            return NULL;
        *array = grown;
        *room = more;
    }
    return (char *)*array + (*count)++ * size;
}

struct check_inode *check_inode_find(const struct checker *c, uint64_t ino)
{
    size_t low = 0, high = c->inode_count;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (c->inodes[middle].ino < ino)
            low = middle + 1;
        else
            high = middle;
    }
    return low < c->inode_count && c->inodes[low].ino == ino ? &c->inodes[low] : NULL;
}

struct check_block *check_block_find(const struct checker *c, uint64_t id)
{
    size_t low = 0, high = c->block_count;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (c->blocks[middle].id < id)
            low = middle + 1;
        else
            high = middle;
    }
    return low < c->block_count && c->blocks[low].id == id ? &c->blocks[low] : NULL;
}

int check_damage_add(struct checker *c, uint64_t block, uint32_t pack, const char *kind,
                     const char *format, ...)
{
    struct check_damage *const row =
        check_grow((void **)&c->damage, &c->damage_count, &c->damage_room, sizeof *c->damage);
    if (row == NULL)
        return -ENOMEM;
    *row = (struct check_damage){.block = block, .pack = pack, .kind = kind};
    va_list list;
    va_start(list, format);
    vsnprintf(row->reason, sizeof row->reason, format, list);
    va_end(list);
    return 0;
}

/* ---- the check ----------------------------------------------------------------------------- */

/* With repair each pass is a write transaction of its own, committed; without, passes 1 to 7 share
 * one read transaction: a snapshot that a daemon at work cannot change. */
static int run_structure(struct checker *c)
{
    static int (*const passes[])(struct checker *) = {
        check_records, check_names,  check_reach,    check_extents,
        check_packs,   check_blocks, check_counters,
    };
    const bool repair = c->options->repair;
    int error = repair ? 0 : index_begin(c->index, INDEX_READ, &c->txn);
    if (error != 0)
        return error;
    for (size_t i = 0; i < sizeof passes / sizeof passes[0] && error == 0; i++) {
        c->progress_done = 0;
        c->modified = false;
        if (repair)
            error = index_begin(c->index, INDEX_WRITE, &c->txn);
        if (error == 0)
            error = passes[i](c);
        if (repair && c->txn != NULL) {
            index_end(c->txn);
            c->txn = NULL;
            if (error == 0)
                error = index_commit(c->index);
        }
    }
    if (c->txn != NULL)
        index_end(c->txn);
    c->txn = NULL;
    return error;
}

int index_check(struct index *index, const struct index_check *options)
{
    struct checker *const c = calloc(1, sizeof *c);
    if (c == NULL)
        return -ENOMEM;
    c->index = index;
    c->options = options;
    int error = options->repair && index_readonly(index) ? -EROFS : run_structure(c);
    if (error == 0 && options->scrub)
        error = check_scrub(c);
    if (error == 0 && c->damage_count > 0)
        error = check_damage(c);
    free(c->inodes);
    free(c->blocks);
    free(c->places);
    free(c->damage);
    free(c->models);
    free(c);
    return error;
}
