/* SPDX-License-Identifier: BSD-2-Clause
 *
 * fixture.c - builds, opens, damages and checks the small store of fixture.h.
 */
#include "fixture.h"

#include <dirent.h>
#include <fcntl.h>
#include <ftw.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

void fixture_open(struct fixture *fixture, unsigned flags)
{
    char error[512] = "";
    const struct index_options options = {.flags = flags,
                                          .block_size =
                                              flags & INDEX_OPEN_CREATE ? FIXTURE_BLOCK : 0,
                                          .map_size = UINT64_C(64) << 20,
                                          .pack_size = 64 << 10};
    if (index_open(fixture->path, &options, &fixture->index, error, sizeof error) != 0)
        fail_msg("%s", error);
}

void fixture_create(struct fixture *fixture)
{
    strcpy(fixture->path, "/tmp/sepfs-check-XXXXXX");
    assert_non_null(mkdtemp(fixture->path));
    fixture_open(fixture, INDEX_OPEN_CREATE);
}

void fixture_close(struct fixture *fixture)
{
    assert_int_equal(index_close(fixture->index), 0);
    fixture->index = NULL;
}

static int remove_entry(const char *path, const struct stat *status, int type, struct FTW *where)
{
    return remove(path);
}

void fixture_remove(struct fixture *fixture)
{
    if (fixture->index != NULL)
        fixture_close(fixture);
    nftw(fixture->path, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
}

void fixture_bytes(uint64_t seed, uint8_t *bytes)
{
    uint64_t state = seed * UINT64_C(0x9e3779b97f4a7c15) + 1;
    for (size_t i = 0; i < FIXTURE_BLOCK; i += 8) {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        memcpy(bytes + i, &state, 8);
    }
}

/* ---- making things ------------------------------------------------------------------------- */

static uint64_t add(struct fixture *fixture, struct index_txn *txn, uint64_t dir, const char *name,
                    struct index_inode *inode)
{
    inode->ino = index_inode_new(txn);
    inode->parent = dir;
    inode->nlink = S_ISDIR(inode->mode) ? 2 : 1;
    assert_int_equal(index_inode_put(txn, inode), 0);
    assert_int_equal(index_dirent_add(txn, dir, name, inode->ino, (uint8_t)IFTODT(inode->mode)), 0);
    if (S_ISDIR(inode->mode)) {
        struct index_inode parent;
        assert_int_equal(index_inode_get(txn, dir, &parent), 0);
        parent.nlink++;
        assert_int_equal(index_inode_put(txn, &parent), 0);
    }
    return inode->ino;
}

static uint64_t add_alone(struct fixture *fixture, uint64_t dir, const char *name,
                          struct index_inode *inode)
{
    struct index_txn *txn;
    assert_int_equal(index_begin(fixture->index, INDEX_WRITE, &txn), 0);
    const uint64_t ino = add(fixture, txn, dir, name, inode);
    index_end(txn);
    return ino;
}

uint64_t fixture_directory(struct fixture *fixture, uint64_t dir, const char *name)
{
    return add_alone(fixture, dir, name, &(struct index_inode){.mode = S_IFDIR | 0755});
}

uint64_t fixture_symlink(struct fixture *fixture, uint64_t dir, const char *name,
                         const char *target)
{
    const uint32_t size = (uint32_t)strlen(target);
    return add_alone(fixture, dir, name,
                     &(struct index_inode){.mode = S_IFLNK | 0777,
                                           .size = size,
                                           .flags = INDEX_INODE_INLINE,
                                           .inline_size = size,
                                           .inline_data = target});
}

uint64_t fixture_inline(struct fixture *fixture, uint64_t dir, const char *name, const char *text)
{
    const uint32_t size = (uint32_t)strlen(text);
    return add_alone(fixture, dir, name,
                     &(struct index_inode){.mode = S_IFREG | 0644,
                                           .size = size,
                                           .flags = INDEX_INODE_INLINE,
                                           .inline_size = size,
                                           .inline_data = text});
}

void fixture_append(struct fixture *fixture, struct index_block *block, uint64_t seed,
                    enum index_class class)
{
    uint8_t bytes[FIXTURE_BLOCK];
    fixture_bytes(seed, bytes);
    block->plain_size = FIXTURE_BLOCK;
    block->hash = index_hash_of(bytes, sizeof bytes);
    assert_int_equal(index_pack_append(fixture->index, class, block, bytes, sizeof bytes), 0);
}

uint64_t fixture_file(struct fixture *fixture, uint64_t dir, const char *name, uint64_t seed,
                      unsigned count, enum index_class class)
{
    struct index_txn *txn;
    struct index_inode inode = {.mode = S_IFREG | 0644, .size = (uint64_t)count * FIXTURE_BLOCK};
    struct index_block blocks[64] = {0};
    assert_true(count <= 64);
    for (unsigned i = 0; i < count; i++) {
        blocks[i].id = index_block_new(fixture->index);
        blocks[i].owner_ino = fixture->index->next_ino; /* the number that add will take */
        blocks[i].owner_block = i;
        fixture_append(fixture, &blocks[i], seed + i, class);
    }
    assert_int_equal(index_begin(fixture->index, INDEX_WRITE, &txn), 0);
    add(fixture, txn, dir, name, &inode);
    for (unsigned i = 0; i < count; i++) {
        const struct index_extent extent = {
            .number = i, .block = blocks[i].id, .length = FIXTURE_BLOCK};
        assert_int_equal(index_block_add(txn, &blocks[i], class), 0);
        assert_int_equal(index_extent_set(txn, inode.ino, &extent, &inode), 0);
    }
    assert_int_equal(index_inode_put(txn, &inode), 0);
    index_end(txn);
    return inode.ino;
}

void fixture_delete(struct fixture *fixture, uint64_t dir, const char *name)
{
    struct index_txn *txn;
    struct index_dirent entry;
    bool more;
    assert_int_equal(index_begin(fixture->index, INDEX_WRITE, &txn), 0);
    assert_int_equal(index_dirent_lookup(txn, dir, name, &entry), 0);
    assert_int_equal(index_dirent_remove(txn, dir, name), 0);
    assert_int_equal(index_extent_remove(txn, entry.ino, 0, UINT64_MAX, 4096, NULL, &more), 0);
    assert_false(more);
    assert_int_equal(index_inode_delete(txn, entry.ino), 0);
    index_end(txn);
}

/* ---- looking at things --------------------------------------------------------------------- */

uint64_t fixture_block(struct fixture *fixture, uint64_t ino, uint64_t number)
{
    struct index_txn *txn;
    struct index_extent extent;
    assert_int_equal(index_begin(fixture->index, INDEX_READ, &txn), 0);
    assert_int_equal(index_extent_get(txn, ino, number, &extent), 0);
    index_end(txn);
    return extent.block;
}

int fixture_read(struct fixture *fixture, uint64_t id, uint8_t *bytes)
{
    struct index_txn *txn;
    struct index_block block;
    assert_int_equal(index_begin(fixture->index, INDEX_READ, &txn), 0);
    const int error = index_block_get(txn, id, &block);
    index_end(txn);
    return error != 0 ? error : index_pack_read(fixture->index, &block, bytes);
}

void fixture_expect(struct fixture *fixture, uint64_t ino, uint64_t seed, unsigned count)
{
    uint8_t want[FIXTURE_BLOCK], got[FIXTURE_BLOCK];
    for (unsigned i = 0; i < count; i++) {
        fixture_bytes(seed + i, want);
        assert_int_equal(fixture_read(fixture, fixture_block(fixture, ino, i), got), 0);
        assert_memory_equal(got, want, FIXTURE_BLOCK);
    }
}

void fixture_flip(const struct fixture *fixture, uint32_t pack, uint64_t offset)
{
    char path[128], name[16];
    uint8_t byte;
    index_pack_name(pack, name);
    snprintf(path, sizeof path, "%s/packs/%s", fixture->path, name);
    const int fd = open(path, O_RDWR | O_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(pread(fd, &byte, 1, (off_t)offset), 1);
    byte ^= 0x10;
    assert_int_equal(pwrite(fd, &byte, 1, (off_t)offset), 1);
    close(fd);
}

/* ---- the tree ------------------------------------------------------------------------------ */

void fixture_tree(struct fixture *fixture, struct tree *tree)
{
    struct index_txn *txn;
    struct index_inode inode;
    tree->a = fixture_directory(fixture, INDEX_ROOT_INO, "a");
    tree->b = fixture_directory(fixture, tree->a, "b");
    tree->one = fixture_file(fixture, tree->a, "one", 100, 4, INDEX_HOT);
    tree->two = fixture_file(fixture, tree->b, "two", 200, 1, INDEX_COLD);
    tree->sparse = fixture_file(fixture, tree->a, "sparse", 300, 1, INDEX_HOT);
    tree->link = fixture_symlink(fixture, INDEX_ROOT_INO, "link", "a/one");
    tree->small = fixture_inline(fixture, INDEX_ROOT_INO, "small", "a few bytes");
    const uint64_t shared = fixture_block(fixture, tree->one, 1);
    const uint64_t lonely = fixture_block(fixture, tree->sparse, 0);
    bool more;
    assert_int_equal(index_begin(fixture->index, INDEX_WRITE, &txn), 0);
    /* /hard */
    assert_int_equal(index_dirent_add(txn, INDEX_ROOT_INO, "hard", tree->one, DT_REG), 0);
    assert_int_equal(index_inode_get(txn, tree->one, &inode), 0);
    inode.nlink = 2;
    assert_int_equal(index_inode_put(txn, &inode), 0);
    assert_int_equal(index_xattr_set(txn, tree->one, "user.x", "y", 1, 0), 0);
    /* the second block of two is the second of one */
    assert_int_equal(index_inode_get(txn, tree->two, &inode), 0);
    inode.size = 2 * FIXTURE_BLOCK;
    assert_int_equal(
        index_extent_set(
            txn, tree->two,
            &(struct index_extent){.number = 1, .block = shared, .length = FIXTURE_BLOCK}, &inode),
        0);
    assert_int_equal(index_inode_put(txn, &inode), 0);
    /* the block of sparse lies at 5 instead of 0 */
    assert_int_equal(index_inode_get(txn, tree->sparse, &inode), 0);
    inode.size = 6 * FIXTURE_BLOCK;
    assert_int_equal(
        index_extent_set(
            txn, tree->sparse,
            &(struct index_extent){.number = 5, .block = lonely, .length = FIXTURE_BLOCK}, &inode),
        0);
    assert_int_equal(index_extent_remove(txn, tree->sparse, 0, 0, 1, &inode, &more), 0);
    assert_int_equal(index_inode_put(txn, &inode), 0);
    const struct index_pending pending = {.block = lonely, .error = 0, .reason = "larger"};
    assert_int_equal(index_pending_put(txn, &pending), 0);
    index_end(txn);
    assert_int_equal(index_commit(fixture->index), 0);
}

/* ---- problems ------------------------------------------------------------------------------ */

static void on_problem(void *arg, const struct index_problem *problem)
{
    struct problems *const problems = arg;
    problems->found += problem->state == INDEX_PROBLEM_FOUND;
    problems->fixed += problem->state == INDEX_PROBLEM_FIXED;
    problems->lost += problem->state == INDEX_PROBLEM_LOST;
    problems->underivable += problem->state != INDEX_PROBLEM_LOST && !problem->derivable;
    const size_t used = strlen(problems->text);
    snprintf(problems->text + used, sizeof problems->text - used, "%s: %s\n", problem->kind,
             problem->text);
    char word[64];
    snprintf(word, sizeof word, "%s ", problem->kind);
    if (strstr(problems->kinds, word) == NULL &&
        strlen(problems->kinds) + strlen(word) < sizeof problems->kinds)
        strcat(problems->kinds, word);
}

int fixture_check(struct fixture *fixture, bool repair, bool scrub, struct problems *problems)
{
    const struct index_check check = {
        .repair = repair, .scrub = scrub, .threads = 2, .problem = on_problem, .arg = problems};
    memset(problems, 0, sizeof *problems);
    const int error = index_check(fixture->index, &check);
    const size_t size = strlen(problems->kinds);
    if (size > 0)
        problems->kinds[size - 1] = '\0'; /* the last blank */
    return error;
}
