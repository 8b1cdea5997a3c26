/* SPDX-License-Identifier: BSD-2-Clause
 *
 * powercut_actor.h - one thread of the workload, and what it can do: operations in a directory of its
 * own, with a mark before each and behind each promise (powercut.h). powercut_random.c chooses among
 * them, powercut_script.c tells them one by one.
 */
#ifndef TEST_CRASH_POWERCUT_ACTOR_H
#define TEST_CRASH_POWERCUT_ACTOR_H

#include "fs/file.h"
#include "powercut.h"

struct actor_file {
    struct fs_inode *inode; /* open; NULL when the file is gone */
    uint64_t size;
    uint32_t links;
};

struct actor {
    struct fs *fs;
    uint32_t number;
    bool first; /* of its session: it collects garbage, the others ask for compaction */
    uint64_t random, dir;
    uint32_t names[POWERCUT_NAMES]; /* file or POWERCUT_NO_FILE */
    struct actor_file files[POWERCUT_FILES];
    uint32_t file_count;
    uint8_t buffer[POWERCUT_FILE_MAX];
};

void actor_init(struct actor *actor, struct fs *fs, uint32_t number, bool first, uint64_t random);
void actor_close(struct actor *actor); /* its files */
/* A random number below LIMIT. */
uint64_t actor_below(struct actor *actor, uint64_t limit);
/* Makes its directory, and does STEPS random things. */
void actor_run(struct actor *actor, unsigned steps);

/* ---- names; TO of a link is free, both of an exchange are taken ---- */

void actor_directory(struct actor *actor);
uint32_t actor_create(struct actor *actor, uint32_t name); /* number of the file */
/* EARLY: a file that has no other name is closed before, and is gone at once. */
void actor_unlink(struct actor *actor, uint32_t name, bool early);
void actor_rename(struct actor *actor, uint32_t name, uint32_t to);
void actor_exchange(struct actor *actor, uint32_t name, uint32_t to);
void actor_link(struct actor *actor, uint32_t name, uint32_t to);
void actor_tag(struct actor *actor, uint32_t number, uint64_t value);

/* ---- contents of file NUMBER; bytes, but blocks for copies ---- */

void actor_write(struct actor *actor, uint32_t number, uint64_t offset, uint64_t length,
                 uint32_t content, uint64_t seed);
void actor_write_back(struct actor *actor, uint32_t number);
void actor_truncate(struct actor *actor, uint32_t number, uint64_t size);
void actor_punch(struct actor *actor, uint32_t number, uint64_t offset, uint64_t length);
void actor_copy(struct actor *actor, uint32_t from, uint64_t first, uint32_t number, uint64_t to,
                uint64_t count);

/* ---- promises ---- */

void actor_sync_file(struct actor *actor, uint32_t number);
void actor_sync_all(struct actor *actor);
void actor_sync_names(struct actor *actor);

/* ---- the store ---- */

void actor_conf(struct actor *actor, uint64_t value);
struct index_gc_result actor_collect(struct actor *actor, unsigned percent);
/* INO: of a file or a directory, 0 = the whole store. */
void actor_compact(struct actor *actor, uint64_t ino, const char *method, bool gc, bool wait);
void actor_model(struct actor *actor, uint32_t number, uint64_t size, uint64_t seed);
void actor_drop_model(struct actor *actor, uint32_t number);
/* Makes the index large for a while, so that closing the store rewrites it. AT_ONCE: without a commit
 * in between: pages that are free again are never written. */
void actor_bloat(struct actor *actor, bool at_once);

/* No call of the workload may fail. */
void give_up(const char *what, long error) __attribute__((noreturn));

#define MUST(call)                                                                                 \
    do {                                                                                           \
        const long must_result = (long)(call);                                                     \
        if (must_result < 0)                                                                       \
            give_up(#call, must_result);                                                           \
    } while (0)

#endif
