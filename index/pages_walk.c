/* SPDX-License-Identifier: BSD-2-Clause
 *
 * pages_walk.c - walks all trees of LMDB's data file. A check ends at the first page that is wrong;
 * a salvage names it and goes on with the rest.
 *
 * What holds in a good file, and is checked: every page is reached once, by one tree or the free
 * list, and lies before the last page; pages bear their numbers and the kind their place calls for;
 * nodes fill the upper part of a page without gap; keys ascend across pages, and lie in the bounds
 * that the branches give; a tree has the depth, pages and entries that its record says; both
 * headers' trees hold the state record of the header's commit. Values are for their seals to hold.
 *
 * Each page of the trees is read once; of overflow runs the first. Memory: a bit a page of the file.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bytes.h"
#include "pages.h"

#define VALUE_MAX (128u << 10) /* bytes; beyond any value that a table holds */

struct bound { /* a key, copied: its page may be gone */
    size_t size;
    bool any;
    uint8_t bytes[INDEX_PAGE_KEY_MAX];
};

enum { TREE_FREE = INDEX_DB_COUNT, TREE_MAIN };

struct walk {
    struct index_pages *pages;
    const struct index_pages_visit *visit; /* NULL: a check */
    const struct index_page_header *header;
    uint8_t *reached; /* a bit a page, up to the last page */
    uint8_t *value;   /* of an overflow run */
    uint64_t value_room;
    struct index_tree table[INDEX_DB_COUNT];
    bool found[INDEX_DB_COUNT];
    /* The tree being walked. */
    unsigned which; /* enum index_db, or one of the two above */
    const struct index_tree *tree;
    struct index_tree count; /* of what was met */
    struct bound last;       /* key of the last record */
    struct bound floor;      /* of the branch above: no record may lie below */
    bool gap;                /* records behind `last` are lost */
};

/* Something is wrong with a page. A check ends; a salvage notes it, and that records are missing. */
static int fault(struct walk *w, uint64_t page, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static int fault(struct walk *w, uint64_t page, const char *format, ...)
{
    char text[128];
    va_list list;
    va_start(list, format);
    vsnprintf(text, sizeof text, format, list);
    va_end(list);
    snprintf(w->pages->problem, sizeof w->pages->problem, "page %ju: %s", (uintmax_t)page, text);
    if (w->visit == NULL) /* that a page cannot be read is not that it is damaged */
        return w->pages->unread != 0 ? w->pages->unread : -EUCLEAN;
    w->visit->damage(w->visit->arg, w->pages->problem);
    w->gap = true;
    return 0;
}

/* Takes COUNT pages for one use; false when one is out of the file, or has another. */
static bool take(struct walk *w, uint64_t page, uint64_t count)
{
    const uint64_t last = w->header->last_page;
    if (page < 2 || page > last || count > last - page + 1)
        return false;
    for (uint64_t i = page; i < page + count; i++) {
        if (w->reached[i / 8] & (1u << (i % 8)))
            return false;
    }
    for (uint64_t i = page; i < page + count; i++)
        w->reached[i / 8] |= (uint8_t)(1u << (i % 8));
    return true;
}

static const char *take_problem(const struct walk *w, uint64_t page)
{
    return page > w->header->last_page ? "lies beyond the last page" : "is used twice";
}

/* ---- keys ---------------------------------------------------------------------------------- */

static int compare(const struct walk *w, const MDB_val *key, const struct bound *bound)
{
    if (w->which == TREE_FREE) {
        if (key->mv_size != 8 || bound->size != 8)
            return -1;
        const uint64_t a = index_load_u64(key->mv_data), b = index_load_u64(bound->bytes);
        return a < b ? -1 : a > b;
    }
    const size_t common = key->mv_size < bound->size ? key->mv_size : bound->size;
    const int order = memcmp(key->mv_data, bound->bytes, common);
    return order != 0 ? order : (key->mv_size > bound->size) - (key->mv_size < bound->size);
}

static void keep(struct bound *bound, const MDB_val *key)
{
    bound->any = true;
    bound->size = key->mv_size;
    memcpy(bound->bytes, key->mv_data, key->mv_size);
}

static bool ascends(const struct walk *w, const MDB_val *key)
{
    return (!w->last.any || compare(w, key, &w->last) > 0) &&
           (!w->floor.any || compare(w, key, &w->floor) >= 0);
}

/* ---- values -------------------------------------------------------------------------------- */

/* The run of pages of a node's value; reads it when READ. False: a fault was noted. */
static int overflow(struct walk *w, struct index_node *node, bool read, bool *good)
{
    struct index_pages *const pages = w->pages;
    const uint64_t number = node->child;
    uint64_t run = 0;
    *good = false;
    const uint8_t *const page = index_page_at(pages, number, INDEX_PAGE_LEVELS);
    if (page == NULL)
        return fault(w, number,
                     number > w->header->last_page ? "lies beyond the last page"
                                                   : "cannot be read");
    const char *const text = index_page_overflow(pages, page, number, node->data_size, &run);
    if (text != NULL)
        return fault(w, number, "%s", text);
    if (w->which != TREE_FREE && run > VALUE_MAX / pages->page_size + 1)
        return fault(w, number, "the length of its run is damaged");
    if (!take(w, number, run))
        return fault(w, number, "%s", take_problem(w, number + run - 1));
    w->count.overflow_pages += run;
    *good = true;
    if (!read)
        return 0;
    if (w->value_room < node->data_size) {
        free(w->value);
        w->value_room = 0;
        w->value = malloc(node->data_size);
        if (w->value == NULL)
            return -ENOMEM;
        w->value_room = node->data_size;
    }
    if (index_io_read(pages->io, pages->fd, w->value, node->data_size,
                      number * pages->page_size + 16) != (ssize_t)node->data_size) {
        *good = false;
        return fault(w, number, "cannot be read");
    }
    node->data = w->value;
    return 0;
}

/* A record of the free list: a count, and page numbers, descending. */
static int free_pages(struct walk *w, uint64_t page, const struct index_node *node)
{
    const uint64_t commit = index_load_u64(node->key.mv_data);
    const uint64_t count = node->data_size >= 8 ? index_load_u64(node->data) : UINT64_MAX;
    if (commit == 0 || commit > w->header->commit)
        return fault(w, page, "the free list names commit %ju", (uintmax_t)commit);
    if (count > node->data_size / 8 - 1)
        return fault(w, page, "the free list of commit %ju is damaged", (uintmax_t)commit);
    uint64_t before = UINT64_MAX;
    for (uint64_t i = 1; i <= count; i++) {
        const uint64_t number = index_load_u64(node->data + 8 * i);
        if (number >= before)
            return fault(w, page, "the free list of commit %ju is out of order", (uintmax_t)commit);
        before = number;
        if (take(w, number, 1))
            continue;
        const int error = fault(w, page, "the free list names page %ju, which %s",
                                (uintmax_t)number, take_problem(w, number));
        if (error != 0)
            return error;
    }
    return 0;
}

/* The record of a tree, in the tree of all tables. */
static int table(struct walk *w, uint64_t page, const struct index_node *node)
{
    for (unsigned db = 0; db < INDEX_DB_COUNT; db++) {
        if (strlen(index_db_names[db]) != node->key.mv_size ||
            memcmp(index_db_names[db], node->key.mv_data, node->key.mv_size) != 0)
            continue;
        if (!node->table || node->data_size != INDEX_TREE_SIZE)
            return fault(w, page, "the record of table %s is damaged", index_db_names[db]);
        index_tree_get(node->data, &w->table[db]);
        w->found[db] = true;
        return 0;
    }
    return fault(w, page, "names a table that does not exist");
}

/* A record of a table, to be taken out. */
static int salvage(struct walk *w, uint64_t page, const struct index_node *node, bool *intact)
{
    const enum index_db db = (enum index_db)w->which;
    MDB_val plain = {.mv_size = node->data_size, .mv_data = (void *)(uintptr_t)node->data};
    const MDB_val value = plain;
    *intact = index_unseal(db, &node->key, &plain);
    if (!*intact)
        return fault(w, page, "a damaged %s record", index_db_names[db]);
    int error = 0;
    if (w->gap) {
        const MDB_val low = {.mv_size = w->last.any ? w->last.size : 0, .mv_data = w->last.bytes};
        error = w->visit->gap(w->visit->arg, db, &low, &node->key);
        w->gap = false;
    }
    return error != 0 ? error : w->visit->record(w->visit->arg, db, &node->key, &value);
}

static int leaf_node(struct walk *w, uint64_t page, struct index_node *node)
{
    const bool wanted = w->which == TREE_FREE || (w->visit != NULL && w->which < TREE_FREE);
    bool good = true;
    int error = 0;
    if (!ascends(w, &node->key))
        return fault(w, page, "keys do not ascend");
    if (w->which == TREE_FREE && node->key.mv_size != 8)
        return fault(w, page, "a key of the free list is damaged");
    if (node->table != (w->which == TREE_MAIN))
        return fault(w, page, "the flags of a node are damaged");
    if (w->which < TREE_FREE && node->data_size > VALUE_MAX)
        return fault(w, page, "a record is larger than any");
    if (node->child != 0)
        error = overflow(w, node, wanted, &good);
    if (error != 0 || !good)
        return error;
    w->count.entries++;
    w->floor.any = false;
    if (w->which == TREE_FREE)
        error = free_pages(w, page, node);
    else if (w->which == TREE_MAIN)
        error = table(w, page, node);
    else if (w->visit != NULL)
        error = salvage(w, page, node, &good);
    if (good)
        keep(&w->last, &node->key);
    return error;
}

/* ---- trees --------------------------------------------------------------------------------- */

static int walk_page(struct walk *w, uint64_t number, unsigned level);

static int branch_node(struct walk *w, uint64_t page, unsigned i, const struct index_node *node,
                       unsigned level)
{
    if (i > 0) {
        if (!ascends(w, &node->key))
            return fault(w, page, "keys do not ascend");
        keep(&w->floor, &node->key);
    }
    return walk_page(w, node->child, level + 1);
}

static int walk_nodes(struct walk *w, const uint8_t *page, uint64_t number,
                      enum index_page_kind kind, unsigned count, unsigned level)
{
    const unsigned upper = index_load_u16(page + 14);
    size_t used = 0;
    int error = 0;
    for (unsigned i = 0; i < count && error == 0; i++) {
        struct index_node node;
        const char *const text = index_page_node(w->pages, page, kind, i, &node);
        if (text != NULL) {
            error = fault(w, number, "%s", text);
            continue;
        }
        used += index_page_node_size(kind, &node);
        error = kind == INDEX_PAGE_LEAF ? leaf_node(w, number, &node)
                                        : branch_node(w, number, i, &node, level);
    }
    if (error == 0 && w->visit == NULL && used != w->pages->page_size - upper)
        return fault(w, number, "its nodes do not fill it");
    return error;
}

static int walk_page(struct walk *w, uint64_t number, unsigned level)
{
    const enum index_page_kind kind =
        level + 1 == w->tree->depth ? INDEX_PAGE_LEAF : INDEX_PAGE_BRANCH;
    unsigned count = 0;
    if (!take(w, number, 1))
        return fault(w, number, "%s", take_problem(w, number));
    const uint8_t *const page = index_page_at(w->pages, number, level);
    if (page == NULL)
        return fault(w, number, "cannot be read");
    const char *const text = index_page_header(w->pages, page, number, kind, &count);
    if (text != NULL)
        return fault(w, number, "%s", text);
    /* LMDB believes that a branch leads at least two ways; its free list may be an exception. */
    if (kind == INDEX_PAGE_BRANCH && count < 2 && w->which != TREE_FREE)
        return fault(w, number, "is a branch with one child");
    w->count.leaf_pages += kind == INDEX_PAGE_LEAF;
    w->count.branch_pages += kind == INDEX_PAGE_BRANCH;
    return walk_nodes(w, page, number, kind, count, level);
}

/* PAGE: where the record of the tree is, for messages. */
static int walk_tree(struct walk *w, unsigned which, const struct index_tree *tree, uint64_t page)
{
    const char *const name = which == TREE_FREE   ? "free list"
                             : which == TREE_MAIN ? "tables"
                                                  : index_db_names[which];
    w->which = which;
    w->tree = tree;
    w->count = (struct index_tree){0};
    w->last.any = w->floor.any = w->gap = false;
    int error = 0;
    if (which < TREE_FREE && (tree->flags != 0 || tree->pad != 0))
        error = fault(w, page, "the flags of the tree of %s are damaged", name);
    else if (tree->depth > INDEX_PAGE_LEVELS || (tree->depth == 0) != (tree->root == UINT64_MAX))
        error = fault(w, page, "the root of the tree of %s is damaged", name);
    else if (tree->depth > 0)
        error = walk_page(w, tree->root, 0);
    if (error != 0)
        return error;
    const struct index_tree *const count = &w->count;
    if (w->visit == NULL &&
        (count->entries != tree->entries || count->branch_pages != tree->branch_pages ||
         count->leaf_pages != tree->leaf_pages || count->overflow_pages != tree->overflow_pages))
        return fault(w, page, "the tree of %s is not what its record says: %ju of %ju entries",
                     name, (uintmax_t)count->entries, (uintmax_t)tree->entries);
    if (w->gap && w->visit != NULL && which < TREE_FREE) {
        const MDB_val low = {.mv_size = w->last.any ? w->last.size : 0, .mv_data = w->last.bytes};
        return w->visit->gap(w->visit->arg, (enum index_db)which, &low, &(MDB_val){0});
    }
    return 0;
}

/* ---- the state record ---------------------------------------------------------------------- */

/* Looks KEY up in a tree of tables or records, without noting the pages. */
static bool look_up(struct index_pages *pages, const struct index_tree *tree, const char *key,
                    struct index_node *node)
{
    uint64_t number = tree->root;
    struct bound wanted = {.size = strlen(key)};
    const struct walk order = {.which = TREE_MAIN};
    memcpy(wanted.bytes, key, wanted.size);
    for (unsigned level = 0; level < tree->depth && level < INDEX_PAGE_LEVELS; level++) {
        const enum index_page_kind kind =
            level + 1 == tree->depth ? INDEX_PAGE_LEAF : INDEX_PAGE_BRANCH;
        const uint8_t *const page = index_page_at(pages, number, level);
        unsigned count = 0;
        if (page == NULL || index_page_header(pages, page, number, kind, &count) != NULL)
            return false;
        for (unsigned i = 0; i < count; i++) {
            struct index_node at;
            if (index_page_node(pages, page, kind, i, &at) != NULL)
                return false;
            const int side =
                i == 0 && kind == INDEX_PAGE_BRANCH ? -1 : compare(&order, &at.key, &wanted);
            if (kind == INDEX_PAGE_LEAF && side == 0) {
                *node = at;
                return at.child == 0;
            }
            if (kind == INDEX_PAGE_BRANCH && side <= 0)
                number = at.child;
        }
    }
    return false;
}

/* The commit that the state record under a header names; 0 when there is none that is intact. */
static uint64_t state_commit(struct index_pages *pages, const struct index_page_header *header)
{
    struct index_node node;
    struct index_tree meta;
    struct index_state state;
    if (!header->sane || header->commit == 0 ||
        !look_up(pages, &header->main, index_db_names[INDEX_DB_META], &node) || !node.table ||
        node.data_size != INDEX_TREE_SIZE)
        return 0;
    index_tree_get(node.data, &meta);
    if (!look_up(pages, &meta, "state", &node))
        return 0;
    MDB_val value = {.mv_size = node.data_size, .mv_data = (void *)(uintptr_t)node.data};
    if (!index_unseal(INDEX_DB_META, &node.key, &value) ||
        index_record_get_state(&value, &state) != 0)
        return 0;
    return state.commit;
}

/* ---- both walks ---------------------------------------------------------------------------- */

static int walk_all(struct walk *w, uint64_t number)
{
    const struct index_page_header *const header = w->header;
    w->reached = calloc(1, (size_t)(header->last_page / 8 + 1));
    if (w->reached == NULL)
        return -ENOMEM;
    /* The free list first: a tree that leads to one of its pages has lost its way. */
    int error = walk_tree(w, TREE_FREE, &header->free, number);
    if (error == 0)
        error = walk_tree(w, TREE_MAIN, &header->main, number);
    for (unsigned db = 0; db < INDEX_DB_COUNT && error == 0; db++) {
        if (w->found[db]) {
            error = walk_tree(w, db, &w->table[db], number);
        } else {
            error = fault(w, number, "table %s is missing", index_db_names[db]);
            if (error == 0)
                error =
                    w->visit->gap(w->visit->arg, (enum index_db)db, &(MDB_val){0}, &(MDB_val){0});
        }
    }
    free(w->reached);
    free(w->value);
    return error;
}

int index_pages_check(struct index_pages *pages, uint64_t commit)
{
    const struct index_page_header *const header = pages->header;
    const unsigned later = header[1].commit > header[0].commit;
    unsigned number = later;
    if (commit != 0 && header[later].commit != commit)
        number = !later;
    if (!header[number].sane || (commit != 0 && header[number].commit != commit))
        return -ESTALE;
    struct walk *const w = calloc(1, sizeof *w);
    if (w == NULL)
        return -ENOMEM;
    *w = (struct walk){.pages = pages, .header = &header[number]};
    int error = walk_all(w, number);
    /* A header whose commit is damaged makes the commit before the last one look like the last. */
    for (unsigned i = 0; i < 2 && error == 0; i++) {
        const uint64_t named = state_commit(pages, &header[i]);
        if (named != 0 && named != header[i].commit)
            error = fault(w, i, "is the header of commit %ju, but leads to commit %ju",
                          (uintmax_t)header[i].commit, (uintmax_t)named);
    }
    free(w);
    return error;
}

int index_pages_salvage(struct index_pages *pages, const struct index_pages_visit *visit,
                        bool *later)
{
    const struct index_page_header *const header = pages->header;
    unsigned best = header[1].sane && (!header[0].sane || header[1].commit > header[0].commit);
    /* One whose state record bears it out is the better one, whatever the numbers say. */
    for (unsigned i = 0; i < 2; i++) {
        const uint64_t own = state_commit(pages, &header[i]);
        const uint64_t other = state_commit(pages, &header[!i]);
        if (own != 0 && own == header[i].commit && (other != header[!i].commit || other < own))
            best = i;
    }
    if (!header[best].sane || header[best].commit == 0)
        return -EUCLEAN;
    *later = !header[!best].sane || header[!best].commit + 1 != header[best].commit;
    struct walk *const w = calloc(1, sizeof *w);
    if (w == NULL)
        return -ENOMEM;
    *w = (struct walk){.pages = pages, .visit = visit, .header = &header[best]};
    const int error = walk_all(w, best);
    free(w);
    return error;
}
