/* SPDX-License-Identifier: BSD-2-Clause
 *
 * verify.c - reads a record as a whole and holds it to the index; the same for the header of a pack.
 */
#include "verify.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

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

int index_record_judge(const struct index_block *block, const uint8_t *buffer, ssize_t got,
                       struct index_block *written, const char **kind, char *reason, size_t size)
{
    const size_t payload_size = block->at.payload_size;
    struct index_block header = {0};
    if (got != (ssize_t)(INDEX_RECORD_HEADER + payload_size))
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

int index_record_verify(struct index *index, const struct index_block *block, uint8_t *buffer,
                        struct index_block *written, const char **kind, char *reason, size_t size)
{
    const size_t whole = INDEX_RECORD_HEADER + (size_t)block->at.payload_size;
    const int error = index_pack_pread(index, block->at.pack, buffer, whole, block->at.offset);
    if (error == -ESTALE)
        return error;
    return index_record_judge(block, buffer, error == 0 ? (ssize_t)whole : error, written, kind,
                              reason, size);
}

/* ---- blocks ---------------------------------------------------------------------------------- */

static int block_now(struct index *index, uint64_t id, struct index_block *block)
{
    struct index_txn *txn;
    int error = index_begin(index, INDEX_READ, &txn);
    if (error != 0)
        return error;
    error = index_block_get(txn, id, block);
    index_end(txn);
    return error;
}

static bool same_place(const struct index_location *a, const struct index_location *b)
{
    return a->pack == b->pack && a->offset == b->offset && a->payload_size == b->payload_size;
}

static int reserve(uint8_t **buffer, size_t *room, size_t size)
{
    if (size <= *room)
        return 0;
    uint8_t *const grown = realloc(*buffer, size);
    if (grown == NULL)
        return -ENOMEM;
    *buffer = grown;
    *room = size;
    return 0;
}

int index_block_verify(struct index *index, uint64_t id, struct index_block *block,
                       struct index_block *written, uint8_t **buffer, size_t *room,
                       const char **kind, char *reason, size_t size)
{
    struct index_block now;
    int error = block_now(index, id, block);
    for (;;) {
        if (error == -ENOENT || error == -EUCLEAN)
            return 1;
        if (error == 0 && block->at.payload_size > INDEX_PAYLOAD_MAX)
            return 1;
        if (error == 0)
            error = reserve(buffer, room, INDEX_RECORD_HEADER + (size_t)block->at.payload_size);
        if (error != 0)
            return error;
        error = index_record_verify(index, block, *buffer, written, kind, reason, size);
        if (error != -EIO && error != -ESTALE)
            return error;
        const int first = error;
        error = block_now(index, id, &now);
        if (error == 0 && same_place(&now.at, &block->at)) {
            if (first == -ESTALE) {
                *kind = "missing-pack";
                snprintf(reason, size, "pack %u is missing", block->at.pack);
            }
            return -EIO;
        }
        if (error == 0)
            *block = now;
    }
}

/* ---- packs ----------------------------------------------------------------------------------- */

int index_pack_verify(struct index *index, uint32_t id, bool any_class, enum index_class *class,
                      uint64_t *file_size, bool *present, const char **problem)
{
    uint8_t bytes[INDEX_PACK_HEADER];
    uint8_t uuid[16];
    enum index_class written = INDEX_HOT;
    uint32_t found = 0;
    struct stat status;
    char name[16];
    *problem = NULL;
    *present = false;
    index_pack_name(id, name);
    const int fd = index_io_open(index->io, index->packs_fd, name, O_RDONLY, 0);
    if (fd == -ENOENT) {
        *problem = "the file is missing";
        return 0;
    }
    if (fd == -ELOOP || fd == -EISDIR || fd == -EUCLEAN) {
        *problem = "what lies there is no regular file";
        return 0;
    }
    if (fd < 0)
        return fd;
    const int error = index->io->fstat(fd, &status) != 0 ? -errno : 0;
    *file_size = error == 0 ? (uint64_t)status.st_size : 0;
    const ssize_t size = index_io_read(index->io, fd, bytes, sizeof bytes, 0);
    index->io->close(fd);
    if (error != 0)
        return error;
    *present = true;
    if (size != (ssize_t)sizeof bytes || index_pack_header_get(bytes, &found, &written, uuid) != 0)
        *problem = "the header is damaged";
    else if (found != id || memcmp(uuid, index->uuid, sizeof uuid) != 0)
        *problem = "the header is that of another pack or store";
    else if (!any_class && written != *class)
        *problem = "the header names another class";
    if (any_class)
        *class = written;
    return 0;
}
