/* SPDX-License-Identifier: BSD-2-Clause
 *
 * test_random.c - the data path against a model in memory: random operations on three files with
 * small blocks, little dirty memory and a small cache, compared after every read and whole at the
 * end and after every reopening of the store. The store is checked (index and all records) at each
 * close.
 */
#include "support.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/falloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define FILES      3
#define SIZE_LIMIT (40u * BLOCK)
#define OPERATIONS 2500

struct model {
    char name[16];
    struct fs_inode *inode;
    uint64_t ino;
    uint8_t data[SIZE_LIMIT];
    size_t size;
};

struct world {
    struct mounted m;
    struct model file[FILES];
    uint64_t random;
    uint8_t buffer[SIZE_LIMIT];
};

static uint64_t below(struct world *w, uint64_t limit)
{
    return random_next(&w->random) % limit;
}

/* Offsets like block boundaries and ends of files, and what lies around them. */
static size_t some_offset(struct world *w, const struct model *file)
{
    size_t at;

    switch (below(w, 4)) {
    case 0:
        at = below(w, SIZE_LIMIT / BLOCK) * BLOCK;
        break;
    case 1:
        at = file->size;
        break;
    case 2:
        at = below(w, 600);
        break;
    default:
        at = below(w, SIZE_LIMIT);
    }
    if (below(w, 4) == 0)
        at += below(w, 5) - 2;
    return at < SIZE_LIMIT ? at : SIZE_LIMIT - 1;
}

static size_t some_length(struct world *w, size_t offset)
{
    static const size_t typical[] = {1, 200, 4096, BLOCK, 3 * BLOCK, 20 * BLOCK};
    size_t length = 1 + below(w, typical[below(w, 6)]);

    if (below(w, 3) == 0)
        length = (length + BLOCK - 1) / BLOCK * BLOCK;
    return length < SIZE_LIMIT - offset ? length : SIZE_LIMIT - offset;
}

static void some_bytes(struct world *w, uint8_t *data, size_t size)
{
    switch (below(w, 5)) {
    case 0:
        memset(data, 0, size);
        break;
    case 1:
        fill_noise(data, size, below(w, 4));
        break;
    case 2:
        fill(data, size, below(w, 3)); /* often the same: duplicates */
        break;
    default:
        fill(data, size, random_next(&w->random));
    }
}

static void grow(struct model *file, size_t size)
{
    if (size > file->size) {
        memset(file->data + file->size, 0, size - file->size);
        file->size = size;
    }
}

static void verify(struct world *w, struct model *file)
{
    struct index_inode attr;
    struct index_txn *txn;

    assert_int_equal(index_begin(w->m.index, INDEX_READ, &txn), 0);
    assert_int_equal(fs_attr_get(&w->m.fs, txn, file->ino, &attr), 0);
    index_end(txn);
    assert_int_equal(attr.size, file->size);
    if (file->size > 0)
        expect(&w->m, file->inode, file->data, file->size, 0);
    assert_int_equal(fs_file_read(&w->m.fs, file->inode, NULL, w->buffer, 1, file->size), 0);
}

static void op_read(struct world *w, struct model *file)
{
    size_t offset = some_offset(w, file), length = some_length(w, offset);
    size_t there = offset < file->size ? file->size - offset : 0;
    struct fs_handle handle = {.inode = file->inode};

    if (length > there)
        length = there;
    assert_int_equal(fs_file_read(&w->m.fs, file->inode, &handle, w->buffer, length, offset),
                     length);
    assert_memory_equal(w->buffer, file->data + offset, length);
}

static void op_write(struct world *w, struct model *file)
{
    bool append = below(w, 8) == 0 && file->size < SIZE_LIMIT;
    size_t offset = append ? file->size : some_offset(w, file), length = some_length(w, offset);

    some_bytes(w, w->buffer, length);
    for (size_t done = 0; done < length;) {
        ssize_t wrote = fs_file_write(&w->m.fs, file->inode, w->buffer + done, length - done,
                                      append ? 7 : offset + done, append);

        assert_true(wrote > 0);
        done += (size_t)wrote;
    }
    if (offset > file->size)
        grow(file, offset);
    memcpy(file->data + offset, w->buffer, length);
    if (offset + length > file->size)
        file->size = offset + length;
}

static void op_truncate(struct world *w, struct model *file)
{
    size_t size = some_offset(w, file);

    assert_int_equal(fs_file_truncate(&w->m.fs, file->inode, size), 0);
    grow(file, size);
    file->size = size;
}

static void op_allocate(struct world *w, struct model *file)
{
    static const int modes[] = {0, FALLOC_FL_KEEP_SIZE, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                                FALLOC_FL_ZERO_RANGE, FALLOC_FL_ZERO_RANGE | FALLOC_FL_KEEP_SIZE};
    int mode = modes[below(w, 5)];
    size_t offset = some_offset(w, file), length = some_length(w, offset);
    size_t end = offset + length;

    assert_int_equal(fs_file_allocate(&w->m.fs, file->inode, mode, offset, length), 0);
    if ((mode & FALLOC_FL_KEEP_SIZE) == 0)
        grow(file, end);
    if (end > file->size)
        end = file->size;
    if ((mode & (FALLOC_FL_PUNCH_HOLE | FALLOC_FL_ZERO_RANGE)) != 0 && offset < end)
        memset(file->data + offset, 0, end - offset);
}

static void op_copy(struct world *w, struct model *from)
{
    struct model *to = &w->file[below(w, FILES)];
    size_t offset = some_offset(w, from), target = some_offset(w, to), length, there;
    ssize_t copied;

    if (below(w, 2) == 0) {
        offset -= offset % BLOCK;
        target -= target % BLOCK;
    }
    length = some_length(w, offset > target ? offset : target);
    there = offset < from->size ? from->size - offset : 0;
    copied = fs_file_copy(&w->m.fs, from->inode, offset, to->inode, target, length);
    if (length > there)
        length = there;
    if (from == to && length > 0 && offset < target + length && target < offset + length) {
        assert_int_equal(copied, -EINVAL);
        return;
    }
    assert_int_equal(copied, length);
    if (copied <= 0)
        return;
    grow(to, target + (size_t)copied);
    memcpy(to->data + target, from->data + offset, (size_t)copied);
}

/* Every byte that isn't zero lies in data, and the answers make progress. */
static void op_seek(struct world *w, struct model *file)
{
    uint64_t at = 0;

    while (at < file->size) {
        off_t data = fs_file_seek(&w->m.fs, file->inode, at, SEEK_DATA), hole;
        size_t until = data == -ENXIO ? file->size : (size_t)data;

        assert_true(data == -ENXIO || ((uint64_t)data >= at && (uint64_t)data < file->size));
        for (; at < until; at++)
            assert_int_equal(file->data[at], 0);
        if (data == -ENXIO)
            break;
        hole = fs_file_seek(&w->m.fs, file->inode, at, SEEK_HOLE);
        /* write-back may have found zeros in the block since: then the hole begins right here */
        assert_true((uint64_t)hole >= at && (uint64_t)hole <= file->size);
        at = (uint64_t)hole;
    }
    assert_int_equal(fs_file_seek(&w->m.fs, file->inode, file->size, SEEK_DATA), -ENXIO);
    assert_int_equal(fs_file_seek(&w->m.fs, file->inode, file->size, SEEK_HOLE), -ENXIO);
}

static void reopen(struct world *w)
{
    for (int i = 0; i < FILES; i++)
        fs_inode_drop(&w->m.fs, w->file[i].inode);
    store_reopen(&w->m);
    for (int i = 0; i < FILES; i++) {
        assert_int_equal(fs_inode_hold(&w->m.fs, w->file[i].ino, &w->file[i].inode), 0);
        assert_int_equal(record_size(&w->m, w->file[i].ino), w->file[i].size);
        verify(w, &w->file[i]);
    }
}

static void op_other(struct world *w, struct model *file)
{
    switch (below(w, 8)) {
    case 0:
        assert_int_equal(fs_file_sync(&w->m.fs, file->inode), 0);
        assert_int_equal(record_size(&w->m, file->ino), file->size);
        break;
    case 1:
        assert_int_equal(fs_file_flush(&w->m.fs, file->inode), 0);
        break;
    case 2:
        assert_int_equal(fs_file_write_back(&w->m.fs, file->inode), 0);
        break;
    case 3:
        fs_cache_drop(w->m.fs.cache);
        break;
    case 4: /* the inode leaves memory, when nothing is dirty */
        fs_inode_drop(&w->m.fs, file->inode);
        assert_int_equal(fs_inode_hold(&w->m.fs, file->ino, &file->inode), 0);
        break;
    case 5:
        op_seek(w, file);
        break;
    case 6:
        verify(w, file);
        break;
    default:
        if (below(w, 20) == 0)
            reopen(w);
    }
}

static void run_seed(uint64_t seed)
{
    static struct world w; /* too large for the stack */

    memset(&w, 0, sizeof(w));
    w.random = seed * UINT64_C(0x9E3779B97F4A7C15) + 1;
    scratch_make(&w.m);
    if (seed % 3 == 1)
        w.m.options.hot.codec = SEP_CODEC_LZ4, w.m.options.hot.level = 1;
    if (seed % 2 == 1)
        w.m.options.commit = 1; /* the flusher takes part */
    store_open(&w.m);
    for (int i = 0; i < FILES; i++) {
        snprintf(w.file[i].name, sizeof(w.file[i].name), "file%d", i);
        w.file[i].inode = file_create(&w.m, w.file[i].name);
        w.file[i].ino = w.file[i].inode->ino;
    }
    for (int i = 0; i < OPERATIONS; i++) {
        struct model *file = &w.file[below(&w, FILES)];
        uint64_t kind = below(&w, 100);

        if (kind < 30)
            op_read(&w, file);
        else if (kind < 60)
            op_write(&w, file);
        else if (kind < 68)
            op_truncate(&w, file);
        else if (kind < 78)
            op_allocate(&w, file);
        else if (kind < 85)
            op_copy(&w, file);
        else
            op_other(&w, file);
        assert_true(fs_writeback_bytes(&w.m.fs) <= w.m.options.dirty);
        assert_true(fs_cache_bytes(w.m.fs.cache) <= w.m.options.cache);
    }
    reopen(&w);
    for (int i = 0; i < FILES; i++)
        fs_inode_drop(&w.m.fs, w.file[i].inode);
    store_close(&w.m);
    scratch_remove(&w.m);
}

static void test_random(void **state)
{
    const char *given = getenv("SEPFS_TEST_SEED"); /* one seed, to repeat a failure */

    (void)state;
    if (given != NULL) {
        run_seed(strtoull(given, NULL, 10));
        return;
    }
    for (uint64_t seed = 1; seed <= 8; seed++) {
        print_message("seed %llu\n", (unsigned long long)seed);
        run_seed(seed);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_random)};

    return cmocka_run_group_tests_name("fs random", tests, NULL, NULL);
}
