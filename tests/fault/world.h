/* SPDX-License-Identifier: BSD-2-Clause
 *
 * world.h - a store with the data path and the compactor running, without FUSE, and what it must hold:
 * for each file the contents that it had since they were last acknowledged, for each name whether it
 * may and may not be there. An operation that fails leaves both outcomes possible; a sync that returns
 * 0 makes what a read returns then the only possible one.
 *
 * The model allocates nothing: memory is among what fails. One thread uses it. An expectation that is
 * not met ends the process with status 1 and a line on stderr.
 */
#ifndef TEST_FAULT_WORLD_H
#define TEST_FAULT_WORLD_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "fs/core.h"
#include "fs/file.h"
#include "inject.h"

#define WORLD_BLOCK 16384u             /* bytes */
#define WORLD_SIZE  (4u * WORLD_BLOCK) /* largest file */
#define WORLD_FILES 12u
#define WORLD_PAST  14u /* versions of a file since it was acknowledged */

enum world_content { WORLD_TEXT, WORLD_NOISE, WORLD_ZEROS };

struct world_version {
    uint32_t size;
    uint8_t data[WORLD_SIZE];
};

struct world_file {
    bool used;
    char name[16], other[16]; /* other: its second name, or empty */
    uint64_t ino;
    struct fs_inode *inode;  /* held; NULL when the store is closed or the file could not be held */
    bool may_be, may_not_be; /* there under NAME, after the last acknowledged state */
    bool other_may_be, other_may_not_be;
    bool there;     /* now, as far as is known */
    bool sure;      /* no operation on it failed since it was last read back */
    unsigned count; /* of versions; the first is the acknowledged one, the last the present one */
    struct world_version past[WORLD_PAST];
};

struct world {
    struct inject *inject;
    char store[280];
    struct fs_options options;
    struct index *index; /* NULL: not open */
    struct fs fs;
    int injected;        /* errno of the fault, INJECT_SHORT, or 0: then nothing may fail */
    unsigned failures;   /* operations that returned an error */
    atomic_bool refused; /* the log said that no further writes are accepted */
    struct world_file files[WORLD_FILES];
};

void world_init(struct world *world, struct inject *inject, const char *store);

/* The same, with the files that FROM knows of, at STORE. */
void world_begin(struct world *world, const struct world *from, const char *store);

/* Ends the process unless OK, with what was expected. */
void world_must(bool ok, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Judges the result of an operation: 0 or more, or an error that the fault explains. */
int world_result(struct world *world, int result, const char *what);

/* Opens, creating what is missing, and starts; holds the files. 0 or the error. */
int world_open(struct world *world);
/* Stops and closes. When both succeed, everything is acknowledged. */
int world_close(struct world *world);

/* Operations. FILE is a slot; a name follows from it. Errors are judged and counted. */
void world_create(struct world *world, unsigned file);
void world_unlink(struct world *world, unsigned file, bool open);
void world_rename(struct world *world, unsigned from, unsigned to); /* TO is replaced */
void world_link(struct world *world, unsigned file, const char *name);
void world_attribute(struct world *world, unsigned file, unsigned size);
void world_write(struct world *world, unsigned file, enum world_content content, uint64_t seed,
                 uint32_t size, uint32_t offset);
void world_truncate(struct world *world, unsigned file, uint32_t size);
void world_zero(struct world *world, unsigned file, uint32_t offset, uint32_t size, bool grow);
void world_copy(struct world *world, unsigned from, unsigned to, uint32_t from_offset,
                uint32_t to_offset, uint32_t size);
void world_sync(struct world *world, unsigned file);
void world_flush(struct world *world, unsigned file);
void world_commit(struct world *world);
/* Reads in steps of STEP bytes and compares. */
void world_read(struct world *world, unsigned file, uint32_t step);
void world_compact(struct world *world, const char *method, bool gc);
void world_gc(struct world *world, unsigned percent);

/* The store works without faults: or it is read-only and has said so. */
void world_afterwards(struct world *world);
/* Runs all checks, and repairs. */
void world_repair(struct world *world);
/* Opens anew, compares everything, runs all checks with scrub, closes. REPAIR: repairs before that. */
void world_verify(struct world *world, bool repair);

#endif
