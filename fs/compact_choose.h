/* SPDX-License-Identifier: BSD-2-Clause
 *
 * compact_choose.h - which blocks a pass wants, and in which form; shared by compact_choose.c, which
 * decides, and compact_plan.c, which walks.
 */
#ifndef FS_COMPACT_CHOOSE_H
#define FS_COMPACT_CHOOSE_H

#include "compact.h"

/* One step of a plan: what one transaction looks at. */
struct compact_step {
    struct compact_plan *plan;
    struct index_txn *txn;
    struct compact_item *items;
    unsigned count;
    unsigned visits;
    uint64_t settled[COMPACT_CHUNK]; /* blocks to take off the hot list */
    unsigned settled_count;
};

/* Loads plan->file. 0 also when there is no such inode: then it is no regular file. */
int compact_load_file(struct compact_plan *plan, struct index_txn *txn, uint64_t ino);
/* The method wanted for plan->file. False: it is to be left as it is. */
bool compact_method(const struct compact_plan *plan, struct sep_method *method);
/* Old enough? If not, notes when it will be. stored_at: of the block, seconds since the epoch. */
bool compact_cold(struct compact_plan *plan, int64_t stored_at);
/* Decides what to do with an extent of plan->file; adds an item or nothing. */
void compact_consider(struct compact_step *step, const struct index_extent *extent,
                      const struct index_block *block, struct sep_method method);

#endif
