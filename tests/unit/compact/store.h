/* SPDX-License-Identifier: BSD-2-Clause
 *
 * store.h - a store in a temporary directory with the data path and the compactor running, without
 * FUSE; for the tests of the compactor.
 */
#ifndef TESTS_COMPACT_STORE_H
#define TESTS_COMPACT_STORE_H

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>

#include <cmocka.h>

#include "fs/compactor.h"
#include "fs/core.h"

#define STORE_BLOCK (64u << 10)

struct store {
    char path[256];
    struct fs_options options;
    struct index *index;
    struct fs fs;
};

/* A new store. Its options may be changed before store_start. */
void store_create(struct store *store);
void store_start(struct store *store); /* opens and starts */
void store_stop(struct store *store);  /* stops and closes; the files stay */
void store_remove(struct store *store);

/* Deterministic bytes that compress like text. */
void store_text(uint8_t *bytes, size_t size, unsigned seed);
/* Bytes that do not compress. */
void store_noise(uint8_t *bytes, size_t size, unsigned seed);

uint64_t store_mkdir(struct store *store, uint64_t parent, const char *name);
/* A file with these contents, written back. Returns its inode number. */
uint64_t store_file(struct store *store, uint64_t dir, const char *name, const void *bytes,
                    size_t size);
void store_write(struct store *store, uint64_t ino, const void *bytes, size_t size,
                 uint64_t offset);
/* Fails the test unless the file holds exactly these bytes, read past the block cache. */
void store_expect(struct store *store, uint64_t ino, const void *bytes, size_t size);

/* Runs a request to its end. */
struct fs_compact_status store_compact(struct store *store,
                                       const struct fs_compact_request *request);

struct index_space store_space(struct store *store);
struct index_inode store_inode(struct store *store, uint64_t ino);
/* The block behind block NUMBER of the file, and the extent. */
struct index_block store_block(struct store *store, uint64_t ino, uint64_t number,
                               struct index_extent *extent);
/* Runs all checks of the index with scrub; fails the test on any problem. */
void store_check(struct store *store);

#endif
