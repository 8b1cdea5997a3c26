/* SPDX-License-Identifier: BSD-2-Clause
 *
 * verify.h - reading a record as a whole, header included, and telling what is wrong with it: for
 * scrub, which reports it, and garbage collection, which must not copy it as good.
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

#endif
