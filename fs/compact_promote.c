/* SPDX-License-Identifier: BSD-2-Clause
 *
 * compact_promote.c - cold blocks that are decoded again and again go back to the hot codec
 * (promote.h counts). They enter the hot list anew, as if written now, and get cold again when they
 * are left alone. Files that are to be cold at once (cold=now) stay cold.
 */
#include <errno.h>

#include "compact.h"
#include "promote.h"

#define EXTENTS_MAX 1024u /* looked at in one transaction */

/* Looks through the file for an extent that refers to the block. 1: *item is set, 0: none does. */
static int find_extent(struct compact_pass *pass, uint64_t block, struct compact_item *item)
{
    uint64_t number = 0;
    int result = 0;

    while (result == 0) {
        struct index_txn *txn = NULL;

        if (*compact_stop_flag(pass))
            return -ECANCELED;
        result = index_begin(pass->fs->index, INDEX_READ, &txn);
        for (unsigned i = 0; result == 0 && i < EXTENTS_MAX; i++) {
            result = index_extent_next(txn, item->ino, number, &item->extent);
            number = item->extent.number + 1;
            if (result == 0 && item->extent.block == block)
                result = 1;
        }
        if (txn != NULL)
            index_end(txn);
    }
    return result == -ENOENT ? 0 : result;
}

static int promote(struct compact_pass *pass, uint64_t block, uint64_t ino)
{
    struct compact_item item = {.ino = ino};
    struct index_pending pending;
    struct fs_policy policy;
    bool tried = false;
    struct index_txn *txn;
    int result = find_extent(pass, block, &item);

    if (result <= 0)
        return result;
    result = index_begin(pass->fs->index, INDEX_READ, &txn);
    if (result != 0)
        return result;
    result = fs_policy_get(pass->fs, txn, ino, &policy);
    if (result == 0 && index_pending_get(txn, block, &pending) == 0)
        tried = pending.codec == policy.hot.codec && pending.level == policy.hot.level;
    index_end(txn);
    if (result != 0 || policy.cold_now || tried)
        return result;
    item.method = policy.hot;
    return compact_feed(pass, &item);
}

int compact_promote(struct compact_pass *pass)
{
    unsigned slot = 0;
    uint64_t block;
    uint64_t ino;
    int error = 0;

    while (error == 0 && fs_promote_take(pass->fs, &slot, &block, &ino))
        error = compact_gate(pass) ? promote(pass, block, ino) : -ECANCELED;
    return error;
}
