/* SPDX-License-Identifier: BSD-2-Clause
 *
 * promote.c - the count of decodes behind the mount option promote. See promote.h; what becomes of a
 * block that is taken out is compact_promote.c.
 */
#include "promote.h"

#include <time.h>

#include "core.h"

void fs_promote_read(struct fs *fs, const struct index_block *block, uint64_t ino)
{
    const uint64_t hash = (block->id * UINT64_C(0x9E3779B97F4A7C15)) >> 32;
    struct fs_promote_slot *slot = &fs->promote.slots[hash % FS_PROMOTE_SLOTS];
    const int64_t now = (int64_t)time(NULL);

    /* Other codecs decode at memory speed: nothing would be won. */
    if (!fs->options.promote || block->codec != SEP_CODEC_SEP)
        return;
    if (atomic_load(&slot->block) == block->id &&
        now - atomic_load(&slot->since) <= FS_PROMOTE_WINDOW) {
        atomic_fetch_add(&slot->reads, 1);
        return;
    }
    atomic_store(&slot->reads, 1);
    atomic_store(&slot->since, now);
    atomic_store(&slot->ino, ino);
    atomic_store(&slot->block, block->id);
}

bool fs_promote_ready(struct fs *fs)
{
    for (unsigned i = 0; i < FS_PROMOTE_SLOTS; i++) {
        if (atomic_load(&fs->promote.slots[i].reads) >= FS_PROMOTE_READS)
            return true;
    }
    return false;
}

bool fs_promote_take(struct fs *fs, unsigned *slot, uint64_t *block, uint64_t *ino)
{
    for (; *slot < FS_PROMOTE_SLOTS; ++*slot) {
        struct fs_promote_slot *at = &fs->promote.slots[*slot];

        if (atomic_load(&at->reads) < FS_PROMOTE_READS)
            continue;
        *block = atomic_load(&at->block);
        *ino = atomic_load(&at->ino);
        atomic_store(&at->reads, 0);
        atomic_store(&at->block, 0);
        ++*slot;
        return true;
    }
    return false;
}
