/* SPDX-License-Identifier: BSD-2-Clause
 *
 * powercut_disk.h - what a disk holds of a recorded tree: what is durable, and what a power cut may
 * keep, lose or tear.
 *
 * Promised by the kernel, and no more than that: a sync makes durable what was done to that file
 * before it began; a sync of a directory does that for its names; an O_DSYNC write is durable when
 * it returns; a sector of 512 bytes is written whole or not at all; a rename is one step. Everything
 * else may be on the disk, in any order and any subset, a file longer than what was written to it
 * has zeros or noise in the place of lost data, and a synced file whose name was not may be gone.
 */
#ifndef TEST_CRASH_POWERCUT_DISK_H
#define TEST_CRASH_POWERCUT_DISK_H

#include "record.h"

/* Syncs that do not happen, to see whether the checker misses them. */
enum disk_lose {
    DISK_LOSE_PACKS = 1,       /* of packs */
    DISK_LOSE_INDEX = 2,       /* of the index */
    DISK_LOSE_META = 4,        /* O_DSYNC writes of the index */
    DISK_LOSE_DIRECTORIES = 8, /* of directories */
    DISK_LOSE_OTHERS = 16      /* of all other files */
};

struct disk;

struct disk *disk_new(void);
/* From now on; LOSE: enum disk_lose. */
void disk_lose(struct disk *disk, unsigned lose);
void disk_free(struct disk *disk);
/* Takes in the next entry; PAYLOAD stays valid. Ends the process when the log makes no sense. */
void disk_apply(struct disk *disk, const struct record_entry *entry, const uint8_t *payload);

/* Choices of what survives; the variants from DISK_RANDOM on are random ones, each another. */
enum disk_variant {
    DISK_NOTHING = 0,    /* nothing that is not durable */
    DISK_EVERYTHING = 1, /* as if the process was killed */
    DISK_RANDOM = 2
};
/* What cuts did to the operations that no sync had covered. */
struct disk_fates {
    unsigned long lost, kept, torn;
    unsigned long sectors; /* of torn writes, that did not arrive */
};
/* Makes DIRECTORY, which is empty, what is found after a power cut now. Adds to *fates. */
void disk_cut(const struct disk *disk, uint64_t seed, unsigned variant, const char *directory,
              struct disk_fates *fates);

#endif
