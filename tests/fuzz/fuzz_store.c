/* SPDX-License-Identifier: BSD-2-Clause
 *
 * fuzz_store.c - a whole store: opening, checking, reading and repairing one whose index file was
 * changed (index/, and LMDB as far as it is let at it), and salvaging one whose index is gone from a
 * pack that was changed.
 *
 * Input: byte 0 the mode, then up to 64 changes, each a place and a value; some places are drawn to
 * where page headers and node pointers lie. Properties: opening ends with a refusal that says why, or the check ends; what
 * the check calls clean can be walked, names and contents, without an error; a repair that succeeds
 * leaves nothing that it would repair again; salvage finds every record of the pack that was not
 * changed, and makes a store with nothing left to repair.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fuzz.h"
#include "index/internal.h"

enum { FILES = 20, PLAIN = 1000, ROOM = 1 << 20, ROUNDS = 4 };

static char store[128], index_file[160], index_directory[160], pack_file[160];
static uint8_t original[ROOM], pack[ROOM], changed[ROOM];
static size_t file_size, pack_size;
static uint64_t record_at[FILES]; /* in the pack */

static struct index *open_store(unsigned flags, char *error, size_t size)
{
    const struct index_options options = {.flags = flags, .map_size = 1u << 26};
    struct index *index = NULL;
    const int result = index_open(store, &options, &index, error, size);

    FUZZ_CHECK((result == 0) == (index != NULL));
    if (index == NULL)
        FUZZ_CHECK(result < 0 && error[0] != '\0');
    return index;
}

static void add_file(struct index *index, unsigned number)
{
    uint8_t plain[PLAIN];
    char name[32];
    struct index_txn *txn;
    struct index_inode inode = {
        .parent = INDEX_ROOT_INO, .mode = S_IFREG | 0644, .nlink = 1, .size = PLAIN};
    struct index_block block = {.id = index_block_new(index), .plain_size = PLAIN};

    memset(plain, (int)number, sizeof plain);
    block.hash = index_hash_of(plain, PLAIN);
    FUZZ_CHECK(index_pack_append(index, INDEX_HOT, &block, plain, PLAIN) == 0);
    record_at[number] = block.at.offset;
    FUZZ_CHECK(index_begin(index, INDEX_WRITE, &txn) == 0);
    inode.ino = index_inode_new(txn);
    snprintf(name, sizeof name, "file-%u", number);
    const struct index_extent extent = {.block = block.id, .length = PLAIN};
    FUZZ_CHECK(index_block_add(txn, &block, INDEX_HOT) == 0);
    FUZZ_CHECK(index_extent_set(txn, inode.ino, &extent, &inode) == 0);
    FUZZ_CHECK(index_inode_put(txn, &inode) == 0);
    FUZZ_CHECK(index_dirent_add(txn, INDEX_ROOT_INO, name, inode.ino, DT_REG) == 0);
    FUZZ_CHECK(index_xattr_set(txn, inode.ino, "user.name", name, strlen(name), 0) == 0);
    index_end(txn);
}

static size_t load(const char *path, uint8_t *bytes)
{
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    const ssize_t got = read(fd, bytes, ROOM);

    FUZZ_CHECK(fd >= 0 && got > 0 && got < ROOM);
    close(fd);
    return (size_t)got;
}

static void save(const char *path, const uint8_t *bytes, size_t size)
{
    const int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

    FUZZ_CHECK(fd >= 0 && write(fd, bytes, size) == (ssize_t)size);
    close(fd);
}

static void prepare(void)
{
    char error[256] = "";

    snprintf(store, sizeof store, "%s/store", fuzz_scratch());
    snprintf(index_directory, sizeof index_directory, "%s/index", store);
    snprintf(index_file, sizeof index_file, "%s/index/data.mdb", store);
    snprintf(pack_file, sizeof pack_file, "%s/packs/00000001.pack", store);
    struct index *const index = open_store(INDEX_OPEN_CREATE, error, sizeof error);
    FUZZ_CHECK(index != NULL);
    for (unsigned i = 0; i < FILES; i++)
        add_file(index, i);
    FUZZ_CHECK(index_close(index) == 0);
    file_size = load(index_file, original);
    pack_size = load(pack_file, pack);
}

/* Removes the index, copies of it and what was set aside. */
static void clear_index(void)
{
    DIR *const directory = opendir(index_directory);
    struct dirent *entry;

    FUZZ_CHECK(directory != NULL);
    while ((entry = readdir(directory)) != NULL)
        (void)unlinkat(dirfd(directory), entry->d_name, 0);
    closedir(directory);
}

struct found {
    unsigned open; /* found and not repaired, but could be */
    unsigned all;
};

static void on_problem(void *arg, const struct index_problem *problem)
{
    struct found *const found = arg;

    FUZZ_CHECK(problem->kind != NULL && problem->text[0] != '\0');
    found->all++;
    found->open += problem->state != INDEX_PROBLEM_LOST;
}

static int check(struct index *index, bool repair, struct found *found)
{
    const struct index_check options = {
        .repair = repair, .scrub = true, .problem = on_problem, .arg = found};

    *found = (struct found){0};
    return index_check(index, &options);
}

/* Reads every name, inode, extent and block of a clean store. */
static void walk(struct index *index)
{
    struct index_dirent entry;
    struct index_inode inode;
    struct index_extent extent;
    struct index_block block;
    struct index_txn *txn;
    uint64_t cookie = 0;

    FUZZ_CHECK(index_begin(index, INDEX_READ, &txn) == 0);
    for (unsigned i = 0; index_dirent_next(txn, INDEX_ROOT_INO, cookie, &entry) == 0; i++) {
        FUZZ_CHECK(i <= 10 * FILES);
        cookie = entry.cookie + 1;
        FUZZ_CHECK(index_inode_get(txn, entry.ino, &inode) == 0);
        if (index_extent_next(txn, entry.ino, 0, &extent) == 0)
            FUZZ_CHECK(index_block_get(txn, extent.block, &block) == 0);
    }
    index_end(txn);
}

/* Changes bytes of ORIGINAL, a page or record at a time, into changed[]. */
static void change(struct fuzz_input *input, const uint8_t *from, size_t size)
{
    static const uint8_t extremes[] = {0, 0xff, 1, 0x7f, 0x80, 2, 16, 0xfe};
    const size_t pages = size / 4096;

    memcpy(changed, from, size);
    for (unsigned i = 0; i < 64 && input->left > 0; i++) {
        const uint8_t how = fuzz_u8(input);
        const size_t page = fuzz_u8(input) % pages * 4096;
        const size_t at = page + (how & 1 ? fuzz_u8(input) % 96u : fuzz_u16(input) % 4096u);

        changed[at] = how & 2 ? extremes[fuzz_u8(input) % 8] : fuzz_u8(input);
        if (how & 4)
            memcpy(changed + page, from + fuzz_u8(input) % pages * 4096, 4096);
    }
}

static void damaged_index(struct fuzz_input *input)
{
    struct found found, before = {0};
    char error[256] = "";
    struct index *index;

    change(input, original, file_size);
    clear_index();
    save(index_file, changed, file_size);
    save(pack_file, pack, pack_size);
    index = open_store(INDEX_OPEN_READONLY | INDEX_OPEN_NO_RECOVER, error, sizeof error);
    if (index == NULL)
        return;
    if (check(index, false, &before) == 0 && before.all == 0)
        walk(index);
    (void)index_close(index);
    if (before.all == 0)
        return;
    for (unsigned round = 0; round < ROUNDS; round++) {
        index = open_store(INDEX_OPEN_NO_RECOVER, error, sizeof error);
        if (index == NULL)
            return;
        const int result = check(index, true, &found);
        const int closed = index_close(index);
        if (result != 0 || closed != 0 || found.open == 0)
            return;
    }
    FUZZ_CHECK(found.open == 0);
}

static void ignore_problem(void *arg, const struct index_problem *problem)
{
    (void)arg;
    FUZZ_CHECK(problem->kind != NULL && problem->text[0] != '\0');
}

static void damaged_pack(struct fuzz_input *input)
{
    const struct index_salvage options = {.problem = ignore_problem};
    struct index_salvage_result result = {0};
    struct found found;
    char error[256] = "";
    unsigned intact = 0;

    change(input, pack, pack_size);
    clear_index();
    save(pack_file, changed, pack_size);
    for (unsigned i = 0; i < FILES; i++)
        intact +=
            memcmp(changed + record_at[i], pack + record_at[i], INDEX_RECORD_HEADER + PLAIN) == 0;
    FUZZ_CHECK(index_salvage(store, &options, &result, error, sizeof error) == 0);
    FUZZ_CHECK(result.blocks_found >= intact);
    struct index *const index = open_store(INDEX_OPEN_READONLY, error, sizeof error);
    FUZZ_CHECK(index != NULL && check(index, false, &found) == 0 && found.open == 0);
    (void)index_close(index);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_input input = {data, size};

    if (file_size == 0)
        prepare();
    if (fuzz_u8(&input) & 1)
        damaged_pack(&input);
    else
        damaged_index(&input);
    return 0;
}
