/* SPDX-License-Identifier: BSD-2-Clause
 *
 * test_compact.c - passes of the compactor over a store without FUSE: what is read stays the same,
 * small files share blocks, a second pass finds nothing, policies and damage are respected, racing
 * writers win, and stopping in the middle loses nothing.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "codec/sep.h"
#include "fs/file.h"
#include "fs/policy.h"
#include "index/internal.h"
#include "store.h"

static const struct fs_compact_request all = {.all = true};

#define SMALL 60u     /* files */
#define BIG   200000u /* bytes: three whole blocks and a small tail */

struct tree {
    uint64_t big, noise, small[SMALL];
    uint8_t big_bytes[BIG], noise_bytes[BIG], small_bytes[SMALL][4000];
    size_t small_size[SMALL];
};

/* A big file, one that does not compress, and small ones of two kinds in two directories. */
static struct tree *fill(struct store *store)
{
    struct tree *tree = calloc(1, sizeof *tree);
    const uint64_t dirs[2] = {store_mkdir(store, INDEX_ROOT_INO, "one"),
                              store_mkdir(store, INDEX_ROOT_INO, "two")};

    assert_non_null(tree);
    store_text(tree->big_bytes, BIG, 1000);
    store_noise(tree->noise_bytes, BIG, 7);
    tree->big = store_file(store, INDEX_ROOT_INO, "big", tree->big_bytes, BIG);
    tree->noise = store_file(store, INDEX_ROOT_INO, "noise", tree->noise_bytes, BIG);
    for (unsigned i = 0; i < SMALL; i++) {
        char name[32];

        snprintf(name, sizeof name, "f%u.%s", i, i % 3 == 0 ? "c" : "h");
        tree->small_size[i] = 300 + i * 60;
        store_text(tree->small_bytes[i], tree->small_size[i], i);
        tree->small[i] =
            store_file(store, dirs[i % 2], name, tree->small_bytes[i], tree->small_size[i]);
    }
    return tree;
}

static void expect(struct store *store, const struct tree *tree)
{
    store_expect(store, tree->big, tree->big_bytes, BIG);
    store_expect(store, tree->noise, tree->noise_bytes, BIG);
    for (unsigned i = 0; i < SMALL; i++)
        store_expect(store, tree->small[i], tree->small_bytes[i], tree->small_size[i]);
}

/* Sum over a file's extents, as the inode should have it. */
static uint64_t charged(struct store *store, uint64_t ino)
{
    struct index_extent extent = {0};
    struct index_txn *txn;
    uint64_t sum = 0;
    uint64_t number = 0;

    assert_int_equal(index_begin(store->index, INDEX_READ, &txn), 0);
    while (index_extent_next(txn, ino, number, &extent) == 0) {
        struct index_block block;

        assert_int_equal(index_block_get(txn, extent.block, &block), 0);
        sum += index_extent_stored(&block, &extent);
        number = extent.number + 1;
    }
    index_end(txn);
    return sum;
}

/* Cold is zstd:12 here: the steps of a pass are the same, and the workers run at idle priority, which
 * on a busy machine is little. The first test is with SEP. */
static void setup(struct store *store)
{
    store_create(store);
    store->options.cold = (struct sep_method){.codec = SEP_CODEC_ZSTD, .level = 12};
    store_start(store);
}

static bool cold_form(const struct index_block *block)
{
    return block->codec == SEP_CODEC_ZSTD && block->level == 12;
}

static void teardown(struct store *store)
{
    store_check(store);
    store_stop(store);
    store_remove(store);
}

static void contents_stay_and_shrink(void **state)
{
    struct store store;
    struct tree *tree;
    struct fs_compact_status status;
    struct index_space before;
    struct index_space after;
    struct index_extent extent;

    store_create(&store);
    store_start(&store);
    tree = fill(&store);
    before = store_space(&store);
    status = store_compact(&store, &all);
    assert_int_equal(status.error, 0);
    assert_int_equal(status.failed, 0);
    assert_true(status.blocks_done >= SMALL + 3);
    assert_true(status.stored_after < status.stored_before);
    assert_true(strncmp(status.backend, "cpu (", 5) == 0);
    after = store_space(&store);
    assert_true(after.live_bytes < before.live_bytes);
    assert_int_equal(after.hot_blocks, 0);
    assert_int_equal(after.logical, before.logical);
    assert_int_equal(store_block(&store, tree->big, 0, &extent).codec, SEP_CODEC_SEP);
    assert_int_equal(store_block(&store, tree->noise, 0, &extent).codec, SEP_CODEC_RAW);
    expect(&store, tree);
    assert_int_equal(store_inode(&store, tree->big).stored, charged(&store, tree->big));
    for (unsigned i = 0; i < SMALL; i++)
        assert_int_equal(store_inode(&store, tree->small[i]).stored,
                         charged(&store, tree->small[i]));
    store_check(&store);
    store_stop(&store);
    store_start(&store);
    expect(&store, tree);
    teardown(&store);
    free(tree);
}

static void second_pass_finds_nothing(void **state)
{
    struct store store;
    struct tree *tree;
    struct fs_compact_status status;

    setup(&store);
    tree = fill(&store);
    store_compact(&store, &all);
    for (unsigned i = 0; i < 2; i++) {
        status = store_compact(&store, &all);
        assert_int_equal(status.error, 0);
        assert_int_equal(status.blocks_done, 0);
        assert_int_equal(status.declined, 0);
        assert_int_equal(status.failed, 0);
        assert_string_equal(status.backend, ""); /* no worker was even started */
        assert_true(status.elapsed_ms < 1000);
    }
    teardown(&store);
    free(tree);
}

static void small_files_share_blocks(void **state)
{
    struct store store;
    struct tree *tree;
    uint64_t blocks[SMALL];
    unsigned distinct = 0;
    unsigned alone = 0;
    uint64_t bytes = 0;

    setup(&store);
    tree = fill(&store);
    store_compact(&store, &all);
    for (unsigned i = 0; i < SMALL; i++) {
        struct index_extent extent;
        struct index_block block;
        unsigned k = 0;

        block = store_block(&store, tree->small[i], 0, &extent);
        /* What is left over in the end may be alone. */
        alone += (block.flags & INDEX_BLOCK_SHARED) == 0;
        assert_int_equal(extent.length, tree->small_size[i]);
        while (k < distinct && blocks[k] != extent.block)
            k++;
        if (k == distinct)
            blocks[distinct++] = extent.block;
        bytes += tree->small_size[i];
    }
    assert_true(alone <= 1);
    assert_true(distinct <= bytes / (STORE_BLOCK / 2) + 1);
    teardown(&store);
    free(tree);
}

/* Small files with the same bytes are one block with many owners: they move together. */
static void duplicates_move_together(void **state)
{
    struct store store;
    uint8_t same[3000];
    uint8_t other[3000];
    uint64_t ino[6];
    struct index_extent first;
    struct fs_compact_status status;

    setup(&store);
    store_text(same, sizeof same, 1);
    for (unsigned i = 0; i < 6; i++) {
        char name[16];

        snprintf(name, sizeof name, "f%u", i);
        store_text(other, sizeof other, 100 + i);
        ino[i] = store_file(&store, INDEX_ROOT_INO, name, i % 2 == 0 ? same : other, sizeof same);
    }
    assert_int_equal(store_block(&store, ino[0], 0, &first).references, 3);
    status = store_compact(&store, &all);
    assert_int_equal(status.error, 0);
    assert_true(store_block(&store, ino[0], 0, &first).flags & INDEX_BLOCK_SHARED);
    for (unsigned i = 0; i < 6; i++) {
        struct index_extent extent;

        store_block(&store, ino[i], 0, &extent);
        assert_int_equal(extent.block, first.block);
        if (i % 2 == 0)
            assert_int_equal(extent.offset, first.offset);
        store_text(other, sizeof other, 100 + i);
        store_expect(&store, ino[i], i % 2 == 0 ? same : other, sizeof same);
        assert_int_equal(store_inode(&store, ino[i]).stored, charged(&store, ino[i]));
    }
    assert_int_equal(store_compact(&store, &all).blocks_done, 0);
    teardown(&store);
}

/* A large block with two owners: both inodes end with the right charge. */
static void shared_large_blocks_are_charged_right(void **state)
{
    struct store store;
    uint8_t *bytes = malloc(STORE_BLOCK);
    uint64_t ino[2];
    struct index_extent extent;
    struct index_block block;

    setup(&store);
    store_text(bytes, STORE_BLOCK, 5);
    ino[0] = store_file(&store, INDEX_ROOT_INO, "a", bytes, STORE_BLOCK);
    ino[1] = store_file(&store, INDEX_ROOT_INO, "b", bytes, STORE_BLOCK);
    assert_int_equal(store_block(&store, ino[0], 0, &extent).references, 2);
    assert_int_equal(store_compact(&store, &all).blocks_done, 1);
    for (unsigned i = 0; i < 2; i++) {
        block = store_block(&store, ino[i], 0, &extent);
        assert_true(cold_form(&block));
        store_expect(&store, ino[i], bytes, STORE_BLOCK);
        assert_int_equal(store_inode(&store, ino[i]).stored, charged(&store, ino[i]));
    }
    teardown(&store);
    free(bytes);
}

static void set_policy(struct store *store, uint64_t ino, const char *text)
{
    struct index_txn *txn;

    assert_int_equal(index_begin(store->index, INDEX_WRITE, &txn), 0);
    assert_int_equal(index_xattr_set(txn, ino, FS_POLICY_XATTR, text, strlen(text), 0), 0);
    index_end(txn);
}

static void policy_is_respected(void **state)
{
    const struct fs_compact_request old = {.older_than = 500000};
    struct store store;
    uint8_t *bytes = malloc(STORE_BLOCK);
    uint64_t never;
    uint64_t now;
    uint64_t other;
    uint64_t zstd;
    struct index_extent extent;
    struct index_block block;
    struct index_block before;
    struct index_block after;

    setup(&store);
    store_text(bytes, STORE_BLOCK, 1);
    never = store_file(&store, INDEX_ROOT_INO, "never", bytes, STORE_BLOCK);
    store_text(bytes, STORE_BLOCK, 2);
    now = store_file(&store, INDEX_ROOT_INO, "now", bytes, STORE_BLOCK);
    store_text(bytes, STORE_BLOCK, 3);
    other = store_file(&store, INDEX_ROOT_INO, "other", bytes, STORE_BLOCK);
    store_text(bytes, STORE_BLOCK, 4);
    zstd = store_file(&store, INDEX_ROOT_INO, "zstd", bytes, STORE_BLOCK);
    set_policy(&store, never, "cold=never");
    set_policy(&store, now, "cold=now");
    set_policy(&store, zstd, "cold=zstd:19");

    /* By age: only the one that is to be cold at once. */
    assert_int_equal(store_compact(&store, &old).blocks_done, 1);
    block = store_block(&store, now, 0, &extent);
    assert_true(cold_form(&block));
    assert_int_equal(store_block(&store, other, 0, &extent).codec, SEP_CODEC_ZSTD);

    before = store_block(&store, never, 0, &extent);
    assert_int_equal(store_compact(&store, &all).blocks_done, 2);
    block = store_block(&store, other, 0, &extent);
    assert_true(cold_form(&block));
    assert_int_equal(store_block(&store, zstd, 0, &extent).codec, SEP_CODEC_ZSTD);
    assert_int_equal(store_block(&store, zstd, 0, &extent).level, 19);
    /* Garbage collection may have moved the record, nobody has coded it again. */
    after = store_block(&store, never, 0, &extent);
    assert_int_equal(after.codec, SEP_CODEC_ZSTD);
    assert_int_equal(after.level, before.level);
    assert_int_equal(after.at.payload_size, before.at.payload_size);
    teardown(&store);
    free(bytes);
}

/* Back to a fast codec, where it stays; and only below the directory named. */
static void uncompacts_a_subtree(void **state)
{
    const struct fs_compact_request by_policy = {0};
    struct fs_compact_request back = {
        .has_method = true, .all = true, .method = {.codec = SEP_CODEC_ZSTD, .level = 3}};
    struct store store;
    uint8_t *bytes = malloc(STORE_BLOCK);
    uint64_t dir;
    uint64_t inside;
    uint64_t outside;
    struct index_extent extent;
    struct index_block block;

    setup(&store);
    dir = store_mkdir(&store, INDEX_ROOT_INO, "dir");
    store_text(bytes, STORE_BLOCK, 2);
    outside = store_file(&store, INDEX_ROOT_INO, "outside", bytes, STORE_BLOCK);
    store_text(bytes, STORE_BLOCK, 1);
    inside = store_file(&store, store_mkdir(&store, dir, "deeper"), "inside", bytes, STORE_BLOCK);
    assert_int_equal(store_compact(&store, &all).blocks_done, 2);
    back.ino = dir;
    assert_int_equal(store_compact(&store, &back).blocks_done, 1);
    assert_int_equal(store_block(&store, inside, 0, &extent).codec, SEP_CODEC_ZSTD);
    block = store_block(&store, outside, 0, &extent);
    assert_true(cold_form(&block));
    store_expect(&store, inside, bytes, STORE_BLOCK);
    assert_int_equal(store_inode(&store, inside).stored, charged(&store, inside));
    assert_int_equal(store_space(&store).hot_blocks, 0);
    assert_int_equal(store_compact(&store, &back).blocks_done, 0);
    assert_int_equal(store_compact(&store, &by_policy).blocks_done, 0);
    assert_int_equal(store_compact(&store, &all).blocks_done, 1);
    block = store_block(&store, inside, 0, &extent);
    assert_true(cold_form(&block));
    teardown(&store);
    free(bytes);
}

/* ---- damage -------------------------------------------------------------------------------- */

/* Flips a byte in the middle of a stored payload. */
static void damage(struct store *store, uint64_t ino)
{
    struct index_extent extent;
    const struct index_block block = store_block(store, ino, 0, &extent);
    const off_t at = (off_t)(block.at.offset + INDEX_RECORD_HEADER + block.at.payload_size / 2);
    char path[512];
    uint8_t byte;
    int fd;

    snprintf(path, sizeof path, "%s/packs/%08x.pack", store->path, block.at.pack);
    fd = open(path, O_RDWR);
    if (fd < 0)
        fail_msg("%s: %s", path, strerror(errno));
    assert_int_equal(pread(fd, &byte, 1, at), 1);
    byte ^= 0x40;
    assert_int_equal(pwrite(fd, &byte, 1, at), 1);
    close(fd);
}

static void damage_is_not_spread(void **state)
{
    struct store store;
    struct tree *tree;
    struct fs_compact_status status;
    struct index_pending pending;
    struct index_extent extent;
    struct index_block block;
    struct index_block before;
    struct index_block after;
    struct index_extent small;
    struct index_txn *txn;

    setup(&store);
    tree = fill(&store);
    assert_int_equal(index_commit(store.index), 0);
    damage(&store, tree->big);
    damage(&store, tree->small[9]);
    before = store_block(&store, tree->big, 0, &extent);
    store_block(&store, tree->small[9], 0, &small);
    status = store_compact(&store, &all);
    assert_int_equal(status.error, 0);
    assert_int_equal(status.failed, 2);
    after = store_block(&store, tree->big, 0, &extent);
    assert_int_equal(after.at.offset, before.at.offset);
    assert_int_equal(after.at.pack, before.at.pack);
    assert_int_equal(index_begin(store.index, INDEX_READ, &txn), 0);
    assert_int_equal(index_pending_get(txn, after.id, &pending), 0);
    assert_int_equal(pending.error, EIO);
    assert_int_equal(pending.codec, SEP_CODEC_ZSTD);
    assert_int_equal(pending.level, 12);
    assert_true(pending.reason[0] != '\0');
    assert_int_equal(index_pending_get(txn, small.block, &pending), 0);
    assert_int_equal(pending.error, EIO);
    index_end(txn);
    assert_int_equal(store_block(&store, tree->small[9], 0, &extent).id, small.block);
    /* The others went through, and nothing is tried again. */
    block = store_block(&store, tree->big, 1, &extent);
    assert_true(cold_form(&block));
    for (unsigned i = 0; i < SMALL; i++) {
        if (i != 9)
            store_expect(&store, tree->small[i], tree->small_bytes[i], tree->small_size[i]);
    }
    status = store_compact(&store, &all);
    assert_int_equal(status.failed, 0);
    assert_int_equal(status.blocks_done, 0);
    store_stop(&store);
    store_remove(&store);
    free(tree);
}

/* A record of the index that does not decode stops no pass, nor a scrub. */
static void malformed_record_is_passed_over(void **state)
{
    struct store store;
    struct tree *tree;
    struct fs_compact_status status;
    struct index_extent extent;
    struct index_block block;
    struct index_key key;
    struct index_txn *txn;

    setup(&store);
    tree = fill(&store);
    block = store_block(&store, tree->big, 0, &extent);
    index_key_one(&key, block.id);
    assert_int_equal(index_begin(store.index, INDEX_WRITE, &txn), 0);
    assert_int_equal(index_db_put(txn, INDEX_DB_BLOCK, &key, "\xff\xff", 2), 0);
    index_end(txn);
    assert_int_equal(index_commit(store.index), 0);
    status = store_compact(&store, &(struct fs_compact_request){.older_than = 1});
    assert_int_equal(status.error, 0);
    status = store_compact(&store, &all);
    assert_int_equal(status.error, 0);
    assert_int_equal(status.failed, 0);
    block = store_block(&store, tree->big, 1, &extent);
    assert_true(cold_form(&block));
    for (unsigned i = 0; i < SMALL; i++)
        store_expect(&store, tree->small[i], tree->small_bytes[i], tree->small_size[i]);
    status = store_compact(&store, &all);
    assert_int_equal(status.blocks_done, 0);
    store_stop(&store);
    store_remove(&store);
    free(tree);
}

/* ---- races --------------------------------------------------------------------------------- */

#define RACERS 24u
#define ROUNDS 15u

struct race {
    struct store *store;
    uint64_t ino[RACERS];
    uint8_t bytes[RACERS][STORE_BLOCK + 5000];
    _Atomic bool stop;
};

static void *compact_again_and_again(void *arg)
{
    struct race *race = arg;

    while (!race->stop)
        store_compact(race->store, &all);
    return NULL;
}

/* Writes go on while passes run: in the end every file holds what was written last. */
static void writers_win(void **state)
{
    struct store store;
    struct race *race = calloc(1, sizeof *race);
    pthread_t thread;

    assert_non_null(race);
    setup(&store);
    race->store = &store;
    for (unsigned i = 0; i < RACERS; i++) {
        char name[16];

        snprintf(name, sizeof name, "r%u", i);
        store_text(race->bytes[i], sizeof race->bytes[i], i);
        race->ino[i] = store_file(&store, INDEX_ROOT_INO, name, race->bytes[i],
                                  i % 2 == 0 ? sizeof race->bytes[i] : 5000);
    }
    assert_int_equal(pthread_create(&thread, NULL, compact_again_and_again, race), 0);
    for (unsigned round = 0; round < ROUNDS; round++) {
        for (unsigned i = round % 3; i < RACERS; i += 3) {
            const size_t size = i % 2 == 0 ? sizeof race->bytes[i] : 5000;
            const size_t at = (round * 911 + i * 37) % (size - 100);

            store_text(race->bytes[i] + at, 100, round * 1000 + i);
            store_write(&store, race->ino[i], race->bytes[i] + at, 100, at);
        }
    }
    race->stop = true;
    pthread_join(thread, NULL);
    store_compact(&store, &all);
    for (unsigned i = 0; i < RACERS; i++) {
        store_expect(&store, race->ino[i], race->bytes[i],
                     i % 2 == 0 ? sizeof race->bytes[i] : 5000);
        assert_int_equal(store_inode(&store, race->ino[i]).stored, charged(&store, race->ino[i]));
    }
    teardown(&store);
    free(race);
}

/* ---- stopping, pausing, half-empty blocks --------------------------------------------------- */

static void stops_in_the_middle(void **state)
{
    struct store store;
    uint8_t *bytes = malloc(24 * STORE_BLOCK);
    uint64_t ino;
    uint64_t ticket;
    struct fs_compact_status status;

    store_create(&store); /* with SEP, which takes its time */
    store_start(&store);
    store_text(bytes, 24 * STORE_BLOCK, 1);
    ino = store_file(&store, INDEX_ROOT_INO, "big", bytes, 24 * STORE_BLOCK);
    assert_int_equal(fs_compactor_request(&store.fs, &all, &ticket), 0);
    do
        assert_int_equal(fs_compactor_wait(&store.fs, ticket, 1, &status), 0);
    while (status.backend[0] == '\0'); /* coding has begun */
    store_stop(&store);
    store.options.cold = (struct sep_method){.codec = SEP_CODEC_ZSTD, .level = 12};
    store_start(&store);
    store_expect(&store, ino, bytes, 24 * STORE_BLOCK);
    assert_int_equal(store_compact(&store, &all).error, 0);
    store_expect(&store, ino, bytes, 24 * STORE_BLOCK);
    assert_int_equal(store_space(&store).hot_blocks, 0);
    teardown(&store);
    free(bytes);
}

static void pauses(void **state)
{
    struct store store;
    struct tree *tree;
    struct fs_compact_status status;
    uint64_t ticket;

    setup(&store);
    tree = fill(&store);
    fs_compactor_pause(&store.fs, true);
    assert_int_equal(fs_compactor_request(&store.fs, &all, &ticket), 0);
    assert_int_equal(fs_compactor_wait(&store.fs, ticket, 300, &status), 0);
    assert_true(status.paused);
    assert_int_equal(status.blocks_done, 0);
    assert_int_equal(fs_compactor_wait(&store.fs, ticket + 1, 10, &status), -ENOENT);
    fs_compactor_pause(&store.fs, false);
    assert_int_equal(fs_compactor_wait(&store.fs, ticket, 600000, &status), 1);
    assert_true(status.blocks_done > 0);
    teardown(&store);
    free(tree);
}

/* The timer compacts what is old by itself, and small files only once they fill a block. */
static void timer_compacts_what_is_old(void **state)
{
    struct store store;
    uint8_t *bytes = malloc(STORE_BLOCK);
    struct index_extent extent;
    struct index_block block;
    uint64_t ino;
    uint64_t tiny;

    store_create(&store);
    store.options.cold = (struct sep_method){.codec = SEP_CODEC_ZSTD, .level = 12};
    store.options.cold_after = 1;
    store_start(&store);
    store_text(bytes, STORE_BLOCK, 3);
    ino = store_file(&store, INDEX_ROOT_INO, "big", bytes, STORE_BLOCK);
    tiny = store_file(&store, INDEX_ROOT_INO, "tiny", bytes, 2000);
    for (unsigned i = 0; i < 1200; i++) {
        block = store_block(&store, ino, 0, &extent);
        if (cold_form(&block))
            break;
        usleep(50000);
    }
    assert_true(cold_form(&block));
    assert_int_equal(store_block(&store, tiny, 0, &extent).flags & INDEX_BLOCK_SHARED, 0);
    store_expect(&store, ino, bytes, STORE_BLOCK);
    teardown(&store);
    free(bytes);
}

static void read_once(struct store *store, uint64_t ino, uint8_t *bytes)
{
    struct fs_inode *inode;

    assert_int_equal(fs_inode_hold(&store->fs, ino, &inode), 0);
    assert_int_equal(fs_file_read(&store->fs, inode, NULL, bytes, STORE_BLOCK, 0), STORE_BLOCK);
    fs_inode_drop(&store->fs, inode);
}

/* With promote, a cold block that is decoded again and again goes back to the hot codec, and is on
 * the hot list again. Once or twice changes nothing. */
static void promotes_what_is_read_often(void **state)
{
    struct store store;
    uint8_t *bytes = malloc(STORE_BLOCK);
    struct index_extent extent;
    uint64_t often;
    uint64_t seldom;

    store_create(&store);
    store.options.promote = true;
    store.options.cache = 0;
    store.options.cold_after = 8; /* the timer comes every two seconds */
    store_start(&store);
    store_text(bytes, STORE_BLOCK, 2);
    seldom = store_file(&store, INDEX_ROOT_INO, "seldom", bytes, STORE_BLOCK);
    store_text(bytes, STORE_BLOCK, 1);
    often = store_file(&store, INDEX_ROOT_INO, "often", bytes, STORE_BLOCK);
    assert_int_equal(store_compact(&store, &all).error, 0);
    assert_int_equal(store_space(&store).hot_blocks, 0);
    for (unsigned i = 0; i < 3; i++)
        read_once(&store, often, bytes);
    read_once(&store, seldom, bytes);
    for (unsigned i = 0; i < 1200; i++) {
        if (store_block(&store, often, 0, &extent).codec == SEP_CODEC_ZSTD)
            break;
        usleep(50000);
    }
    assert_int_equal(store_block(&store, often, 0, &extent).codec, SEP_CODEC_ZSTD);
    assert_int_equal(store_space(&store).hot_blocks, 1);
    assert_int_equal(store_block(&store, seldom, 0, &extent).codec, SEP_CODEC_SEP);
    assert_int_equal(store_inode(&store, often).stored, charged(&store, often));
    store_text(bytes, STORE_BLOCK, 1);
    store_expect(&store, often, bytes, STORE_BLOCK);
    teardown(&store);
    free(bytes);
}

static void half_empty_shared_blocks_are_repacked(void **state)
{
    struct store store;
    struct tree *tree;
    struct index_extent extent;
    struct index_block shared;
    uint64_t old;

    setup(&store);
    tree = fill(&store);
    store_compact(&store, &all);
    shared = store_block(&store, tree->small[SMALL - 1], 0, &extent);
    old = extent.block;
    /* Everything else in that block is overwritten. */
    for (unsigned i = 0; i < SMALL - 1; i++) {
        store_block(&store, tree->small[i], 0, &extent);
        if (extent.block != old)
            continue;
        store_text(tree->small_bytes[i], tree->small_size[i], 500 + i);
        store_write(&store, tree->small[i], tree->small_bytes[i], tree->small_size[i], 0);
    }
    shared = store_block(&store, tree->small[SMALL - 1], 0, &extent);
    assert_int_equal(extent.block, old);
    assert_true(shared.live < shared.plain_size / 2);
    assert_int_equal(store_compact(&store, &all).error, 0);
    shared = store_block(&store, tree->small[SMALL - 1], 0, &extent);
    assert_int_not_equal(extent.block, old);
    assert_true(shared.live >= shared.plain_size / 2);
    expect(&store, tree);
    assert_int_equal(store_compact(&store, &all).blocks_done, 0);
    teardown(&store);
    free(tree);
}

/* An extent that claims more than a block can hold is for reads and fsck to report: a pass over it
 * neither fails nor touches it. */
static void impossible_extents_are_left_alone(void **state)
{
    struct store store;
    struct tree *tree;
    struct index_extent extent, after;
    struct index_key key;
    struct index_txn *txn;
    uint64_t old;

    (void)state;
    setup(&store);
    tree = fill(&store);
    store_compact(&store, &all);
    store_block(&store, tree->small[SMALL - 1], 0, &extent);
    old = extent.block;
    for (unsigned i = 0; i < SMALL - 1; i++) {
        store_block(&store, tree->small[i], 0, &extent);
        if (extent.block == old)
            store_write(&store, tree->small[i], tree->small_bytes[SMALL - 1], 1000 + i, 0);
    }
    assert_int_equal(index_begin(store.index, INDEX_WRITE, &txn), 0);
    assert_int_equal(index_extent_get(txn, tree->small[SMALL - 1], 0, &extent), 0);
    extent.length = 2 * STORE_BLOCK;
    index_key_two(&key, tree->small[SMALL - 1], 0);
    index_record_extent(&txn->record, &extent);
    assert_int_equal(index_db_put_record(txn, INDEX_DB_EXTENT, &key, &txn->record), 0);
    index_end(txn);
    assert_int_equal(store_compact(&store, &all).error, 0);
    assert_int_equal(store_compact(&store, &all).error, 0); /* with nothing else to do */
    store_block(&store, tree->small[SMALL - 1], 0, &after);
    assert_int_equal(after.block, old);
    assert_int_equal(after.length, extent.length);
    store_stop(&store);
    store_remove(&store);
    free(tree);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(contents_stay_and_shrink),
        cmocka_unit_test(second_pass_finds_nothing),
        cmocka_unit_test(small_files_share_blocks),
        cmocka_unit_test(duplicates_move_together),
        cmocka_unit_test(shared_large_blocks_are_charged_right),
        cmocka_unit_test(policy_is_respected),
        cmocka_unit_test(uncompacts_a_subtree),
        cmocka_unit_test(damage_is_not_spread),
        cmocka_unit_test(malformed_record_is_passed_over),
        cmocka_unit_test(writers_win),
        cmocka_unit_test(stops_in_the_middle),
        cmocka_unit_test(pauses),
        cmocka_unit_test(timer_compacts_what_is_old),
        cmocka_unit_test(promotes_what_is_read_often),
        cmocka_unit_test(half_empty_shared_blocks_are_repacked),
        cmocka_unit_test(impossible_extents_are_left_alone),
    };

    return cmocka_run_group_tests_name("compactor", tests, NULL, NULL);
}
