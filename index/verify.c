/* SPDX-License-Identifier: BSD-2-Clause
 *
 * verify.c - reads a record as a whole and holds it to the index.
 */
#include "verify.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static int bad(const char *text, const char *found, const char **kind, char *reason, size_t size)
{
    *kind = found;
    snprintf(reason, size, "%s", text);
    return -EIO;
}

/* The first field in which the header differs from the index, or NULL. */
static const char *difference(const struct index_block *index, const struct index_block *header)
{
    if (header->id != index->id)
        return "block number";
    if (header->at.payload_size != index->at.payload_size)
        return "payload size";
    if (header->plain_size != index->plain_size)
        return "plain size";
    if (header->codec != index->codec)
        return "codec";
    if (header->hash.low != index->hash.low || header->hash.high != index->hash.high)
        return "hash";
    if (header->model != index->model)
        return "model";
    return NULL;
}

int index_record_verify(struct index *index, const struct index_block *block, uint8_t *buffer,
                        struct index_block *written, const char **kind, char *reason, size_t size)
{
    const size_t payload_size = block->at.payload_size;
    struct index_block header = {0};
    const int error = index_pack_pread(index, block->at.pack, buffer,
                                       INDEX_RECORD_HEADER + payload_size, block->at.offset);
    if (error == -ESTALE)
        return error;
    if (error != 0)
        return bad("cannot be read", "record-unreadable", kind, reason, size);
    if (index_record_header_get(buffer, &header) != 0)
        return bad("header is damaged", "record-header", kind, reason, size);
    /* A wrong size in the header must not decide how much is summed. */
    if (header.at.payload_size == payload_size &&
        !index_record_intact(buffer, buffer + INDEX_RECORD_HEADER, payload_size))
        return bad("checksum does not match", "record-checksum", kind, reason, size);
    const char *const field = difference(block, &header);
    if (field != NULL) {
        *kind = "record-mismatch";
        snprintf(reason, size, "holds another block: its %s differs", field);
        return -EIO;
    }
    if (written != NULL) {
        *written = header;
        written->at = block->at;
        written->references = block->references;
        written->live = block->live;
    }
    return 0;
}
