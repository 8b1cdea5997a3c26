/* SPDX-License-Identifier: BSD-2-Clause
 *
 * container.h - the .sep file format: what lies where, and which values are allowed. Byte by byte in
 * docs/format-sep.md; this file and container.c do no I/O and allocate nothing.
 *
 * A .sep file is one or more streams, one after the other. A stream:
 *
 *     header, record 0, record 1, ..., record N-1, index (head, N entries), footer
 *
 * Every block but the last holds exactly block_size plain bytes, so that a block's number says where
 * its bytes belong, also when its neighbours are lost. A record can be read alone: its own checksum
 * guards its header, so the sizes in it are known to be right before they are used. The index holds
 * again what is needed to decode each block; the footer is found from the end of the file and leads
 * to the start of its stream.
 *
 * The id of a stream is taken from its first block. It tells records of this stream from those of a
 * .sep file that lies inside a block as data: a search for intact records must not find those.
 *
 * The parse functions accept any bytes and check everything that can be checked without reading on:
 * after CONTAINER_OK each value is in the range documented beside it.
 */
#ifndef TOOLS_CONTAINER_H
#define TOOLS_CONTAINER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "codec/sep.h"

#define CONTAINER_SUFFIX  ".sep"
#define CONTAINER_VERSION 1

/* Bytes on disk. */
#define CONTAINER_HEADER 24u
#define CONTAINER_RECORD 44u /* the header of a record; the payload follows */
#define CONTAINER_INDEX  8u  /* the head of the index; the entries follow */
#define CONTAINER_ENTRY  16u
#define CONTAINER_FOOTER 48u

/* A stream without blocks, the shortest there is. */
#define CONTAINER_STREAM_MIN (CONTAINER_HEADER + CONTAINER_INDEX + CONTAINER_FOOTER)

#define CONTAINER_BLOCKS_MAX  UINT32_MAX
#define CONTAINER_PAYLOAD_MAX SEP_BLOCK_SIZE_MAX

enum container_fault {
    CONTAINER_OK = 0,
    CONTAINER_OTHER,   /* does not begin like this structure */
    CONTAINER_CHECK,   /* begins like it, the checksum differs */
    CONTAINER_NEWER,   /* intact, of a later version of the format */
    CONTAINER_INVALID, /* intact, and the values contradict each other or the limits */
};

struct container_header {
    uint32_t block_size; /* SEP_BLOCK_SIZE_MIN .. SEP_BLOCK_SIZE_MAX plain bytes */
    uint32_t id;         /* container_id() of block 0; 0 in a stream without blocks */
};

struct container_record {
    uint32_t id;           /* of the stream */
    uint32_t number;       /* of the block in its stream: 0 .. CONTAINER_BLOCKS_MAX - 1 */
    uint8_t codec;         /* enum sep_codec; may be unknown to this build */
    uint8_t level;         /* it was written with; decoding does not need it */
    uint32_t plain_size;   /* 1 .. SEP_BLOCK_SIZE_MAX */
    uint32_t payload_size; /* raw: plain_size; others 1 .. plain_size - 1 */
    uint64_t plain_hash;   /* XXH3-64 of the plain bytes */
    uint64_t hash;         /* container_record_hash() */
};

struct container_entry {
    uint32_t payload_size; /* 1 .. CONTAINER_PAYLOAD_MAX */
    uint8_t codec;
    uint8_t level;
    uint64_t plain_hash;
};

struct container_footer {
    uint32_t id;
    uint32_t block_size;   /* as in the header */
    uint32_t blocks;       /* as many as plain_size needs */
    uint64_t plain_size;   /* of all blocks: up to blocks * block_size */
    uint64_t stream_size;  /* header to footer: at least what that many blocks need */
    uint64_t entries_hash; /* container_entries_hash() of all, from 0 on */
};

/* What ails a structure, to follow its name: "does not match its checksum". */
const char *container_fault_text(enum container_fault fault);

/* What the index holds of a record. */
struct container_entry container_entry_of(const struct container_record *record);

/* Each writes exactly the bytes of its structure. */
void container_put_header(uint8_t bytes[CONTAINER_HEADER], const struct container_header *header);
/* RECORD.hash is computed from the rest and the payload, record->payload_size bytes. */
void container_put_record(uint8_t bytes[CONTAINER_RECORD], struct container_record *record,
                          const void *payload);
void container_put_index(uint8_t bytes[CONTAINER_INDEX], uint32_t blocks);
void container_put_entry(uint8_t bytes[CONTAINER_ENTRY], const struct container_entry *entry);
void container_put_footer(uint8_t bytes[CONTAINER_FOOTER], const struct container_footer *footer);

enum container_fault container_get_header(const uint8_t bytes[CONTAINER_HEADER],
                                          struct container_header *header);
enum container_fault container_get_record(const uint8_t bytes[CONTAINER_RECORD],
                                          struct container_record *record);
enum container_fault container_get_index(const uint8_t bytes[CONTAINER_INDEX], uint32_t *blocks);
/* PLAIN_SIZE: of this block, which follows from its number and the footer. An entry has no checksum
 * of its own: footer.entries_hash guards all of them. */
enum container_fault container_get_entry(const uint8_t bytes[CONTAINER_ENTRY], uint32_t plain_size,
                                         struct container_entry *entry);
enum container_fault container_get_footer(const uint8_t bytes[CONTAINER_FOOTER],
                                          struct container_footer *footer);

/* Whether BYTES begin with the magic of a record or of an index: what comes next in a stream. */
bool container_is_record(const uint8_t bytes[4]);
bool container_is_index(const uint8_t bytes[4]);

/* XXH3-64 of plain bytes. */
uint64_t container_hash(const void *plain, size_t size);

/* What container_record.hash must be: XXH3-64 of the header's other bytes and the payload. */
uint64_t container_record_hash(const uint8_t bytes[CONTAINER_RECORD], const void *payload,
                               size_t payload_size);

/* Hash of the entries up to and with this one: XXH3-64 of its bytes with BEFORE, that of the entries
 * before it, as the seed. A reader from a pipe needs no more than this to hold the index against the
 * records that came before it. */
uint64_t container_entries_hash(uint64_t before, const uint8_t entry[CONTAINER_ENTRY]);

/* The id of a stream whose block 0 has this hash of its plain bytes. */
uint32_t container_id(uint64_t plain_hash);

/* Blocks that PLAIN_SIZE bytes make; more than CONTAINER_BLOCKS_MAX does not fit a stream. */
uint64_t container_blocks(uint64_t plain_size, uint32_t block_size);

/* Bytes of an index with its head. */
uint64_t container_index_size(uint32_t blocks);

/* Plain bytes of block NUMBER of a stream: 0 when it has no such block. */
uint32_t container_block_plain(const struct container_footer *footer, uint32_t number);

/* Whether payload_size may be that of a block of plain_size bytes. */
bool container_sizes_valid(unsigned codec, uint32_t plain_size, uint32_t payload_size);

#endif
