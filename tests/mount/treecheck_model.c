/* SPDX-License-Identifier: BSD-2-Clause
 *
 * treecheck_model.c - a small file system in memory: names, links and the order in which Linux looks
 * for errors (fs/namei.c of the kernel decides most of them before a file system is asked).
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "treecheck.h"

#define LINKS_FOLLOWED 40 /* MAXSYMLINKS of the kernel */

#ifndef RENAME_NOREPLACE
#define RENAME_NOREPLACE 1
#endif
#ifndef RENAME_EXCHANGE
#define RENAME_EXCHANGE 2
#endif

static void clear_node(struct tc_node *node, enum tc_kind kind, mode_t mode)
{
    memset(node, 0, sizeof *node);
    node->kind = kind;
    node->mode = mode;
    node->parent = -1;
    for (unsigned i = 0; i < TC_NAMES; i++)
        node->child[i] = -1;
}

void tc_model_init(struct tc_tree *tree)
{
    for (int i = 0; i < TC_NODES; i++) {
        memset(tree->data[i], 0, tree->node[i].size);
        clear_node(&tree->node[i], TC_FREE, 0);
    }
    clear_node(&tree->node[0], TC_DIRECTORY, 0755);
    tree->node[0].names = 1;
}

/* Follows the symlink at *name of DIRECTORY as long as there is one. */
static int follow_links(const struct tc_tree *tree, int directory, unsigned *name, unsigned *hops)
{
    for (;;) {
        const int node = tree->node[directory].child[*name];
        if (node < 0 || tree->node[node].kind != TC_SYMLINK)
            return 0;
        if ((*hops)++ >= LINKS_FOLLOWED)
            return -ELOOP;
        *name = tree->node[node].target;
    }
}

int tc_resolve(const struct tc_tree *tree, const struct tc_path *path, bool follow,
               struct tc_place *place)
{
    unsigned hops = 0;
    *place = (struct tc_place){.parent = -1, .node = 0};
    for (unsigned i = 0; i < path->depth; i++) {
        const bool last = i + 1u == path->depth;
        if (place->node < 0)
            return -ENOENT;
        if (tree->node[place->node].kind != TC_DIRECTORY)
            return -ENOTDIR;
        unsigned name = path->name[i];
        if (!last || follow) {
            const int error = follow_links(tree, place->node, &name, &hops);
            if (error)
                return error;
        }
        *place = (struct tc_place){
            .parent = place->node, .node = tree->node[place->node].child[name], .name = name};
    }
    return 0;
}

bool tc_model_full(const struct tc_tree *tree)
{
    for (int i = 1; i < TC_NODES; i++) {
        if (tree->node[i].kind == TC_FREE)
            return false;
    }
    return true;
}

int tc_model_make(struct tc_tree *tree, const struct tc_place *place, enum tc_kind kind,
                  mode_t mode)
{
    int node = 1;
    while (tree->node[node].kind != TC_FREE)
        node++;
    clear_node(&tree->node[node], kind, mode);
    tree->node[node].names = 1;
    if (kind == TC_DIRECTORY)
        tree->node[node].parent = place->parent;
    tree->node[place->parent].child[place->name] = node;
    tree->node[place->parent].time_known = false;
    return node;
}

void tc_model_resize(struct tc_tree *tree, int number, size_t size)
{
    struct tc_node *node = &tree->node[number];
    if (size < node->size)
        memset(tree->data[number] + size, 0, node->size - size);
    node->size = size;
}

static void release(struct tc_tree *tree, int number)
{
    struct tc_node *node = &tree->node[number];
    if (node->names || node->opens)
        return;
    if (node->kind == TC_FILE)
        tc_model_resize(tree, number, 0);
    node->kind = TC_FREE;
}

static void drop_name(struct tc_tree *tree, int number)
{
    tree->node[number].names--;
    release(tree, number);
}

void tc_model_unlink(struct tc_tree *tree, const struct tc_place *place)
{
    tree->node[place->parent].child[place->name] = -1;
    tree->node[place->parent].time_known = false;
    drop_name(tree, place->node);
}

void tc_model_close(struct tc_tree *tree, int node)
{
    tree->node[node].opens--;
    release(tree, node);
}

unsigned tc_model_subdirectories(const struct tc_tree *tree, int node)
{
    unsigned count = 0;
    for (unsigned i = 0; i < TC_NAMES; i++) {
        const int child = tree->node[node].child[i];
        count += child >= 0 && tree->node[child].kind == TC_DIRECTORY;
    }
    return count;
}

bool tc_model_empty(const struct tc_tree *tree, int node)
{
    for (unsigned i = 0; i < TC_NAMES; i++) {
        if (tree->node[node].child[i] >= 0)
            return false;
    }
    return true;
}

/* ---- rename ------------------------------------------------------------------------------------- */

/* INNER is OUTER or lies below it; both are directories. */
static bool inside(const struct tc_tree *tree, int inner, int outer)
{
    while (inner >= 0 && inner != outer)
        inner = tree->node[inner].parent;
    return inner == outer;
}

static bool is_directory(const struct tc_tree *tree, int node)
{
    return node >= 0 && tree->node[node].kind == TC_DIRECTORY;
}

static int check_rename(const struct tc_tree *tree, const struct tc_place *from,
                        const struct tc_place *to, unsigned flags)
{
    if (from->parent < 0 || to->parent < 0)
        return -EBUSY; /* the top directory itself; callers give no such path */
    if (from->node < 0)
        return -ENOENT;
    if ((flags & RENAME_NOREPLACE) && to->node >= 0)
        return -EEXIST;
    if ((flags & RENAME_EXCHANGE) && to->node < 0)
        return -ENOENT;
    if (is_directory(tree, from->node) && inside(tree, to->parent, from->node))
        return -EINVAL;
    if (is_directory(tree, to->node) && inside(tree, from->parent, to->node))
        return flags & RENAME_EXCHANGE ? -EINVAL : -ENOTEMPTY;
    if (to->node < 0 || to->node == from->node || (flags & RENAME_EXCHANGE))
        return 0;
    if (is_directory(tree, from->node) && !is_directory(tree, to->node))
        return -ENOTDIR;
    if (!is_directory(tree, from->node) && is_directory(tree, to->node))
        return -EISDIR;
    return is_directory(tree, to->node) && !tc_model_empty(tree, to->node) ? -ENOTEMPTY : 0;
}

static void put_name(struct tc_tree *tree, const struct tc_place *place, int node)
{
    tree->node[place->parent].child[place->name] = node;
    tree->node[place->parent].time_known = false;
    if (is_directory(tree, node))
        tree->node[node].parent = place->parent;
}

int tc_model_rename(struct tc_tree *tree, const struct tc_path *from_path,
                    const struct tc_path *to_path, unsigned flags)
{
    struct tc_place from, to;
    int error = tc_resolve(tree, from_path, false, &from);
    const int to_error = tc_resolve(tree, to_path, false, &to);
    error = error ? error : to_error;
    error = error ? error : check_rename(tree, &from, &to, flags);
    if (error || from.node == to.node)
        return error;
    if (flags & RENAME_EXCHANGE) {
        put_name(tree, &from, to.node);
        put_name(tree, &to, from.node);
        return 0;
    }
    tree->node[from.parent].child[from.name] = -1;
    tree->node[from.parent].time_known = false;
    if (to.node >= 0)
        drop_name(tree, to.node);
    put_name(tree, &to, from.node);
    return 0;
}
