/* SPDX-License-Identifier: BSD-2-Clause
 *
 * stats_tree.c - measures a file, or a directory with everything below it, through the index alone,
 * in short transactions as stats_collect.c does; what disappears meanwhile is passed over.
 *
 * Memory: a stack of the directories from the top, and the inode numbers of the files with several
 * names.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "stats.h"

enum { BATCH = 1024, DEPTH_MAX = 4096 };

static uint64_t sub(uint64_t from, uint64_t less)
{
    return from > less ? from - less : 0;
}

static uint64_t min(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

struct frame { /* a directory being walked */
    uint64_t ino;
    uint64_t cookie;  /* next entry */
    size_t path_size; /* of this directory in walk.path */
    struct stats_tree tree;
};

struct walk {
    struct index *index;
    const volatile bool *stop;
    struct frame *frames;
    size_t depth;
    char *path;
    size_t path_size, path_room;
    uint64_t *links; /* inode numbers with several names, open addressing, 0 = free */
    size_t link_count, link_room;
};

static void tree_add(struct stats_tree *to, const struct stats_tree *from)
{
    to->files += from->files;
    to->directories += from->directories;
    to->symlinks += from->symlinks;
    to->others += from->others;
    to->logical += from->logical;
    to->mapped += from->mapped;
    to->inline_bytes += from->inline_bytes;
    to->holes += from->holes;
    to->stored += from->stored;
    for (unsigned i = 0; i < STATS_CODECS; i++) {
        to->codecs[i].plain += from->codecs[i].plain;
        to->codecs[i].stored += from->codecs[i].stored;
    }
}

/* All extents of a file, a batch a transaction. */
static int measure_extents(struct walk *walk, uint64_t ino, uint64_t size, struct stats_tree *tree)
{
    const uint64_t block_size = index_block_size(walk->index);
    int result = 0;
    for (uint64_t from = 0; result == 0;) {
        struct index_txn *txn;
        result = *walk->stop ? -ECANCELED : index_begin(walk->index, INDEX_READ, &txn);
        if (result != 0)
            break;
        for (unsigned i = 0; i < BATCH && result == 0; i++) {
            struct index_extent extent;
            struct index_block block;
            result = index_extent_next(txn, ino, from, &extent);
            if (result != 0)
                break;
            from = extent.number + 1;
            const uint64_t start =
                extent.number > UINT64_MAX / block_size ? UINT64_MAX : extent.number * block_size;
            const uint64_t covered = min(extent.length, sub(size, start));
            result = index_block_get(txn, extent.block, &block);
            if (result == -ENOENT) { /* damaged; sepfs-fsck names it */
                result = 0;
                continue;
            }
            const uint64_t stored = result == 0 ? index_extent_stored(&block, &extent) : 0;
            const unsigned codec = block.codec < STATS_CODECS - 1 ? block.codec : STATS_CODECS - 1;
            tree->mapped += covered;
            tree->stored += stored;
            tree->codecs[codec].plain += covered;
            tree->codecs[codec].stored += stored;
        }
        index_end(txn);
    }
    return result == -ENOENT ? 0 : result;
}

/* Record of INO without what points into the map. */
static int load(struct walk *walk, uint64_t ino, struct index_inode *inode)
{
    struct index_txn *txn;
    int result = index_begin(walk->index, INDEX_READ, &txn);
    if (result != 0)
        return result;
    result = index_inode_get(txn, ino, inode);
    inode->inline_data = NULL;
    index_end(txn);
    return result;
}

/* Everything of an inode but its children. */
static int measure(struct walk *walk, const struct index_inode *inode, struct stats_tree *tree)
{
    *tree = (struct stats_tree){0};
    stats_count_type(inode->mode, &tree->files, &tree->directories, &tree->symlinks, &tree->others);
    if (!S_ISREG(inode->mode))
        return 0;
    tree->logical = inode->size;
    tree->inline_bytes = inode->flags & INDEX_INODE_INLINE ? inode->inline_size : 0;
    tree->stored = tree->inline_bytes;
    const int result = measure_extents(walk, inode->ino, inode->size, tree);
    tree->holes = sub(tree->logical, tree->mapped + tree->inline_bytes);
    return result;
}

/* Whether a file with several names was met before; remembers it. 1, 0 or -ENOMEM. */
static int link_seen(struct walk *walk, uint64_t ino)
{
    if (walk->link_count * 2 >= walk->link_room) {
        const size_t room = walk->link_room == 0 ? 1024 : walk->link_room * 2;
        uint64_t *const links = calloc(room, sizeof *links);
        if (links == NULL)
            return -ENOMEM;
        for (size_t i = 0; i < walk->link_room; i++) {
            size_t at = walk->links[i] * UINT64_C(0x9e3779b97f4a7c15) & (room - 1);
            while (walk->links[i] != 0 && links[at] != 0)
                at = (at + 1) & (room - 1);
            if (walk->links[i] != 0)
                links[at] = walk->links[i];
        }
        free(walk->links);
        walk->links = links;
        walk->link_room = room;
    }
    size_t at = ino * UINT64_C(0x9e3779b97f4a7c15) & (walk->link_room - 1);
    for (; walk->links[at] != 0; at = (at + 1) & (walk->link_room - 1)) {
        if (walk->links[at] == ino)
            return 1;
    }
    walk->links[at] = ino;
    walk->link_count++;
    return 0;
}

/* Sets the path to its first SIZE bytes, then "/NAME" (NULL: nothing). */
static int path_set(struct walk *walk, size_t size, const char *name)
{
    const size_t more = name == NULL ? 0 : strlen(name) + 1;
    if (size + more + 1 > walk->path_room) {
        const size_t room = (size + more + 1) * 2;
        char *const path = realloc(walk->path, room);
        if (path == NULL)
            return -ENOMEM;
        walk->path = path;
        walk->path_room = room;
    }
    walk->path_size = size;
    if (name != NULL) {
        if (size == 0 || walk->path[size - 1] != '/')
            walk->path[walk->path_size++] = '/';
        memcpy(walk->path + walk->path_size, name, more - 1);
        walk->path_size += more - 1;
    }
    walk->path[walk->path_size] = '\0';
    return 0;
}

static int push(struct walk *walk, uint64_t ino, const struct stats_tree *tree)
{
    if (walk->depth == DEPTH_MAX)
        return -ELOOP; /* only a damaged store: PATH_MAX ends real trees near 2,048 */
    struct frame *const frames = reallocarray(walk->frames, walk->depth + 1, sizeof *frames);
    if (frames == NULL)
        return -ENOMEM;
    walk->frames = frames;
    frames[walk->depth++] = (struct frame){ino, 0, walk->path_size, *tree};
    return 0;
}

/* Next entry of the innermost directory with its inode; -ENOENT at its end. An entry whose inode is
 * gone has nlink 0. */
static int next_entry(struct walk *walk, struct index_dirent *entry, struct index_inode *inode)
{
    struct frame *const frame = &walk->frames[walk->depth - 1];
    struct index_txn *txn;
    int result = *walk->stop ? -ECANCELED : index_begin(walk->index, INDEX_READ, &txn);
    if (result != 0)
        return result;
    result = index_dirent_next(txn, frame->ino, frame->cookie, entry);
    if (result == 0) {
        frame->cookie = entry->cookie + 1;
        result = index_inode_get(txn, entry->ino, inode);
        if (result == -ENOENT) {
            *inode = (struct index_inode){0};
            result = 0;
        }
    }
    index_end(txn);
    return result;
}

/* Enters a directory, or measures anything else into the innermost frame. */
static int visit(struct walk *walk, const struct index_dirent *entry,
                 const struct index_inode *inode, stats_row_fn row, void *arg)
{
    struct frame *const frame = &walk->frames[walk->depth - 1];
    struct stats_tree tree;
    int result = path_set(walk, frame->path_size, entry->name);
    if (result == 0 && !S_ISDIR(inode->mode) && inode->nlink > 1) {
        result = link_seen(walk, inode->ino);
        if (result == 1)
            return 0;
    }
    if (result == 0)
        result = measure(walk, inode, &tree);
    if (result == 0 && S_ISDIR(inode->mode))
        return push(walk, inode->ino, &tree);
    if (result == 0) {
        tree_add(&frame->tree, &tree);
        if (row != NULL)
            row(arg, walk->path, &tree);
    }
    return result;
}

static int walk_below(struct walk *walk, stats_row_fn row, void *arg, struct stats_tree *total)
{
    while (walk->depth > 0) {
        struct index_dirent entry;
        struct index_inode inode;
        int result = next_entry(walk, &entry, &inode);
        if (result == 0 && inode.nlink > 0)
            result = visit(walk, &entry, &inode, row, arg);
        if (result == -ENOENT) {
            const struct frame done = walk->frames[--walk->depth];
            result = path_set(walk, done.path_size, NULL);
            if (walk->depth == 0) {
                *total = done.tree;
            } else {
                tree_add(&walk->frames[walk->depth - 1].tree, &done.tree);
                if (row != NULL)
                    row(arg, walk->path, &done.tree);
            }
        }
        if (result != 0)
            return result;
    }
    return 0;
}

int stats_collect_tree(struct index *index, uint64_t ino, const char *path,
                       const volatile bool *stop, stats_row_fn row, void *arg,
                       struct stats_tree *tree)
{
    struct walk walk = {.index = index, .stop = stop, .path = strdup(path)};
    struct index_inode inode;
    int result = walk.path == NULL ? -ENOMEM : load(&walk, ino, &inode);
    if (result == 0) {
        walk.path_size = strlen(path);
        walk.path_room = walk.path_size + 1;
        result = measure(&walk, &inode, tree);
    }
    if (result == 0 && S_ISDIR(inode.mode)) {
        result = push(&walk, ino, tree);
        if (result == 0)
            result = walk_below(&walk, row, arg, tree);
    }
    free(walk.frames);
    free(walk.path);
    free(walk.links);
    return result;
}
