/* SPDX-License-Identifier: BSD-2-Clause
 *
 * fixture.h - a small store in a temporary directory, made through index.h: 16 KiB blocks, 64 KiB
 * packs, raw payloads. Used by the tests of check, garbage collection and the tools.
 */
#ifndef TESTS_CHECK_FIXTURE_H
#define TESTS_CHECK_FIXTURE_H

#include "index/internal.h"

#define FIXTURE_BLOCK 16384u

struct fixture {
    char path[64];
    struct index *index;
};

/* Makes the directory and opens the store in it. */
void fixture_create(struct fixture *fixture);
/* Closes the store if open, and removes the directory with all in it. */
void fixture_remove(struct fixture *fixture);
void fixture_open(struct fixture *fixture, unsigned flags); /* enum index_open_flags */
void fixture_close(struct fixture *fixture);

/* Fills FIXTURE_BLOCK bytes that SEED decides and no codec makes smaller. */
void fixture_bytes(uint64_t seed, uint8_t *bytes);

/* Each makes one thing below directory DIR; returns the inode number. */
uint64_t fixture_directory(struct fixture *fixture, uint64_t dir, const char *name);
uint64_t fixture_symlink(struct fixture *fixture, uint64_t dir, const char *name,
                         const char *target);
uint64_t fixture_inline(struct fixture *fixture, uint64_t dir, const char *name, const char *text);
/* A file of COUNT blocks of the seeds SEED, SEED + 1, ...; every block is new, in a pack of CLASS. */
uint64_t fixture_file(struct fixture *fixture, uint64_t dir, const char *name, uint64_t seed,
                      unsigned count, enum index_class class);
/* Unlinks a file that has one name and removes it with its extents. */
void fixture_delete(struct fixture *fixture, uint64_t dir, const char *name);

/* Stores the bytes of SEED again as BLOCK's new form, in a pack of CLASS; not yet in the index. */
void fixture_append(struct fixture *fixture, struct index_block *block, uint64_t seed,
                    enum index_class class);

/* Id of the block at NUMBER of a file. */
uint64_t fixture_block(struct fixture *fixture, uint64_t ino, uint64_t number);
/* Asserts that the file's blocks read back as the bytes of SEED, SEED + 1, ... */
void fixture_expect(struct fixture *fixture, uint64_t ino, uint64_t seed, unsigned count);
/* 0 or the negative errno of reading one block's record. */
int fixture_read(struct fixture *fixture, uint64_t id, uint8_t *bytes);

/* Changes a byte of a pack file; the store may be open or not. */
void fixture_flip(const struct fixture *fixture, uint32_t pack, uint64_t offset);

/* What every test of check starts from:
 *   /a, /a/one (4 blocks, also /hard), /a/b, /a/b/two (2 blocks, of them one shared with one),
 *   /link -> a/one, /small (inline), /a/sparse (block 5 only); user.x on /a/one; a pending entry. */
struct tree {
    uint64_t a, b, one, two, link, small, sparse;
};
void fixture_tree(struct fixture *fixture, struct tree *tree);

/* ---- problems ---- */

struct problems {
    unsigned found, fixed, lost, underivable;
    char kinds[1024]; /* "kind kind ...", each once, in the order of appearance */
    char text[8192];  /* all texts, a line each */
};

/* Runs index_check on the open store. Returns its result. */
int fixture_check(struct fixture *fixture, bool repair, bool scrub, struct problems *problems);

#endif
