/* SPDX-License-Identifier: BSD-2-Clause
 *
 * treecheck_generate.c - what to do next. Random paths would mostly be missing, so most are chosen
 * among those that the model has; most ranges touch an edge of a page, of a block or of the file.
 */
#include "treecheck.h"

uint64_t tc_random(struct tc_worker *worker) /* splitmix64, Steele et al., OOPSLA 2014 */
{
    uint64_t x = worker->random += UINT64_C(0x9e3779b97f4a7c15);
    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    return x ^ (x >> 31);
}

size_t tc_below(struct tc_worker *worker, size_t below)
{
    return (size_t)(tc_random(worker) % below);
}

static bool chance(struct tc_worker *worker, unsigned percent)
{
    return tc_below(worker, 100) < percent;
}

/* ---- paths -------------------------------------------------------------------------------------- */

/* One of the paths to nodes of KIND (TC_FREE: any), each with the same chance, by reservoir
 * sampling; *count is how many were met so far. */
static void sample(struct tc_worker *worker, const struct tc_tree *tree, int node,
                   struct tc_path *here, enum tc_kind kind, unsigned *count, struct tc_path *chosen)
{
    if (here->depth && (kind == TC_FREE || tree->node[node].kind == kind) &&
        tc_below(worker, ++*count) == 0)
        *chosen = *here;
    if (tree->node[node].kind != TC_DIRECTORY || here->depth == TC_DEPTH)
        return;
    for (uint8_t i = 0; i < TC_NAMES; i++) {
        if (tree->node[node].child[i] < 0)
            continue;
        here->name[here->depth++] = i;
        sample(worker, tree, tree->node[node].child[i], here, kind, count, chosen);
        here->depth--;
    }
}

static struct tc_path existing(struct tc_worker *worker, const struct tc_tree *tree,
                               enum tc_kind kind)
{
    struct tc_path here = {0}, chosen = {0};
    unsigned count = 0;
    sample(worker, tree, 0, &here, kind, &count, &chosen);
    return chosen;
}

/* A name, mostly a free one, in a directory that is there. */
static struct tc_path beside(struct tc_worker *worker, const struct tc_tree *tree)
{
    struct tc_path path = {0};
    if (chance(worker, 65))
        path = existing(worker, tree, TC_DIRECTORY);
    if (path.depth == TC_DEPTH)
        path.depth--;
    path.name[path.depth++] = (uint8_t)tc_below(worker, TC_NAMES);
    return path;
}

static struct tc_path any_path(struct tc_worker *worker, const struct tc_tree *tree)
{
    static const enum tc_kind kinds[] = {TC_FREE, TC_FREE,      TC_FILE,
                                         TC_FILE, TC_DIRECTORY, TC_SYMLINK};
    struct tc_path path = {0};
    if (chance(worker, 75))
        path = existing(worker, tree, kinds[tc_below(worker, 6)]);
    return path.depth ? path : beside(worker, tree);
}

/* ---- ranges ------------------------------------------------------------------------------------- */

static uint32_t choose_offset(struct tc_worker *worker, size_t size)
{
    static const size_t units[] = {4096, 16384, 131072, 131072};
    const size_t kind = tc_below(worker, 10);
    if (kind < 3) /* at the end, or a little before or behind it */
        return (uint32_t)(size + tc_below(worker, kind ? 5 : 70000)) - (size >= 2 && kind ? 2 : 0);
    size_t offset = tc_below(worker, kind < 6 && size ? size : TC_LIMIT);
    if (kind % 2) {
        const size_t unit = units[tc_below(worker, 4)];
        offset = offset / unit * unit + tc_below(worker, 5);
        offset = offset >= 2 ? offset - 2 : 0;
    }
    return (uint32_t)offset;
}

static uint32_t choose_length(struct tc_worker *worker)
{
    static const size_t scales[] = {16, 600, 5000, 5000, 20000, 70000, 140000, 300000};
    return (uint32_t)tc_below(worker, 1 + scales[tc_below(worker, 8)]);
}

/* ---- an operation ------------------------------------------------------------------------------- */

static unsigned choose_kind(struct tc_worker *worker)
{
    unsigned total = 0, kind = 0;
    for (unsigned i = 0; i < tc_kind_count; i++)
        total += tc_kinds[i].weight;
    for (size_t at = tc_below(worker, total); at >= tc_kinds[kind].weight; kind++)
        at -= tc_kinds[kind].weight;
    return kind;
}

/* The second path of a rename is a name that is there as often as not. */
static void choose_paths(struct tc_worker *worker, const struct tc_tree *tree, struct tc_op *op)
{
    op->path = any_path(worker, tree);
    op->path2 = chance(worker, 45) ? any_path(worker, tree) : beside(worker, tree);
}

void tc_generate(struct tc_worker *worker, struct tc_op *op)
{
    const struct tc_tree *tree =
        op->common ? &worker->board->common : &worker->board->own[worker->number];
    op->kind = (uint8_t)choose_kind(worker);
    op->slot = (uint8_t)tc_below(worker, 2);
    op->slot2 = (uint8_t)tc_below(worker, 2);
    const struct tc_slot *slot = &worker->slot[(op->common ? 2 : 0) + op->slot];
    const size_t size = slot->fd >= 0 ? tree->node[slot->node].size : 100000;
    op->seed = (uint32_t)tc_random(worker);
    op->flags = (uint32_t)tc_random(worker);
    op->length = choose_length(worker);
    op->offset = choose_offset(worker, size);
    op->path = op->path2 = (struct tc_path){0};
    switch (tc_kinds[op->kind].wants) {
    case TC_ANY:
        op->path = any_path(worker, tree);
        break;
    case TC_PLACE:
        op->path = chance(worker, 80) ? beside(worker, tree) : any_path(worker, tree);
        break;
    case TC_PATH_PAIR: /* rename: no flags, NOREPLACE or EXCHANGE */
        op->flags = chance(worker, 50) ? 0 : 1 + op->flags % 2;
        choose_paths(worker, tree, op);
        break;
    default:
        break;
    }
}
