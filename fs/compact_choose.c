/* SPDX-License-Identifier: BSD-2-Clause
 *
 * compact_choose.c - the rules by which a block is chosen.
 *
 * Not chosen: files whose policy is cold=never (unless the request names just their hot method),
 * blocks marked incompressible, blocks in the pending list for the same method, blocks written or
 * read too recently. A block in a shared one that is mostly alive is recoded where it is; small
 * extents of other blocks become pieces, to be laid together, when a cold method is wanted.
 */
#include <errno.h>
#include <limits.h>
#include <sys/stat.h>
#include <time.h>

#include "compact_choose.h"
#include "inode.h"

/* An incompressible block larger than this is left alone; a smaller one still saves its record. */
#define INCOMPRESSIBLE_MAX 4096u
/* zstd above this level is archival. */
#define FAST_ZSTD_LEVEL 9u

uint32_t compact_piece_max(const struct fs *fs)
{
    return fs->block_size / 2;
}

enum index_class compact_class(struct sep_method method)
{
    if (method.codec == SEP_CODEC_LZ4)
        return INDEX_HOT;
    if (method.codec == SEP_CODEC_ZSTD && method.level <= FAST_ZSTD_LEVEL)
        return INDEX_HOT;
    return INDEX_COLD;
}

bool compact_wants(const struct index_block *block, struct sep_method method, bool has_method)
{
    if ((block->flags & INDEX_BLOCK_INCOMPRESSIBLE) && block->plain_size > INCOMPRESSIBLE_MAX)
        return false;
    if (block->codec != method.codec)
        return true;
    return has_method ? block->level != method.level : block->level < method.level;
}

/* ---- the file at hand ---------------------------------------------------------------------- */

static int64_t later(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

int compact_load_file(struct compact_plan *plan, struct index_txn *txn, uint64_t ino)
{
    struct compact_file *file = &plan->file;
    struct index_inode attr;
    struct fs_inode *resident;
    int error;

    if (file->ino == ino)
        return 0;
    *file = (struct compact_file){.ino = ino};
    error = index_inode_get(txn, ino, &attr);
    if (error == -ENOENT)
        return 0;
    if (error != 0 || !S_ISREG(attr.mode))
        return error;
    file->regular = true;
    file->parent = attr.parent;
    file->read_at = attr.atime.tv_sec;
    file->written_at = attr.mtime.tv_sec;
    error = fs_policy_get(plan->fs, txn, ino, &file->policy);
    resident = fs_inode_peek(plan->fs, ino);
    if (resident != NULL) {
        file->read_at = later(file->read_at, atomic_load(&resident->last_read));
        fs_inode_drop(plan->fs, resident);
    }
    return error;
}

bool compact_method(const struct compact_plan *plan, struct sep_method *method)
{
    const struct fs_policy *policy = &plan->file.policy;
    const struct fs_compact_request *request = plan->request;

    *method = request->has_method ? request->method : policy->cold;
    if (policy->cold_never)
        return request->has_method && method->codec == policy->hot.codec &&
               method->level == policy->hot.level;
    if (method->codec == SEP_CODEC_RAW && !request->has_method) {
        /* cold=off: only a request for all asks for more. */
        *method = (struct sep_method){.codec = SEP_CODEC_SEP};
        (void)sep_method_parse("sep", method);
        return request->all;
    }
    return true;
}

bool compact_cold(struct compact_plan *plan, int64_t stored_at)
{
    const int64_t left_alone = later(stored_at, plan->file.read_at);

    if (plan->request->all || plan->file.policy.cold_now)
        return true;
    /* Who asks for a fast codec wants it for what is in use, too. */
    if (plan->request->has_method && plan->request->older_than == 0 &&
        compact_class(plan->request->method) == INDEX_HOT)
        return true;
    /* A clock that was set back must not keep a block hot for years. */
    if (left_alone > plan->now + plan->age)
        return true;
    if (plan->now - left_alone >= (int64_t)plan->age)
        return true;
    if (left_alone + (int64_t)plan->age < plan->due)
        plan->due = left_alone + (int64_t)plan->age;
    return false;
}

/* ---- one extent ---------------------------------------------------------------------------- */

static bool tried_before(struct index_txn *txn, uint64_t block, struct sep_method method)
{
    struct index_pending pending;

    return index_pending_get(txn, block, &pending) == 0 && pending.codec == method.codec &&
           pending.level == method.level;
}

static uint32_t share(const struct index_block *block, uint32_t length)
{
    const uint64_t record = (uint64_t)block->at.payload_size + INDEX_RECORD_HEADER;

    return block->plain_size > length ? (uint32_t)(record * length / block->plain_size)
                                      : (uint32_t)record;
}

void compact_consider(struct compact_step *step, const struct index_extent *extent,
                      const struct index_block *block, struct sep_method method)
{
    const struct compact_plan *plan = step->plan;
    const bool cold_form = compact_class(method) == INDEX_COLD;
    const bool wants = compact_wants(block, method, plan->request->has_method);
    const uint32_t piece_max = compact_piece_max(plan->fs);
    struct compact_item item = {.ino = plan->file.ino,
                                .parent = plan->file.parent,
                                .extent = *extent,
                                .plain_size = block->plain_size,
                                .stored = share(block, extent->length),
                                .references = block->references,
                                .method = method};

    /* Malformed: reads and fsck report it. */
    if (extent->offset > block->plain_size || extent->length > block->plain_size - extent->offset ||
        block->plain_size > plan->fs->block_size)
        return;
    if (block->flags & INDEX_BLOCK_SHARED) {
        item.shared = cold_form && (plan->request->all || plan->kind == COMPACT_REPACK) &&
                      block->live < block->plain_size / 2;
        item.piece = item.shared;
        if (!item.piece && (!wants || plan->kind == COMPACT_REPACK))
            return;
    } else if (plan->kind != COMPACT_REPACK && cold_form && extent->length <= piece_max &&
               (block->plain_size <= piece_max || block->references == 1)) {
        item.piece = true;
        item.settled = !wants && block->plain_size <= piece_max;
        if (item.settled && (!plan->request->all || plan->source == COMPACT_HOT_LIST ||
                             block->codec != method.codec))
            return;
        if (!wants && !item.settled && !plan->request->all)
            return;
    } else if (plan->kind == COMPACT_REPACK || !wants) {
        return;
    }
    if (!tried_before(step->txn, extent->block, method))
        step->items[step->count++] = item;
}
