/* SPDX-License-Identifier: BSD-2-Clause
 *
 * test_threads.c - everything at once: writers and readers of one file, write-back under memory
 * pressure, blocks being moved and re-encoded beneath them as the compactor does, truncation and
 * deletion of other files. Each 4 KiB slot carries its number and version in every word, so a reader
 * can tell a torn, old or misplaced one; versions of a slot never go back.
 */
#include "support.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "fs/workers.h"

#define SLOT    4096u
#define SLOTS   200u /* 50 blocks: more than cache and dirty memory hold */
#define WRITERS 2u
#define READERS 2u
#define SECONDS 3

struct shared {
    struct mounted m;
    struct fs_inode *inode;
    _Atomic uint64_t version[SLOTS]; /* last one whose write returned */
    _Atomic bool stop;
    _Atomic unsigned swapped, reads;
};

struct thread {
    struct shared *shared;
    unsigned number;
};

static void make_slot(uint64_t *words, uint64_t slot, uint64_t version)
{
    for (unsigned i = 0; i < SLOT / 8; i += 2) {
        words[i] = slot;
        words[i + 1] = version;
    }
}

/* Each writer has its own slots. */
static void *write_slots(void *arg)
{
    struct thread *thread = arg;
    struct shared *shared = thread->shared;
    uint64_t random = thread->number + 1, words[SLOT / 8];

    while (!shared->stop) {
        uint64_t slot = random_next(&random) % (SLOTS / WRITERS) * WRITERS + thread->number;
        uint64_t version = shared->version[slot] + 1;

        make_slot(words, slot, version);
        write_all(&shared->m, shared->inode, words, SLOT, slot * SLOT);
        shared->version[slot] = version;
        if (random_next(&random) % 64 == 0)
            assert_int_equal(fs_file_write_back(&shared->m.fs, shared->inode), 0);
    }
    return NULL;
}

static void *read_slots(void *arg)
{
    struct thread *thread = arg;
    struct shared *shared = thread->shared;
    uint64_t random = thread->number + 100, *words = malloc(16 * SLOT);

    assert_non_null(words);
    while (!shared->stop) {
        uint64_t first = random_next(&random) % (SLOTS - 16), count = 1 + random_next(&random) % 16;
        uint64_t least[16];

        for (uint64_t i = 0; i < count; i++)
            least[i] = shared->version[first + i];
        assert_int_equal(
            fs_file_read(&shared->m.fs, shared->inode, NULL, words, count * SLOT, first * SLOT),
            count * SLOT);
        for (uint64_t i = 0; i < count; i++) {
            const uint64_t *slot = words + i * SLOT / 8;

            assert_true(slot[1] >= least[i]);
            for (unsigned j = 0; j < SLOT / 8; j += 2)
                if (slot[j] != first + i || slot[j + 1] != slot[1])
                    fail_msg("slot %llu is torn", (unsigned long long)(first + i));
        }
        shared->reads++;
    }
    free(words);
    return NULL;
}

/* Re-encodes stored blocks, as the compactor does. */
static void *move_blocks(void *arg)
{
    struct thread *thread = arg;
    struct shared *shared = thread->shared;
    struct fs *fs = &shared->m.fs;
    struct sep_context *context = sep_context_new();
    uint8_t plain[BLOCK], payload[BLOCK + SEP_EXPANSION_MAX];
    uint64_t next = 0;

    assert_non_null(context);
    while (!shared->stop) {
        struct index_block block, changed;
        struct sep_method used;
        struct index_txn *txn;
        size_t size;
        uint32_t plain_size;
        int error;

        assert_int_equal(index_begin(fs->index, INDEX_READ, &txn), 0);
        error = index_block_next(txn, next, &block);
        index_end(txn);
        next = error == 0 ? block.id + 1 : 0;
        if (error != 0 || fs_block_decode(fs, context, block.id, 0, plain, &plain_size) != 0)
            continue; /* the end, or the block has gone meanwhile */
        assert_int_equal(sep_encode(context, (struct sep_method){SEP_CODEC_ZSTD, 9}, plain,
                                    plain_size, payload, sizeof(payload), &size, &used),
                         SEP_OK);
        changed = block;
        changed.codec = used.codec;
        changed.level = used.level;
        assert_int_equal(index_pack_append(fs->index, INDEX_COLD, &changed, payload, size), 0);
        assert_int_equal(index_begin(fs->index, INDEX_WRITE, &txn), 0);
        error = index_block_swap(txn, &changed, &block.at);
        index_end(txn);
        assert_true(error == 0 || error == -ESTALE);
        shared->swapped += error == 0;
    }
    sep_context_free(context);
    return NULL;
}

/* Files come, grow, shrink and go. */
static void *come_and_go(void *arg)
{
    struct thread *thread = arg;
    struct shared *shared = thread->shared;
    struct mounted *m = &shared->m;
    uint8_t *data = malloc(6 * BLOCK);

    assert_non_null(data);
    for (unsigned i = 0; !shared->stop; i++) {
        struct fs_inode *inode;
        char name[32];

        snprintf(name, sizeof(name), "passing%u", i);
        inode = file_create(m, name);
        fill(data, 6 * BLOCK, i % 5);
        write_all(m, inode, data, 6 * BLOCK, 0);
        assert_int_equal(fs_file_truncate(&m->fs, inode, BLOCK + i % BLOCK), 0);
        assert_int_equal(fs_file_truncate(&m->fs, inode, 4 * BLOCK), 0);
        expect(m, inode, data, BLOCK + i % BLOCK, 0);
        expect_zeros(m, inode, 3 * BLOCK - i % BLOCK, BLOCK + i % BLOCK);
        assert_int_equal(fs_file_flush(&m->fs, inode), 0);
        if (i % 2 == 0)
            fs_inode_drop(&m->fs, inode);
        file_unlink(m, name);
        if (i % 2 == 1)
            fs_inode_drop(&m->fs, inode);
        if (i % 16 == 0)
            assert_int_equal(index_commit(m->index), 0);
    }
    free(data);
    return NULL;
}

static void check_slots(struct shared *shared)
{
    uint64_t words[SLOT / 8];

    for (unsigned i = 0; i < SLOTS; i++) {
        make_slot(words, i, shared->version[i]);
        expect(&shared->m, shared->inode, words, SLOT, i * SLOT);
    }
}

static void test_all_at_once(void **state)
{
    static struct shared shared;
    struct mounted *m = &shared.m;
    pthread_t ids[WRITERS + READERS + 2];
    struct thread threads[WRITERS + READERS + 2];
    uint64_t words[SLOT / 8], ino;
    unsigned count = 0;

    (void)state;
    memset(&shared, 0, sizeof(shared));
    scratch_make(m);
    m->options.commit = 1;
    store_open(m);
    shared.inode = file_create(m, "slots");
    ino = shared.inode->ino;
    for (unsigned i = 0; i < SLOTS; i++) {
        make_slot(words, i, 0);
        write_all(m, shared.inode, words, SLOT, i * SLOT);
    }
    for (; count < WRITERS + READERS + 2; count++) {
        void *(*run)(void *) = count < WRITERS              ? write_slots
                               : count < WRITERS + READERS  ? read_slots
                               : count == WRITERS + READERS ? move_blocks
                                                            : come_and_go;

        threads[count] = (struct thread){&shared, count < WRITERS ? count : count - WRITERS};
        assert_int_equal(pthread_create(&ids[count], NULL, run, &threads[count]), 0);
    }
    for (time_t end = time(NULL) + SECONDS; time(NULL) < end;) {
        struct timespec pause = {.tv_nsec = 1000000};

        assert_true(fs_writeback_bytes(&m->fs) <= m->options.dirty);
        assert_true(fs_cache_bytes(m->fs.cache) <= m->options.cache);
        nanosleep(&pause, NULL);
    }
    shared.stop = true;
    while (count > 0)
        pthread_join(ids[--count], NULL);
    print_message("%u reads, %u blocks moved, %llu written\n", shared.reads, shared.swapped,
                  (unsigned long long)m->fs.counters.blocks_written);
    assert_true(shared.reads > 0 && shared.swapped > 0);
    check_slots(&shared);
    fs_inode_drop(&m->fs, shared.inode);
    store_reopen(m);
    assert_int_equal(fs_inode_hold(&m->fs, ino, &shared.inode), 0);
    check_slots(&shared);
    assert_int_equal(m->fs.counters.read_errors, 0);
    fs_reaper_wait(&m->fs);
    assert_int_equal(space_get(m).inodes, 2); /* the root and the slots */
    fs_inode_drop(&m->fs, shared.inode);
    store_close(m);
    scratch_remove(m);
}

/* Threads that read the same blocks share their decoding. */
static void *read_all(void *arg)
{
    struct shared *shared = ((struct thread *)arg)->shared;
    uint8_t *data = malloc(8 * BLOCK);

    assert_non_null(data);
    assert_int_equal(fs_file_read(&shared->m.fs, shared->inode, NULL, data, 8 * BLOCK, 0),
                     8 * BLOCK);
    free(data);
    return NULL;
}

static void test_one_decode(void **state)
{
    static struct shared shared;
    struct mounted *m = &shared.m;
    struct thread thread = {&shared, 0};
    uint8_t *data = malloc(8 * BLOCK);
    pthread_t ids[8];

    (void)state;
    assert_non_null(data);
    memset(&shared, 0, sizeof(shared));
    scratch_make(m);
    store_open(m);
    shared.inode = file_create(m, "a");
    fill(data, 8 * BLOCK, 1);
    write_all(m, shared.inode, data, 8 * BLOCK, 0);
    assert_int_equal(fs_file_sync(&m->fs, shared.inode), 0);
    for (unsigned i = 0; i < 8; i++)
        assert_int_equal(pthread_create(&ids[i], NULL, read_all, &thread), 0);
    for (unsigned i = 0; i < 8; i++)
        pthread_join(ids[i], NULL);
    assert_int_equal(m->fs.counters.blocks_read, 8);
    fs_inode_drop(&m->fs, shared.inode);
    store_close(m);
    scratch_remove(m);
    free(data);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_all_at_once),
                                       cmocka_unit_test(test_one_decode)};

    return cmocka_run_group_tests_name("fs threads", tests, NULL, NULL);
}
