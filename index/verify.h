/* SPDX-License-Identifier: BSD-2-Clause
 *
 * verify.h - reading a record as a whole, header included, and telling what is wrong with it: for
 * scrub, which reports it, and garbage collection, which must not copy it as good. Also what is wrong
 * with the header of a pack.
 */
#ifndef INDEX_VERIFY_H
#define INDEX_VERIFY_H

#include "internal.h"

/* Reads the record that BLOCK lies in and holds it to what the index says of the block. BUFFER:
 * INDEX_RECORD_HEADER + block->at.payload_size bytes, the payload behind the header; the caller holds
 * payload_size to INDEX_PAYLOAD_MAX. *written (may
 * be NULL): the block as the header describes it, with its owner. 0; -ESTALE: the pack is gone;
 * -EIO: *kind is "record-unreadable", "record-header", "record-checksum" or "record-mismatch", and
 * REASON says why. */
int index_record_verify(struct index *index, const struct index_block *block, uint8_t *buffer,
                        struct index_block *written, const char **kind, char *reason, size_t size);

/* The same on bytes that were read: GOT of them, or a negative errno. */
int index_record_judge(const struct index_block *block, const uint8_t *buffer, ssize_t got,
                       struct index_block *written, const char **kind, char *reason, size_t size);

/* Looks up block ID, verifies its record, and follows it when it moves meanwhile. *buffer: of *room
 * bytes, grown as needed, the caller's to free. 0: good, and the payload lies behind the header; 1:
 * the block is gone, malformed or too large, which other checks report; -EIO: damaged, see above,
 * and *kind may be "missing-pack". *block: as found last. */
int index_block_verify(struct index *index, uint64_t id, struct index_block *block,
                       struct index_block *written, uint8_t **buffer, size_t *room,
                       const char **kind, char *reason, size_t size);

/* What is wrong with the file of pack ID, NULL when nothing is; *file_size and, with ANY_CLASS, *class are
 * filled from it; otherwise the header must name *class. *present: the file is there. 0 or a negative errno. */
int index_pack_verify(struct index *index, uint32_t id, bool any_class, enum index_class *class,
                      uint64_t *file_size, bool *present, const char **problem);

#endif
