/* SPDX-License-Identifier: BSD-2-Clause
 *
 * copy.h - copies of the index in STORE/index-copies, for salvage: their format, and when they are
 * made. docs/format.md describes the bytes.
 *
 * A copy holds every record but those of hash and free, which follow from the blocks, in chunks that
 * are compressed and checksummed by themselves: damage costs a chunk. It is made from one snapshot
 * whose pages were walked and whose seals matched, read back as a whole and counted, and only then
 * gets its name; the copies before the last two go after that.
 */
#ifndef INDEX_COPY_H
#define INDEX_COPY_H

#include "internal.h"
#include "pages.h"

#define INDEX_COPIES "index-copies"

/* Writes a copy of the snapshot of TXN to FD and reads it back. -EUCLEAN: the index is damaged, or
 * what was read is not what was written; PROBLEM says where. */
int index_copy_write(struct index *index, MDB_txn *txn, int fd, char *problem, size_t size);

/* Reads a copy: each record with a fresh seal, ascending keys within a table; what is damaged goes to
 * visit->damage, and visit->gap is not called. -EUCLEAN: no copy of the store with this UUID.
 * *whole: nothing was missing. */
int index_copy_read(const struct index_io *io, int fd, const uint8_t uuid[16],
                    const struct index_pages_visit *visit, bool *whole);

/* Name of the N-th newest copy (0: the newest). -ENOENT. NAME: 64 bytes. */
int index_copies_name(const struct index_io *io, int dir_fd, unsigned n, char *name);

/* Makes a copy if anything was committed since the last and that one is older than MIN_AGE seconds.
 * What keeps it from being made is logged: a copy is never a reason to fail. */
void index_copies_make(struct index *index, int64_t min_age);
/* Notes how much the copies take. */
void index_copies_measure(struct index *index);
/* A thread that makes one a day. */
int index_copies_start(struct index *index);
void index_copies_stop(struct index *index);

#endif
