/* SPDX-License-Identifier: BSD-2-Clause
 *
 * fsx.h - parts of the random-operation checker. The idea is that of the fsx of Apple and of the
 * Linux Test Project: do to a file and to a copy of it in memory the same thing, and compare. This
 * one runs several processes with two files each (so that ranges are copied between files, too),
 * keeps mappings across operations, and knows about blocks much larger than pages.
 *
 * Everything a process does follows from its seed, so a run is repeated by its seed and the number
 * of the operation that failed; only what other processes and background work do meanwhile differs.
 */
#ifndef TESTS_MOUNT_FSX_H
#define TESTS_MOUNT_FSX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define FSX_FILES   2
#define FSX_HISTORY 30 /* operations shown after a mismatch */

struct fsx_file {
    char name[64]; /* in the directory under test, the working directory */
    int fd;
    unsigned char *model; /* fsx_worker.limit bytes; all beyond size are zero */
    size_t size;
    unsigned char *map; /* shared mapping of LIMIT bytes kept across operations, or NULL */
};

struct fsx_record {
    const char *operation;
    const char *file;
    size_t offset, length; /* of the range; truncate: new size in offset */
    size_t before;         /* size of the file before it */
    char note[64];
};

struct fsx_worker {
    unsigned number;
    uint64_t seed, random; /* random: state of the generator */
    size_t limit;          /* no file grows beyond, bytes */
    struct fsx_file files[FSX_FILES];
    unsigned char *buffer; /* LIMIT bytes of scratch */
    struct fsx_record history[FSX_HISTORY];
    uint64_t operations; /* done, the current one included; index into history modulo its size */
    uint64_t missing;    /* operations the file system does not have; bit: index in the table */
};

/* fsx_operations.c: one random operation on one of the files, checked. */
void fsx_step(struct fsx_worker *worker);
/* Opens (creating) the worker's files, for which name and model are set. */
void fsx_open(struct fsx_worker *worker, struct fsx_file *file);
/* Closes, reopens and compares everything. */
void fsx_finish(struct fsx_worker *worker);
/* Names of the operations in MISSING, "punch,zero", or "". */
void fsx_missing(uint64_t missing, char *text, size_t size);
/* The other way round; false when NAMES has one that there is not. */
bool fsx_named(const char *names, uint64_t *missing);

/* fsx_report.c: none of the failures return. */
void fsx_log(struct fsx_worker *worker, const struct fsx_file *file, const char *operation,
             size_t offset, size_t length);
/* Adds to the record of the current operation. */
void fsx_note(struct fsx_worker *worker, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
_Noreturn void fsx_fail(struct fsx_worker *worker, const struct fsx_file *file, const char *format,
                        ...) __attribute__((format(printf, 3, 4)));
/* Holds LENGTH bytes read from OFFSET against the model; HOW they were read is for the message. */
void fsx_compare(struct fsx_worker *worker, const struct fsx_file *file, const unsigned char *got,
                 size_t offset, size_t length, const char *how);

uint64_t fsx_random(struct fsx_worker *worker);
/* Uniform in [0, BELOW); BELOW > 0. */
size_t fsx_below(struct fsx_worker *worker, size_t below);

#endif
