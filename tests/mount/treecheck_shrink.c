/* SPDX-License-Identifier: BSD-2-Clause
 *
 * treecheck_shrink.c - a failing list of operations made short: delta debugging (ddmin of Zeller and
 * Hildebrandt) over the list, then simpler numbers in what is left. Each trial runs in a directory
 * of its own; any failure counts, as the one that is left is usually the one that was found.
 */
#include <string.h>

#include "treecheck.h"

struct search {
    const struct tc_plan *plan;
    struct tc_board *board;
    struct tc_trace *best, *trial;
    double end;
    unsigned trials;
};

/* Whether the trial fails; it is the best list then. */
static bool try_trial(struct search *search)
{
    search->trials++;
    if (tc_replay(search->plan, search->board, search->trial, true) != 1)
        return false;
    memcpy(search->best->op, search->trial->op, search->trial->count * sizeof(struct tc_op));
    search->best->count = search->trial->count;
    return true;
}

/* The best list without [from, to). */
static bool try_without(struct search *search, uint32_t from, uint32_t to)
{
    const struct tc_trace *best = search->best;
    struct tc_trace *trial = search->trial;
    memcpy(trial->op, best->op, from * sizeof(struct tc_op));
    memcpy(trial->op + from, best->op + to, (best->count - to) * sizeof(struct tc_op));
    trial->count = best->count - (to - from);
    return try_trial(search);
}

/* Leaves out parts of ever smaller size, beginning at the end, until no single one can go. */
static void drop_parts(struct search *search)
{
    for (uint32_t part = search->best->count / 2; part && tc_now() < search->end;) {
        bool less = false;
        for (uint32_t to = search->best->count; to && tc_now() < search->end;) {
            const uint32_t from = to > part ? to - part : 0;
            less = try_without(search, from, to) || less;
            to = from;
        }
        if (part == 1 && !less)
            break;
        part = part > 1 ? part / 2 : 1;
    }
}

static bool try_op(struct search *search, uint32_t at, const struct tc_op *op)
{
    if (memcmp(&search->best->op[at], op, sizeof *op) == 0)
        return false;
    memcpy(search->trial->op, search->best->op, search->best->count * sizeof *op);
    search->trial->count = search->best->count;
    search->trial->op[at] = *op;
    return try_trial(search);
}

/* Zero, else half, of each number, as often as it still fails. */
static void simplify(struct search *search, uint32_t at)
{
    for (unsigned field = 0; field < 4; field++) {
        for (unsigned step = 0; step < 24 && tc_now() < search->end; step++) {
            struct tc_op op = search->best->op[at];
            uint32_t *value[] = {&op.offset, &op.length, &op.seed, &op.flags};
            *value[field] = step == 0 ? 0 : *value[field] / 2;
            if (!try_op(search, at, &op) && step > 0)
                break;
        }
    }
}

static void cut_front(struct tc_path *path, uint8_t name)
{
    if (path->depth < 2 || path->name[0] != name)
        return;
    path->depth--;
    memmove(path->name, path->name + 1, path->depth);
    path->name[path->depth] = 0;
}

/* All that happens in a directory of the top, in the top itself. */
static void flatten(struct search *search)
{
    for (uint8_t name = 0; name < TC_NAMES && tc_now() < search->end; name++) {
        struct tc_trace *trial = search->trial;
        trial->count = search->best->count;
        memcpy(trial->op, search->best->op, trial->count * sizeof *trial->op);
        for (uint32_t i = 0; i < trial->count; i++) {
            cut_front(&trial->op[i].path, name);
            cut_front(&trial->op[i].path2, name);
        }
        if (memcmp(trial->op, search->best->op, trial->count * sizeof *trial->op) != 0)
            try_trial(search);
    }
}

unsigned tc_shrink(const struct tc_plan *plan, struct tc_board *board, struct tc_trace *trace,
                   double seconds)
{
    struct search search = {.plan = plan,
                            .board = board,
                            .best = trace,
                            .trial = tc_trace_new(trace->size),
                            .end = tc_now() + seconds};
    if (!search.trial)
        return 0;
    drop_parts(&search);
    for (unsigned i = 0; i < TC_DEPTH; i++)
        flatten(&search);
    drop_parts(&search);
    for (uint32_t i = 0; i < trace->count; i++)
        simplify(&search, i);
    drop_parts(&search);
    return search.trials;
}
