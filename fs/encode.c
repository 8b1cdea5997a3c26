/* SPDX-License-Identifier: BSD-2-Clause
 *
 * encode.c - from the plain bytes of a dirty block to a pack record, or to something cheaper: the
 * inode record, a hole, or a block that the store already has. Runs without locks; the bytes are
 * constant while the version is WRITING.
 *
 * Nothing is shared on the word of a hash: the stored block is read back and compared first, so a
 * damaged block gets no new references and a colliding hash no wrong ones. When the stored block of
 * this size and 128-bit hash is damaged, the bytes at hand are what it held: its record is written
 * anew, which heals every file that refers to it.
 */
#include "encode.h"

#include <errno.h>
#include <string.h>

#include "blocks.h"
#include "buffers.h"

static bool all_zero(const uint8_t *data, uint32_t length)
{
    return length == 0 || (data[0] == 0 && memcmp(data, data + 1, length - 1) == 0);
}

static bool fits_record(struct fs_dirty *dirty)
{
    struct fs_inode *inode = dirty->inode;
    bool fits;

    if (dirty->number != 0)
        return false;
    pthread_mutex_lock(&inode->overlay_lock);
    fits = inode->size <= INDEX_INLINE_MAX;
    pthread_mutex_unlock(&inode->overlay_lock);
    return fits;
}

enum stored { ABSENT, KNOWN, DAMAGED };

/* Whether the store has these bytes: dirty->block is then that block. */
static enum stored find(struct fs *fs, struct sep_context *context, struct fs_dirty *dirty,
                        struct index_hash hash)
{
    struct index_block *block = &dirty->block;
    struct index_txn *txn;
    int error = index_begin(fs->index, INDEX_READ, &txn);

    dirty->unlike = 0;
    if (error != 0)
        return ABSENT;
    error = index_block_find(txn, hash, dirty->length, block);
    index_end(txn);
    if (error != 0)
        return ABSENT;
    error = fs_block_equal(fs, context, block->id, dirty->inode->ino, dirty->data, dirty->length);
    if (error == 1)
        return KNOWN;
    dirty->unlike = block->id;
    return error == -EIO ? DAMAGED : ABSENT;
}

/* Compresses to OUT, or finds that the plain bytes will do. */
static int compress(struct fs *fs, struct sep_context *context, struct fs_dirty *dirty, void *out,
                    size_t capacity, const void **payload, size_t *size)
{
    struct index_block *block = &dirty->block;
    struct sep_method used = {SEP_CODEC_RAW, 0};

    *payload = dirty->data;
    *size = dirty->length;
    if (sep_incompressible(dirty->data, dirty->length)) {
        block->flags |= INDEX_BLOCK_INCOMPRESSIBLE;
    } else {
        enum sep_status status = sep_encode(context, dirty->inode->policy.hot, dirty->data,
                                            dirty->length, out, capacity, size, &used);

        if (status != SEP_OK)
            return status == SEP_ERROR_MEMORY ? -ENOMEM : -EIO;
        *payload = out;
    }
    block->codec = used.codec;
    block->level = used.level;
    return 0;
}

static int append(struct fs *fs, struct sep_context *context, struct fs_dirty *dirty)
{
    const void *payload;
    uint32_t capacity;
    size_t size;
    void *out = fs_buffer_get(fs, fs_buffer_whole(fs), &capacity);
    int error;

    if (out == NULL)
        return -ENOMEM;
    error = compress(fs, context, dirty, out, capacity, &payload, &size);
    if (error == 0) {
        if (dirty->form == FS_FORM_NEW)
            dirty->block.id = index_block_new(fs->index);
        error = index_pack_append(fs->index, INDEX_HOT, &dirty->block, payload, size);
    }
    fs_buffer_put(fs, out, capacity);
    return error;
}

int fs_encode(struct fs *fs, struct sep_context *context, struct fs_dirty *dirty)
{
    struct index_hash hash;
    enum stored stored;
    int error;

    if (fits_record(dirty)) {
        dirty->form = FS_FORM_INLINE;
        return 0;
    }
    if (all_zero(dirty->data, dirty->length)) {
        dirty->form = FS_FORM_HOLE;
        return 0;
    }
    hash = index_hash_of(dirty->data, dirty->length);
    stored = find(fs, context, dirty, hash);
    if (stored == KNOWN) {
        dirty->form = FS_FORM_KNOWN;
        return 0;
    }
    dirty->form = stored == DAMAGED ? FS_FORM_HEALED : FS_FORM_NEW;
    dirty->damaged = dirty->block.at;
    dirty->block = (struct index_block){.id = dirty->block.id,
                                        .plain_size = dirty->length,
                                        .owner_ino = dirty->inode->ino,
                                        .owner_block = dirty->number,
                                        .hash = hash};
    error = append(fs, context, dirty);
    /* a tail will be appended to, and a small file read soon: both want the plain bytes again */
    if (error == 0 && dirty->length < fs->block_size)
        fs_block_insert(fs, dirty->block.id, dirty->data, dirty->length);
    return error;
}
