/* SPDX-License-Identifier: BSD-2-Clause
 *
 * support.h - what the tests of index/ share: stores in scratch directories, files and blocks with
 * contents that follow from a number, a full check of what the index says against itself, crash
 * copies, and a table of system calls that fails the n-th.
 */
#ifndef TEST_INDEX_SUPPORT_H
#define TEST_INDEX_SUPPORT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "index/internal.h"

/* ---- scratch directories ---- */

/* A fresh directory below $TMPDIR or /tmp; PATH: 256 bytes. */
void scratch_make(char *path);
/* The same on a memory file system where there is one: for tests that sync thousands of times. */
void scratch_make_fast(char *path);
void scratch_remove(const char *path);
/* Copies a tree of regular files and directories, sizes and modes included. */
void copy_tree(const char *from, const char *to);
/* PATH joined with NAME, in one of a few static buffers. */
const char *in(const char *path, const char *name);
/* Overwrites SIZE bytes of a file at OFFSET. */
void poke(const char *file, uint64_t offset, const void *data, size_t size);
uint64_t file_size(const char *file);
/* 512-byte blocks that the host holds for the file. */
uint64_t file_blocks(const char *file);

/* ---- stores ---- */

extern char last_error[512]; /* of the last open */
extern unsigned log_lines;   /* since the last open_store */
extern char log_last[512];

int try_open(const char *path, unsigned flags, struct index **index);
struct index *open_store(const char *path, unsigned flags);
struct index *open_with(const char *path, const struct index_options *options,
                        const struct index_io *io);
void close_store(struct index *index);

/* Everything that the index says about itself holds: names lead to inodes, references, live bytes
 * and counters are what a recount gives, every block reads back with its contents. */
void verify_store(struct index *index);

/* ---- contents ---- */

/* Bytes that follow from SEED. */
void fill(uint8_t *data, size_t size, uint64_t seed);

/* A regular file NAME in the root. Returns its number. */
uint64_t make_file(struct index *index, const char *name);
/* Appends a block with contents from SEED (PLAIN bytes, stored raw) and sets it as extent NUMBER of
 * INO. Returns 0 or the first error. */
int store_block(struct index *index, uint64_t ino, uint64_t number, uint32_t plain, uint64_t seed,
                enum index_class class, uint64_t *id);
/* Removes extents from FROM on and, with DELETE, the inode. */
int drop_file(struct index *index, uint64_t ino, const char *name);
struct index_block get_block(struct index *index, uint64_t id);
struct index_pack get_pack(struct index *index, uint32_t id);

/* ---- faults ---- */

/* Atomic, because tests set them while the index thread calls. */
struct fault {
    _Atomic uint64_t calls;           /* counted since reset */
    _Atomic uint64_t fail_at;         /* 0 = never; the call with this number fails */
    atomic_bool forever;              /* and all after it */
    atomic_int error;                 /* errno */
    atomic_bool spare_table;          /* calls of fault_io neither count nor fail: LMDB's do */
    atomic_bool no_fallocate;         /* fallocate fails with EOPNOTSUPP */
    _Atomic uint64_t host_full_after; /* bytes fallocate still hands out; UINT64_MAX = no limit */
    _Atomic uint64_t host_free;       /* what statvfs says is free; UINT64_MAX = the truth */
};
extern struct fault fault;
extern const struct index_io fault_io;
void fault_reset(void);
/* Counts a call; true when it must fail, with errno set. */
bool fault_hit(void);

#endif
