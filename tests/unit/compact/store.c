/* SPDX-License-Identifier: BSD-2-Clause
 *
 * store.c - see store.h.
 */
#include <dirent.h>
#include <errno.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "codec/sep.h"
#include "fs/blocks.h"
#include "fs/file.h"
#include "fs/writeback.h"
#include "store.h"

static void on_log(void *arg, int priority, const char *line)
{
    (void)arg;
    (void)priority;
    fprintf(stderr, "store: %s\n", line);
}

void store_create(struct store *store)
{
    memset(store, 0, sizeof *store);
    snprintf(store->path, sizeof store->path, "%s/sepfs-compact-XXXXXX",
             getenv("TMPDIR") != NULL ? getenv("TMPDIR") : "/tmp");
    assert_non_null(mkdtemp(store->path));
    fs_options_init(&store->options);
    store->options.threads = 2;
    store->options.cold_after = 1000000; /* nothing gets cold by itself */
    store->options.models[0] = '\0';     /* what is installed is not the tests' business */
}

static void open_index(struct store *store)
{
    struct index_options options = {.flags = INDEX_OPEN_CREATE,
                                    .block_size = STORE_BLOCK,
                                    .map_size = (uint64_t)1 << 30,
                                    .pack_size = 4u << 20,
                                    .log = on_log};
    char error[256] = "";
    char conf[300];
    int result;

    snprintf(conf, sizeof conf, "%s/sepfs.conf", store->path);
    if (access(conf, F_OK) == 0)
        options.block_size = 0;
    result = index_open(store->path, &options, &store->index, error, sizeof error);
    if (result != 0)
        fail_msg("index_open: %s (%s)", error, strerror(-result));
}

/* Looks up or makes the root directory. */
static void make_root(struct store *store)
{
    struct index_inode root = {
        .ino = INDEX_ROOT_INO, .parent = INDEX_ROOT_INO, .mode = S_IFDIR | 0755, .nlink = 2};
    struct index_inode found;
    struct index_txn *txn;

    assert_int_equal(index_begin(store->index, INDEX_WRITE, &txn), 0);
    if (index_inode_get(txn, INDEX_ROOT_INO, &found) == -ENOENT)
        assert_int_equal(index_inode_put(txn, &root), 0);
    index_end(txn);
}

void store_start(struct store *store)
{
    open_index(store);
    make_root(store);
    memset(&store->fs, 0, sizeof store->fs);
    assert_int_equal(fs_start(&store->fs, store->index, &store->options), 0);
}

void store_stop(struct store *store)
{
    assert_int_equal(fs_stop(&store->fs), 0);
    assert_int_equal(index_close(store->index), 0);
    store->index = NULL;
}

static int remove_entry(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    (void)st;
    (void)type;
    (void)ftw;
    return remove(path);
}

void store_remove(struct store *store)
{
    assert_int_equal(nftw(store->path, remove_entry, 16, FTW_DEPTH | FTW_PHYS), 0);
}

void store_text(uint8_t *bytes, size_t size, unsigned seed)
{
    static const char *const words[] = {"block ",  "extent ", "inode ", "return ", "struct ",
                                        "static ", "const ",  "if (",   ") {\n",   "}\n",
                                        "pack ",   "offset ", "size ",  "+ ",      "= "};
    uint64_t state = seed * 2654435761u + 1;

    for (size_t i = 0; i < size;) {
        const char *word;

        state = state * 6364136223846793005u + 1442695040888963407u;
        word = words[(state >> 33) % (sizeof words / sizeof *words)];
        for (; *word != '\0' && i < size; word++)
            bytes[i++] = (uint8_t)*word;
    }
}

void store_noise(uint8_t *bytes, size_t size, unsigned seed)
{
    uint64_t state = seed + 1;

    for (size_t i = 0; i < size; i++) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        bytes[i] = (uint8_t)(state >> 56);
    }
}

static uint64_t add_inode(struct store *store, uint64_t dir, const char *name, uint32_t mode)
{
    struct index_inode inode = {.mode = mode, .nlink = S_ISDIR(mode) ? 2 : 1, .parent = dir};
    struct index_inode parent;
    struct index_txn *txn;

    clock_gettime(CLOCK_REALTIME, &inode.mtime);
    inode.atime = inode.ctime = inode.btime = inode.mtime;
    assert_int_equal(index_begin(store->index, INDEX_WRITE, &txn), 0);
    inode.ino = index_inode_new(txn);
    assert_int_equal(index_inode_put(txn, &inode), 0);
    assert_int_equal(index_dirent_add(txn, dir, name, inode.ino, S_ISDIR(mode) ? DT_DIR : DT_REG),
                     0);
    if (S_ISDIR(mode)) {
        assert_int_equal(index_inode_get(txn, dir, &parent), 0);
        parent.nlink++;
        assert_int_equal(index_inode_put(txn, &parent), 0);
    }
    index_end(txn);
    return inode.ino;
}

uint64_t store_mkdir(struct store *store, uint64_t parent, const char *name)
{
    return add_inode(store, parent, name, S_IFDIR | 0755);
}

void store_write(struct store *store, uint64_t ino, const void *bytes, size_t size, uint64_t offset)
{
    struct fs_inode *inode;

    assert_int_equal(fs_inode_hold(&store->fs, ino, &inode), 0);
    assert_int_equal(fs_file_write(&store->fs, inode, bytes, size, offset, false), size);
    assert_int_equal(fs_file_write_back(&store->fs, inode), 0);
    fs_inode_drop(&store->fs, inode);
}

uint64_t store_file(struct store *store, uint64_t dir, const char *name, const void *bytes,
                    size_t size)
{
    const uint64_t ino = add_inode(store, dir, name, S_IFREG | 0644);

    store_write(store, ino, bytes, size, 0);
    return ino;
}

/* Blocks that were recoded in place are read by fs_block_decode: the block cache, which goes by id,
 * may still have what was written. A shared block has a new id. */
void store_expect(struct store *store, uint64_t ino, const void *bytes, size_t size)
{
    uint8_t *plain = malloc(STORE_BLOCK);
    uint8_t *read = malloc(size + 1);
    struct sep_context *context = sep_context_new();
    struct fs_inode *inode;

    assert_non_null(plain);
    assert_non_null(read);
    for (uint64_t number = 0; number * STORE_BLOCK < size; number++) {
        const size_t at = number * STORE_BLOCK;
        const size_t length = size - at < STORE_BLOCK ? size - at : STORE_BLOCK;
        struct index_inode attr = store_inode(store, ino);
        struct index_extent extent;
        uint32_t plain_size;

        if (attr.flags & INDEX_INODE_INLINE)
            break;
        if (store_block(store, ino, number, &extent).flags & INDEX_BLOCK_SHARED)
            continue;
        assert_int_equal(
            fs_block_decode(&store->fs, context, extent.block, ino, plain, &plain_size), 0);
        assert_true(extent.length <= length);
        assert_true(extent.offset + extent.length <= plain_size);
        assert_memory_equal(plain + extent.offset, (const uint8_t *)bytes + at, extent.length);
    }
    assert_int_equal(fs_inode_hold(&store->fs, ino, &inode), 0);
    assert_int_equal(fs_file_read(&store->fs, inode, NULL, read, size + 1, 0), size);
    fs_inode_drop(&store->fs, inode);
    assert_memory_equal(read, bytes, size);
    sep_context_free(context);
    free(plain);
    free(read);
}

struct fs_compact_status store_compact(struct store *store,
                                       const struct fs_compact_request *request)
{
    struct fs_compact_status status;
    uint64_t ticket;

    assert_int_equal(fs_compactor_request(&store->fs, request, &ticket), 0);
    assert_int_equal(fs_compactor_wait(&store->fs, ticket, 600000, &status), 1);
    assert_false(status.running);
    return status;
}

struct index_space store_space(struct store *store)
{
    struct index_space space;

    assert_int_equal(index_space(store->index, &space), 0);
    return space;
}

struct index_inode store_inode(struct store *store, uint64_t ino)
{
    struct index_inode inode;
    struct index_txn *txn;

    assert_int_equal(index_begin(store->index, INDEX_READ, &txn), 0);
    assert_int_equal(index_inode_get(txn, ino, &inode), 0);
    index_end(txn);
    return inode;
}

struct index_block store_block(struct store *store, uint64_t ino, uint64_t number,
                               struct index_extent *extent)
{
    struct index_block block;
    struct index_txn *txn;

    assert_int_equal(index_begin(store->index, INDEX_READ, &txn), 0);
    assert_int_equal(index_extent_get(txn, ino, number, extent), 0);
    assert_int_equal(index_block_get(txn, extent->block, &block), 0);
    index_end(txn);
    return block;
}

static void on_problem(void *arg, const struct index_problem *problem)
{
    ++*(unsigned *)arg;
    fprintf(stderr, "check: %s: %s\n", problem->kind, problem->text);
}

void store_check(struct store *store)
{
    unsigned problems = 0;
    const struct index_check check = {.scrub = true, .problem = on_problem, .arg = &problems};

    struct fs_compact_status status;

    do /* a pass of the timer ends by itself */
        fs_compactor_status(&store->fs, &status);
    while (status.running && usleep(1000) == 0);
    /* Records of packs are brought up to date by a commit. */
    assert_int_equal(index_commit(store->index), 0);
    assert_int_equal(index_check(store->index, &check), 0);
    assert_int_equal(problems, 0);
}
