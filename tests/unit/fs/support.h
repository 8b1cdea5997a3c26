/* SPDX-License-Identifier: BSD-2-Clause
 *
 * support.h - what the tests of the data path share: a store in a scratch directory without FUSE,
 * files in its root, contents that follow from a number, and failing system calls.
 */
#ifndef TEST_FS_SUPPORT_H
#define TEST_FS_SUPPORT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "fs/blocks.h"
#include "fs/dirty.h"
#include "fs/file.h"
#include "fs/reaper.h"
#include "fs/writeback.h"

#define BLOCK 16384u

struct mounted {
    char path[256]; /* scratch directory; the store is PATH/store */
    char store[280];
    struct fs_options options;
    const char *expected_problem; /* kind that the check at close may report; NULL = none */
    struct index *index;
    struct fs fs;
};

/* Makes the scratch directory and options: 16 KiB blocks, 2 workers, 256 KiB dirty, 256 KiB cache,
 * zstd:3, an hour between commits (tests commit themselves). Does not open. */
void scratch_make(struct mounted *m);
void scratch_remove(struct mounted *m);

void store_open(struct mounted *m);
/* Stops, checks everything the index says and every record in the packs, closes. */
void store_close(struct mounted *m);
void store_reopen(struct mounted *m);

/* A regular file NAME in the root, held. */
struct fs_inode *file_create(struct mounted *m, const char *name);
/* Takes the name away (the inode may be open). */
void file_unlink(struct mounted *m, const char *name);
void record_get(struct mounted *m, uint64_t ino, struct index_inode *record);
uint64_t record_size(struct mounted *m, uint64_t ino);
/* The extent of a block; length 0 for a hole. */
struct index_extent extent_get(struct mounted *m, uint64_t ino, uint64_t number);
struct index_space space_get(struct mounted *m);

/* Bytes that compress by about half and follow from SEED. */
void fill(uint8_t *data, size_t size, uint64_t seed);
/* Bytes that don't compress. */
void fill_noise(uint8_t *data, size_t size, uint64_t seed);

void write_all(struct mounted *m, struct fs_inode *inode, const void *data, size_t size,
               uint64_t offset);
/* Reads SIZE bytes at OFFSET and compares. */
void expect(struct mounted *m, struct fs_inode *inode, const void *data, size_t size,
            uint64_t offset);
void expect_zeros(struct mounted *m, struct fs_inode *inode, size_t size, uint64_t offset);

/* Flips a byte of the stored payload of a block. */
void damage_block(struct mounted *m, uint64_t block);

/* Pseudo-random numbers (xorshift64*). */
uint64_t random_next(uint64_t *state);

/* While set, pack writes fail with this errno. */
extern _Atomic int fail_pack_writes;
/* While set, pack writes wait; how many are in progress. */
extern atomic_bool hold_pack_writes;
extern _Atomic unsigned held_pack_writes;

#endif
