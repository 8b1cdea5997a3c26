/* SPDX-License-Identifier: BSD-2-Clause
 *
 * powercut_actor.h - one thread of the workload: random work in a directory of its own, with a mark
 * before each operation and behind each promise (powercut.h).
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
void actor_run(struct actor *actor, unsigned steps);
/* Makes the index large for a while, so that closing the store rewrites it. */
void actor_bloat(struct actor *actor);
void actor_close(struct actor *actor); /* its files */

/* No call of the workload may fail. */
void give_up(const char *what, long error) __attribute__((noreturn));

#define MUST(call)                                                                                 \
    do {                                                                                           \
        const long must_result = (long)(call);                                                     \
        if (must_result < 0)                                                                       \
            give_up(#call, must_result);                                                           \
    } while (0)

#endif
