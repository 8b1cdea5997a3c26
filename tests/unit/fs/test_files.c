/* SPDX-License-Identifier: BSD-2-Clause
 *
 * test_files.c - one case a rule of the data path: inline contents, trimmed tails, holes, shared
 * blocks, damage, deletion, the cache and access times.
 */
#include "support.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/falloc.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static int set_up(void **state)
{
    struct mounted *m = malloc(sizeof(*m));

    assert_non_null(m);
    scratch_make(m);
    store_open(m);
    *state = m;
    return 0;
}

static int tear_down(void **state)
{
    struct mounted *m = *state;

    store_close(m);
    scratch_remove(m);
    free(m);
    return 0;
}

/* Leaves memory and comes back, so that everything is read from the store. */
static struct fs_inode *again(struct mounted *m, struct fs_inode *inode)
{
    uint64_t ino = inode->ino;

    assert_int_equal(fs_file_sync(&m->fs, inode), 0);
    fs_inode_drop(&m->fs, inode);
    fs_cache_drop(m->fs.cache);
    assert_int_equal(fs_inode_hold(&m->fs, ino, &inode), 0);
    return inode;
}

static void test_inline(void **state)
{
    struct mounted *m = *state;
    struct fs_inode *inode = file_create(m, "a");
    struct index_inode record;
    uint8_t data[3 * BLOCK] = {0};

    fill(data, 1000, 1);
    write_all(m, inode, data, INDEX_INLINE_MAX, 0);
    assert_int_equal(fs_file_flush(&m->fs, inode), 0);
    record_get(m, inode->ino, &record); /* close alone stores a file of this size */
    assert_int_equal(record.flags, INDEX_INODE_INLINE);
    assert_int_equal(record.inline_size, INDEX_INLINE_MAX);
    assert_int_equal(record.size, INDEX_INLINE_MAX);
    assert_int_equal(extent_get(m, inode->ino, 0).length, 0);
    inode = again(m, inode);
    expect(m, inode, data, INDEX_INLINE_MAX, 0);

    /* one byte too many: it becomes a block */
    write_all(m, inode, data + INDEX_INLINE_MAX, 1, INDEX_INLINE_MAX);
    inode = again(m, inode);
    record_get(m, inode->ino, &record);
    assert_int_equal(record.flags, 0);
    assert_int_equal(extent_get(m, inode->ino, 0).length, INDEX_INLINE_MAX + 1);
    expect(m, inode, data, INDEX_INLINE_MAX + 1, 0);

    /* emptied and small again */
    assert_int_equal(fs_file_truncate(&m->fs, inode, 0), 0);
    write_all(m, inode, data, 10, 0);
    inode = again(m, inode);
    record_get(m, inode->ino, &record);
    assert_int_equal(record.flags, INDEX_INODE_INLINE);
    assert_int_equal(extent_get(m, inode->ino, 0).length, 0);

    /* a write far behind moves the content out of the record */
    write_all(m, inode, data, 100, 2 * BLOCK);
    inode = again(m, inode);
    record_get(m, inode->ino, &record);
    assert_int_equal(record.flags, 0);
    assert_int_equal(record.size, 2 * BLOCK + 100);
    expect(m, inode, data, 10, 0);
    expect_zeros(m, inode, 2 * BLOCK - 10, 10);
    expect(m, inode, data, 100, 2 * BLOCK);
    fs_inode_drop(&m->fs, inode);
}

static void test_inline_sizes(void **state)
{
    struct mounted *m = *state;
    struct fs_inode *inode = file_create(m, "a");
    struct index_inode record;
    uint8_t data[200];

    fill(data, sizeof(data), 2);
    write_all(m, inode, data, 200, 0);
    inode = again(m, inode);
    assert_int_equal(fs_file_truncate(&m->fs, inode, 50), 0);
    assert_int_equal(fs_file_truncate(&m->fs, inode, 120), 0); /* 50..120 are zeros now */
    inode = again(m, inode);
    record_get(m, inode->ino, &record);
    assert_int_equal(record.flags, INDEX_INODE_INLINE);
    assert_int_equal(record.inline_size, 120);
    expect(m, inode, data, 50, 0);
    expect_zeros(m, inode, 70, 50);
    assert_int_equal(fs_file_truncate(&m->fs, inode, BLOCK + 1), 0);
    expect(m, inode, data, 50, 0);
    expect_zeros(m, inode, BLOCK + 1 - 50, 50);
    inode = again(m, inode);
    record_get(m, inode->ino, &record);
    assert_int_equal(record.flags, 0);
    expect(m, inode, data, 50, 0);
    expect_zeros(m, inode, BLOCK + 1 - 50, 50);
    fs_inode_drop(&m->fs, inode);
}

/* What truncation cut off never comes back, from memory or from the store. */
static void test_tail_is_trimmed(void **state)
{
    struct mounted *m = *state;
    struct fs_inode *inode = file_create(m, "a");
    uint8_t data[2 * BLOCK];

    fill(data, sizeof(data), 3);
    for (int stored = 0; stored < 2; stored++) {
        write_all(m, inode, data, sizeof(data), 0);
        if (stored)
            inode = again(m, inode);
        assert_int_equal(fs_file_truncate(&m->fs, inode, BLOCK + 100), 0);
        if (stored)
            assert_int_equal(extent_get(m, inode->ino, 1).length, 100);
        assert_int_equal(fs_file_truncate(&m->fs, inode, 2 * BLOCK), 0);
        expect(m, inode, data, BLOCK + 100, 0);
        expect_zeros(m, inode, BLOCK - 100, BLOCK + 100);
        inode = again(m, inode);
        expect(m, inode, data, BLOCK + 100, 0);
        expect_zeros(m, inode, BLOCK - 100, BLOCK + 100);
    }
    fs_inode_drop(&m->fs, inode);
}

static void test_holes(void **state)
{
    struct mounted *m = *state;
    struct fs_inode *inode = file_create(m, "a");
    uint8_t *data = malloc(8 * BLOCK), *zeros = calloc(4, BLOCK);
    uint64_t decoded;

    assert_true(data != NULL && zeros != NULL);
    fill(data, 8 * BLOCK, 4);
    write_all(m, inode, data, 8 * BLOCK, 0);
    write_all(m, inode, zeros, 2 * BLOCK, 2 * BLOCK); /* zeros written are a hole */
    inode = again(m, inode);
    assert_int_equal(extent_get(m, inode->ino, 1).length, BLOCK);
    assert_int_equal(extent_get(m, inode->ino, 2).length, 0);
    assert_int_equal(extent_get(m, inode->ino, 3).length, 0);
    assert_int_equal(fs_file_seek(&m->fs, inode, 0, SEEK_HOLE), 2 * BLOCK);
    assert_int_equal(fs_file_seek(&m->fs, inode, 2 * BLOCK + 5, SEEK_DATA), 4 * BLOCK);
    assert_int_equal(fs_file_seek(&m->fs, inode, 5 * BLOCK + 5, SEEK_DATA), 5 * BLOCK + 5);
    assert_int_equal(fs_file_seek(&m->fs, inode, 5 * BLOCK, SEEK_HOLE), 8 * BLOCK);

    /* a punched range: whole blocks go, the edges are zeroed */
    assert_int_equal(fs_file_allocate(&m->fs, inode, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                                      5 * BLOCK - 10, BLOCK + 20),
                     0);
    assert_int_equal(extent_get(m, inode->ino, 5).length, 0);
    expect(m, inode, data + 4 * BLOCK, BLOCK - 10, 4 * BLOCK);
    expect_zeros(m, inode, BLOCK + 20, 5 * BLOCK - 10);
    expect(m, inode, data + 6 * BLOCK + 10, BLOCK - 10, 6 * BLOCK + 10);

    /* a hole up to the end of the last block decodes nothing */
    inode = again(m, inode);
    decoded = m->fs.counters.blocks_read;
    assert_int_equal(fs_file_allocate(&m->fs, inode, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                                      7 * BLOCK + 7, BLOCK),
                     0);
    assert_int_equal(m->fs.counters.blocks_read, decoded);
    assert_int_equal(extent_get(m, inode->ino, 7).length, 7);
    assert_int_equal(record_size(m, inode->ino), 8 * BLOCK);
    assert_int_equal(fs_file_allocate(&m->fs, inode, FALLOC_FL_COLLAPSE_RANGE, 0, BLOCK),
                     -EOPNOTSUPP);
    fs_inode_drop(&m->fs, inode);
    free(data);
    free(zeros);
}

/* Overwriting a whole block decodes nothing, part of one decodes that one. */
static void test_overwrite(void **state)
{
    struct mounted *m = *state;
    struct fs_inode *inode = file_create(m, "a");
    uint8_t data[4 * BLOCK];
    uint64_t decoded;

    fill(data, sizeof(data), 5);
    write_all(m, inode, data, sizeof(data), 0);
    inode = again(m, inode);
    decoded = m->fs.counters.blocks_read;
    fill(data + BLOCK, BLOCK, 6);
    write_all(m, inode, data + BLOCK, BLOCK, BLOCK);
    assert_int_equal(m->fs.counters.blocks_read, decoded);
    fill(data + 2 * BLOCK + 5, 10, 7);
    write_all(m, inode, data + 2 * BLOCK + 5, 10, 2 * BLOCK + 5);
    assert_int_equal(m->fs.counters.blocks_read, decoded + 1);
    expect(m, inode, data, sizeof(data), 0);
    inode = again(m, inode);
    expect(m, inode, data, sizeof(data), 0);
    fs_inode_drop(&m->fs, inode);
}

static void test_dedup(void **state)
{
    struct mounted *m = *state;
    struct fs_inode *a = file_create(m, "a"), *b = file_create(m, "b"), *c = file_create(m, "c");
    uint8_t data[6 * BLOCK], buffer[BLOCK];
    struct index_extent first;

    fill(data, sizeof(data), 8);
    write_all(m, a, data, sizeof(data), 0);
    a = again(m, a);
    assert_int_equal(space_get(m).blocks, 6);
    write_all(m, b, data, sizeof(data), 0);
    b = again(m, b);
    assert_int_equal(space_get(m).blocks, 6);
    assert_int_equal(m->fs.counters.blocks_deduplicated, 6);
    first = extent_get(m, a->ino, 3);
    assert_int_equal(extent_get(m, b->ino, 3).block, first.block);

    /* a damaged block is stored again when its bytes are written, for all files that refer to it */
    fs_cache_drop(m->fs.cache);
    damage_block(m, first.block);
    write_all(m, c, data, sizeof(data), 0);
    c = again(m, c);
    assert_int_equal(extent_get(m, c->ino, 3).block, first.block);
    assert_int_equal(extent_get(m, c->ino, 2).block, extent_get(m, a->ino, 2).block);
    assert_int_equal(m->fs.counters.blocks_healed, 1);
    assert_int_equal(m->fs.counters.blocks_deduplicated, 11);
    assert_int_equal(space_get(m).blocks, 6);
    fs_cache_drop(m->fs.cache);
    expect(m, c, data, sizeof(data), 0);
    expect(m, a, data, sizeof(data), 0);
    expect(m, b, data, sizeof(data), 0);
    /* ... and what the cache holds of it does not count as stored; now it is one whole block */
    damage_block(m, first.block);
    write_all(m, c, data + 3 * BLOCK, BLOCK, 3 * BLOCK);
    c = again(m, c);
    assert_int_equal(m->fs.counters.blocks_healed, 2);
    fs_cache_drop(m->fs.cache);
    expect(m, a, data, sizeof(data), 0);
    /* a block whose length or hash differs heals nothing */
    damage_block(m, first.block);
    write_all(m, c, data + 3 * BLOCK, BLOCK - 1, 3 * BLOCK + 1);
    fs_cache_drop(m->fs.cache);
    assert_int_equal(fs_file_read(&m->fs, a, NULL, buffer, BLOCK, 3 * BLOCK), -EIO);
    write_all(m, c, data + 3 * BLOCK, BLOCK, 3 * BLOCK); /* leave no damage for the final check */
    c = again(m, c);
    assert_int_equal(m->fs.counters.blocks_healed, 3);
    expect(m, a, data, sizeof(data), 0);
    fs_inode_drop(&m->fs, a);
    fs_inode_drop(&m->fs, b);
    fs_inode_drop(&m->fs, c);
}

static void test_copy_shares(void **state)
{
    struct mounted *m = *state;
    struct fs_inode *a = file_create(m, "a"), *b = file_create(m, "b");
    uint8_t data[6 * BLOCK];
    uint64_t written;

    fill(data, sizeof(data), 9);
    write_all(m, a, data, 5 * BLOCK + 77, 0);
    a = again(m, a);
    written = m->fs.counters.blocks_written;
    assert_int_equal(fs_file_copy(&m->fs, a, BLOCK, b, 0, 100 * BLOCK), 4 * BLOCK + 77);
    assert_int_equal(m->fs.counters.blocks_written, written);
    assert_int_equal(extent_get(m, b->ino, 0).block, extent_get(m, a->ino, 1).block);
    assert_int_equal(extent_get(m, b->ino, 4).block, extent_get(m, a->ino, 5).block);
    assert_int_equal(record_size(m, b->ino), 4 * BLOCK + 77);
    b = again(m, b);
    expect(m, b, data + BLOCK, 4 * BLOCK + 77, 0);
    /* writing to the copy leaves the original alone */
    write_all(m, b, data, 100, 10);
    b = again(m, b);
    expect(m, a, data, 5 * BLOCK + 77, 0);
    expect(m, b, data, 100, 10);
    assert_int_equal(fs_file_copy(&m->fs, a, 0, a, BLOCK, 2 * BLOCK), -EINVAL);
    fs_inode_drop(&m->fs, a);
    fs_inode_drop(&m->fs, b);
}

static void test_damage(void **state)
{
    struct mounted *m = *state;
    struct fs_inode *inode = file_create(m, "a");
    uint8_t data[5 * BLOCK], buffer[5 * BLOCK];

    fill(data, sizeof(data), 10);
    write_all(m, inode, data, sizeof(data), 0);
    inode = again(m, inode);
    damage_block(m, extent_get(m, inode->ino, 2).block);
    assert_int_equal(fs_file_read(&m->fs, inode, NULL, buffer, BLOCK, 2 * BLOCK), -EIO);
    assert_true(m->fs.counters.read_errors > 0);
    expect(m, inode, data, 2 * BLOCK, 0);
    expect(m, inode, data + 3 * BLOCK, 2 * BLOCK, 3 * BLOCK);
    /* a read across it is refused: a short answer would mean the end of the file to the kernel;
     * writing part of it needs the rest of it */
    assert_int_equal(fs_file_read(&m->fs, inode, NULL, buffer, sizeof(buffer), 0), -EIO);
    assert_int_equal(fs_file_write(&m->fs, inode, data, 10, 2 * BLOCK + 10, false), -EIO);
    assert_int_equal(fs_file_read(&m->fs, inode, NULL, buffer, 10, 2 * BLOCK + 10), -EIO);
    /* writing all of it heals it */
    write_all(m, inode, data + 2 * BLOCK, BLOCK, 2 * BLOCK);
    inode = again(m, inode);
    expect(m, inode, data, sizeof(data), 0);
    fs_inode_drop(&m->fs, inode);
}

static void test_incompressible(void **state)
{
    struct mounted *m = *state;
    struct fs_inode *inode = file_create(m, "a");
    uint8_t data[BLOCK];
    struct index_block block;
    struct index_txn *txn;

    fill_noise(data, sizeof(data), 11);
    write_all(m, inode, data, sizeof(data), 0);
    inode = again(m, inode);
    assert_int_equal(index_begin(m->index, INDEX_READ, &txn), 0);
    assert_int_equal(index_block_next(txn, 0, &block), 0);
    index_end(txn);
    assert_int_equal(block.codec, SEP_CODEC_RAW);
    assert_int_equal(block.flags, INDEX_BLOCK_INCOMPRESSIBLE);
    assert_int_equal(block.at.payload_size, BLOCK);
    expect(m, inode, data, sizeof(data), 0);
    fs_inode_drop(&m->fs, inode);
}

/* An unlinked file works while it is open, then everything of it goes. */
static void test_unlinked(void **state)
{
    struct mounted *m = *state;
    struct fs_inode *inode = file_create(m, "a"), *opened;
    uint8_t data[200];
    uint8_t *large = malloc(40 * BLOCK);
    uint64_t ino = inode->ino;

    assert_non_null(large);
    fill(large, 40 * BLOCK, 12);
    fill(data, sizeof(data), 13);
    write_all(m, inode, large, 40 * BLOCK, 0);
    assert_int_equal(fs_inode_open(&m->fs, ino, &opened), 0);
    fs_inode_drop(&m->fs, inode);
    file_unlink(m, "a");
    fs_reaper_wait(&m->fs);
    write_all(m, opened, data, sizeof(data), 50 * BLOCK);
    assert_int_equal(fs_file_sync(&m->fs, opened), 0);
    expect(m, opened, large, 40 * BLOCK, 0);
    expect(m, opened, data, sizeof(data), 50 * BLOCK);
    assert_true(space_get(m).blocks >= 40);
    write_all(m, opened, data, sizeof(data), 60 * BLOCK); /* dirty at the last close: dropped */
    fs_inode_close(&m->fs, opened);
    fs_reaper_wait(&m->fs);
    assert_int_equal(fs_inode_hold(&m->fs, ino, &inode), -ENOENT);
    assert_int_equal(space_get(m).blocks, 0);
    assert_int_equal(space_get(m).extents, 0);
    assert_int_equal(fs_writeback_all(&m->fs), 0);
    assert_int_equal(fs_writeback_bytes(&m->fs), 0);
    assert_int_equal(m->fs.counters.write_errors, 0);
    free(large);
}

/* Not open: small ones go in the transaction of the unlink, large ones and dirty ones right after.
 */
static void test_unlinked_closed(void **state)
{
    struct mounted *m = *state;
    struct fs_inode *small = file_create(m, "small"), *large = file_create(m, "large");
    struct fs_inode *dirty = file_create(m, "dirty");
    uint64_t small_ino = small->ino, large_ino = large->ino, dirty_ino = dirty->ino;
    uint8_t *data = malloc(40 * BLOCK);

    assert_non_null(data);
    fill(data, 40 * BLOCK, 14);
    write_all(m, small, data, 3 * BLOCK, 0);
    write_all(m, large, data, 40 * BLOCK, 0);
    assert_int_equal(fs_file_sync(&m->fs, small), 0);
    assert_int_equal(fs_file_sync(&m->fs, large), 0);
    write_all(m, dirty, data, BLOCK / 2, 0);
    fs_inode_drop(&m->fs, small);
    fs_inode_drop(&m->fs, large);
    fs_inode_drop(&m->fs, dirty);
    file_unlink(m, "small");
    file_unlink(m, "large");
    file_unlink(m, "dirty");
    fs_reaper_wait(&m->fs);
    assert_int_equal(fs_inode_hold(&m->fs, small_ino, &small), -ENOENT);
    assert_int_equal(fs_inode_hold(&m->fs, large_ino, &large), -ENOENT);
    assert_int_equal(fs_inode_hold(&m->fs, dirty_ino, &dirty), -ENOENT);
    assert_int_equal(space_get(m).blocks, 0);
    assert_int_equal(fs_writeback_bytes(&m->fs), 0);
    free(data);
}

/* Attributes: size and times of unflushed data are seen, the record keeps those of stored data. */
static void test_attributes(void **state)
{
    struct mounted *m = *state;
    struct fs_inode *inode = file_create(m, "a");
    struct index_inode attr;
    struct index_txn *txn;
    uint8_t data[1000];

    fill(data, sizeof(data), 15);
    write_all(m, inode, data, sizeof(data), 0);
    assert_int_equal(index_begin(m->index, INDEX_WRITE, &txn), 0);
    assert_int_equal(fs_attr_get(&m->fs, txn, inode->ino, &attr), 0);
    assert_int_equal(attr.size, 1000);
    attr.mode = S_IFREG | 0600;
    attr.mtime = (struct timespec){1000, 5};
    assert_int_equal(fs_attr_put(&m->fs, txn, &attr), 0);
    assert_int_equal(index_inode_get(txn, inode->ino, &attr), 0);
    index_end(txn);
    assert_int_equal(attr.size, 0); /* the record's: nothing is stored yet */
    inode = again(m, inode);
    record_get(m, inode->ino, &attr);
    assert_int_equal(attr.size, 1000);
    assert_int_equal(attr.mode, S_IFREG | 0600);
    assert_int_equal(attr.mtime.tv_sec, 1000); /* set after the write, and kept by write-back */
    assert_int_equal(attr.mtime.tv_nsec, 5);
    assert_true(attr.stored > 0);
    fs_inode_drop(&m->fs, inode);
}

static void set_atime(struct mounted *m, uint64_t ino, time_t atime, time_t mtime)
{
    struct index_inode attr;
    struct index_txn *txn;

    assert_int_equal(index_begin(m->index, INDEX_WRITE, &txn), 0);
    assert_int_equal(fs_attr_get(&m->fs, txn, ino, &attr), 0);
    attr.atime = (struct timespec){.tv_sec = atime};
    attr.mtime = attr.ctime = (struct timespec){.tv_sec = mtime};
    assert_int_equal(fs_attr_put(&m->fs, txn, &attr), 0);
    index_end(txn);
}

static time_t read_atime(struct mounted *m, struct fs_inode *inode, int flags)
{
    struct fs_handle handle = {.inode = inode, .flags = flags};
    struct index_inode record;
    uint8_t byte;

    assert_int_equal(fs_file_read(&m->fs, inode, &handle, &byte, 1, 0), 1);
    record_get(m, inode->ino, &record);
    return record.atime.tv_sec;
}

static void test_atime(void **state)
{
    struct mounted *m = *state;
    struct fs_inode *inode = file_create(m, "a");
    time_t now = time(NULL);

    m->fs.options.cold_after = 3600; /* granularity: 30 minutes */
    write_all(m, inode, "x", 1, 0);
    assert_int_equal(fs_file_sync(&m->fs, inode), 0);
    set_atime(m, inode->ino, now - 1000, now - 5000);
    assert_int_equal(read_atime(m, inode, 0), now - 1000); /* recent enough */
    set_atime(m, inode->ino, now - 2000, now - 5000);
    assert_int_equal(read_atime(m, inode, O_NOATIME), now - 2000);
    assert_true(read_atime(m, inode, 0) >= now); /* older than the granularity */
    set_atime(m, inode->ino, now - 500, now - 400);
    assert_true(read_atime(m, inode, 0) >= now); /* older than the last change */
    fs_inode_drop(&m->fs, inode);
}

/* More pinned than the cache may hold: loads still work, the accounting stays within the limit. */
static void test_cache_limit(void **state)
{
    struct mounted *m = *state;
    struct fs_inode *inode = file_create(m, "a");
    const struct fs_block *pinned[32];
    uint8_t *data = malloc(32 * BLOCK);
    uint64_t hits;

    assert_non_null(data);
    fill(data, 32 * BLOCK, 16);
    write_all(m, inode, data, 16 * BLOCK, 0);
    write_all(m, inode, data + 16 * BLOCK, 16 * BLOCK, 16 * BLOCK);
    inode = again(m, inode);
    for (unsigned i = 0; i < 32; i++) {
        assert_int_equal(
            fs_block_load(&m->fs, extent_get(m, inode->ino, i).block, inode->ino, &pinned[i]), 0);
        assert_true(fs_cache_bytes(m->fs.cache) <= m->options.cache);
    }
    for (unsigned i = 0; i < 32; i++) {
        assert_memory_equal(pinned[i]->data, data + i * BLOCK, BLOCK);
        fs_block_put(&m->fs, pinned[i]);
    }
    hits = m->fs.counters.cache_hits;
    assert_int_equal(
        fs_block_load(&m->fs, extent_get(m, inode->ino, 0).block, inode->ino, &pinned[0]), 0);
    fs_block_put(&m->fs, pinned[0]);
    assert_int_equal(m->fs.counters.cache_hits, hits + 1);
    assert_int_equal(fs_block_load(&m->fs, 999999, inode->ino, &pinned[0]), -ENOENT);
    fs_inode_drop(&m->fs, inode);
    free(data);
}

/* Sequential reading has later blocks decoded before they are asked for, each once. */
static void test_readahead(void **state)
{
    struct mounted *m = *state;
    struct fs_inode *inode = file_create(m, "a");
    struct fs_handle handle = {0};
    uint8_t *data = malloc(64 * BLOCK), buffer[4096];
    time_t deadline = time(NULL) + 60;

    assert_non_null(data);
    fill(data, 64 * BLOCK, 17);
    for (unsigned i = 0; i < 8; i++)
        write_all(m, inode, data + i * 8 * BLOCK, 8 * BLOCK, i * 8 * BLOCK);
    inode = again(m, inode);
    handle.inode = inode;
    for (size_t at = 0; at < 64 * BLOCK; at += sizeof(buffer)) {
        assert_int_equal(fs_file_read(&m->fs, inode, &handle, buffer, sizeof(buffer), at),
                         sizeof(buffer));
        assert_memory_equal(buffer, data + at, sizeof(buffer));
        while (at == 2 * BLOCK && m->fs.counters.readahead_blocks == 0) {
            assert_true(time(NULL) < deadline);
            usleep(1000);
        }
    }
    assert_int_equal(m->fs.counters.blocks_read, 64);
    fs_inode_drop(&m->fs, inode);
    free(data);
}

/* Offsets at the end of what off_t can say. */
static void test_far_away(void **state)
{
    struct mounted *m = *state;
    struct fs_inode *inode = file_create(m, "a");
    const uint64_t end = (uint64_t)INT64_MAX;

    write_all(m, inode, "end", 3, end - 3);
    assert_int_equal(fs_file_write(&m->fs, inode, "x", 1, end, false), -EFBIG);
    assert_int_equal(fs_file_write(&m->fs, inode, "xy", 2, end - 1, false), -EFBIG);
    assert_int_equal(fs_file_write(&m->fs, inode, "x", 1, UINT64_MAX, false), -EFBIG);
    assert_int_equal(fs_file_truncate(&m->fs, inode, end + 1), -EFBIG);
    inode = again(m, inode);
    expect(m, inode, "end", 3, end - 3);
    expect_zeros(m, inode, 100, 0);
    assert_int_equal(fs_file_seek(&m->fs, inode, 0, SEEK_DATA), (off_t)((end - 3) / BLOCK * BLOCK));
    assert_int_equal(fs_file_truncate(&m->fs, inode, 1), 0);
    assert_int_equal(space_get(m).extents, 0);
    fs_inode_drop(&m->fs, inode);
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        CASE(test_inline),      CASE(test_inline_sizes),    CASE(test_tail_is_trimmed),
        CASE(test_holes),       CASE(test_overwrite),       CASE(test_dedup),
        CASE(test_copy_shares), CASE(test_damage),          CASE(test_incompressible),
        CASE(test_unlinked),    CASE(test_unlinked_closed), CASE(test_attributes),
        CASE(test_atime),       CASE(test_cache_limit),     CASE(test_readahead),
        CASE(test_far_away),
    };
#undef CASE

    return cmocka_run_group_tests_name("fs files", tests, NULL, NULL);
}
