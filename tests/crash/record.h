/* SPDX-License-Identifier: BSD-2-Clause
 *
 * record.h - the log of every change that a process makes to a directory tree: written by record.c,
 * read by powercut_disk.c.
 *
 * The log is a sequence of entries, each a struct record_entry and SIZE bytes of payload, in the
 * order in which the changes happened; entries are counted from 0. Objects are files and directories,
 * numbered from 1 (the directory on top) as they appear; a number is never used again.
 */
#ifndef TEST_CRASH_RECORD_H
#define TEST_CRASH_RECORD_H

#include <stddef.h>
#include <stdint.h>

#define RECORD_TOP 1u /* object number of the directory on top */

enum record_type {
    RECORD_DIRECTORY = 1, /* OBJECT made in directory DIR; payload: name */
    RECORD_CREATE,        /* empty file OBJECT made in DIR; payload: name */
    RECORD_RENAME,        /* OBJECT in DIR; payload: old name, NUL, new name */
    RECORD_UNLINK,        /* OBJECT loses its name in DIR; payload: name */
    RECORD_WRITE,         /* payload at OFFSET of OBJECT */
    RECORD_RESIZE,        /* OBJECT has OFFSET bytes from now on */
    RECORD_ZERO,          /* LENGTH bytes at OFFSET of OBJECT are a hole */
    RECORD_SYNC,          /* fsync or fdatasync of OBJECT begins */
    RECORD_SYNCED,        /* OFFSET: number of the SYNC that is complete */
    RECORD_WRITTEN,       /* OFFSET: number of the WRITE that is durable: O_DSYNC */
    RECORD_BASE,          /* all before is durable */
    RECORD_MARK           /* payload: what the program says of itself */
};

struct record_entry {
    uint32_t type; /* enum record_type */
    uint32_t object;
    uint32_t dir;
    uint32_t size; /* bytes of payload */
    uint64_t offset, length;
};

/* Appends a MARK. This does nothing unless the environment asks for a log (record.c). */
void record_mark(const void *data, size_t size);
/* kill -9 of the calling process at a moment at which no change is half in the log and no O_DSYNC
 * write is under way: the kernel does not let a process die before such a write is complete. */
void record_die(void) __attribute__((noreturn));
/* The same behind COUNT more entries of the log that have this TYPE, 0: of any. COUNT 0: never. */
void record_die_later(uint64_t count, uint32_t type);

#endif
