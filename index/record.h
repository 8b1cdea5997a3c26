/* SPDX-License-Identifier: BSD-2-Clause
 *
 * record.h - the bytes of every record of the index, written and read in one place each. The
 * layouts are described in docs/format.md.
 *
 * Keys compare with memcmp in the order of the numbers they hold: each number is one byte that
 * gives its length (0..8) and then its significant bytes, big-endian. Records start with a version
 * byte; numbers in them are little-endian, or base-128 where small values are the rule.
 *
 * Readers take bytes that nobody vouches for: they return -EUCLEAN for anything malformed and never
 * look outside the slice. Writers take values that our own code made and assert their limits.
 */
#ifndef INDEX_RECORD_H
#define INDEX_RECORD_H

#include <lmdb.h>

#include "index.h"

enum index_db {
    INDEX_DB_META,    /* "state" -> struct index_state, "scrub" -> struct index_scrub */
    INDEX_DB_INODE,   /* ino -> inode with inline content */
    INDEX_DB_DIRENT,  /* directory, slot -> ino, type, name */
    INDEX_DB_XATTR,   /* ino, name -> value */
    INDEX_DB_EXTENT,  /* ino, block number -> block id, offset, length */
    INDEX_DB_BLOCK,   /* block id -> block */
    INDEX_DB_HASH,    /* hash.low -> block id */
    INDEX_DB_ORPHAN,  /* ino -> first block to remove */
    INDEX_DB_HOT,     /* block id -> file, block number, time */
    INDEX_DB_PENDING, /* block id -> what was tried, and why it failed */
    INDEX_DB_PACK,    /* pack id -> class, sealed, size, live */
    INDEX_DB_FREE,    /* pack id, offset -> length of a dead range; ranges never touch */
    INDEX_DB_COUNT
};

extern const char *const index_db_names[INDEX_DB_COUNT];

/* ---- keys ----------------------------------------------------------------------------------- */

struct index_key {
    size_t size;
    uint8_t bytes[272]; /* the longest: a number (9) and an attribute name (255) */
};

void index_key_one(struct index_key *key, uint64_t first);
void index_key_two(struct index_key *key, uint64_t first, uint64_t second);
void index_key_text(struct index_key *key, const char *text); /* for INDEX_DB_META */
/* SLOT < 2^48, six bytes behind the directory's number. */
void index_key_dirent(struct index_key *key, uint64_t dir, uint64_t slot);
void index_key_xattr(struct index_key *key, uint64_t ino, const char *name);
void index_key_hash(struct index_key *key, struct index_hash hash);

int index_key_get_one(const MDB_val *key, uint64_t *first);
int index_key_get_two(const MDB_val *key, uint64_t *first, uint64_t *second);
int index_key_get_dirent(const MDB_val *key, uint64_t *dir, uint64_t *slot);
/* NAME: INDEX_NAME_MAX + 1 bytes. */
int index_key_get_xattr(const MDB_val *key, uint64_t *ino, char *name);
int index_key_get_hash(const MDB_val *key, uint64_t *low);

/* ---- seals ---------------------------------------------------------------------------------- */

#define INDEX_SEAL 4u /* bytes behind every value of the index: its checksum, little-endian */

/* Checksum of a record: table, key and value (without seal). */
uint32_t index_seal(enum index_db db, const MDB_val *key, const void *value, size_t size);
void index_seal_put(uint8_t bytes[INDEX_SEAL], uint32_t seal);
/* Takes the seal off a stored value. False when it does not match; the value is then empty, which no
 * kind of record is: every reader refuses it as malformed. */
bool index_unseal(enum index_db db, const MDB_val *key, MDB_val *value);

/* ---- values --------------------------------------------------------------------------------- */

/* Room for the longest record but an xattr: an inode with a symlink's target. */
#define INDEX_RECORD_MAX 4352u

struct index_record {
    size_t size;
    uint8_t bytes[INDEX_RECORD_MAX];
};

void index_record_inode(struct index_record *record, const struct index_inode *inode);
int index_record_get_inode(const MDB_val *key, const MDB_val *value, struct index_inode *inode);

void index_record_dirent(struct index_record *record, const struct index_dirent *entry);
int index_record_get_dirent(const MDB_val *key, const MDB_val *value, uint64_t *dir,
                            struct index_dirent *entry);

void index_record_extent(struct index_record *record, const struct index_extent *extent);
int index_record_get_extent(const MDB_val *key, const MDB_val *value, uint64_t *ino,
                            struct index_extent *extent);

/* Not stored: owner_ino, owner_block. */
void index_record_block(struct index_record *record, const struct index_block *block);
int index_record_get_block(const MDB_val *key, const MDB_val *value, struct index_block *block);

/* For INDEX_DB_HASH (a block id), INDEX_DB_ORPHAN (a block number) and INDEX_DB_FREE (bytes). */
void index_record_number(struct index_record *record, uint64_t number);
int index_record_get_number(const MDB_val *value, uint64_t *number);

void index_record_hot(struct index_record *record, const struct index_hot *hot);
int index_record_get_hot(const MDB_val *key, const MDB_val *value, struct index_hot *hot);

void index_record_pending(struct index_record *record, const struct index_pending *pending);
int index_record_get_pending(const MDB_val *key, const MDB_val *value,
                             struct index_pending *pending);

void index_record_pack(struct index_record *record, const struct index_pack *pack);
int index_record_get_pack(const MDB_val *key, const MDB_val *value, struct index_pack *pack);

/* An xattr's value is one version byte and the attribute's bytes. */
#define INDEX_XATTR_VERSION 1u
int index_record_get_xattr(const MDB_val *value, const void **data, size_t *size);

/* What the index keeps besides its tables (INDEX_DB_META, "state"). Counts of inodes, blocks,
 * extents, hot and pending entries are the entry counts of their tables. */
struct index_counters {
    uint64_t directories, symlinks, others; /* inodes by kind; others: no regular file either */
    uint64_t shared_blocks;
    uint64_t logical; /* sum of the sizes of regular files, bytes */
    uint64_t live;    /* sum of live over all packs, bytes */
};

struct index_state {
    uint32_t format; /* INDEX_FORMAT_VERSION */
    uint8_t uuid[16];
    /* Numbers from these on were never handed out. While the store is in use they lie ahead of the
     * numbers in use, so that a crash cannot make one come twice. */
    uint64_t next_ino, next_block;
    uint32_t next_pack;
    bool clean; /* closed in order: every dead range is punched */
    /* LMDB's number of the commit that put this record: each puts it. A header of data.mdb that
     * names another commit is damaged (pages.c). */
    uint64_t commit;
    struct index_counters counters;
};

void index_record_state(struct index_record *record, const struct index_state *state);
int index_record_get_state(const MDB_val *value, struct index_state *state);
/* INDEX_DB_META, "scrub". */
void index_record_scrub(struct index_record *record, const struct index_scrub *scrub);
int index_record_get_scrub(const MDB_val *value, struct index_scrub *scrub);

/* ---- pack files ------------------------------------------------------------------------------ */

#define INDEX_PACK_HEADER  64u         /* bytes at the start of a pack file */
#define INDEX_PLAIN_MAX    (4u << 20)  /* bytes of a block, decoded */
#define INDEX_PAYLOAD_MAX  (5u << 20)  /* bytes of a block, as stored */
#define INDEX_PACK_ALIGN   8u          /* records start at multiples of it, bytes */
#define INDEX_RECORD_MAGIC 0x72506553u /* "SePr", little-endian, starts a record */

/* Bytes of a record with its header and padding. */
static inline uint64_t index_record_span(uint32_t payload_size)
{
    return ((uint64_t)INDEX_RECORD_HEADER + payload_size + INDEX_PACK_ALIGN - 1) &
           ~(uint64_t)(INDEX_PACK_ALIGN - 1);
}

void index_pack_header_put(uint8_t bytes[INDEX_PACK_HEADER], uint32_t id, enum index_class class,
                           const uint8_t uuid[16]);
/* -EUCLEAN: no pack header, or damaged; -EPROTONOSUPPORT: newer version. */
int index_pack_header_get(const uint8_t bytes[INDEX_PACK_HEADER], uint32_t *id,
                          enum index_class *class, uint8_t uuid[16]);

/* Header of a record for BLOCK (at.payload_size and all fields but at.pack, at.offset, references
 * and live must be set), with the checksum over itself and PAYLOAD. */
void index_record_header_put(uint8_t bytes[INDEX_RECORD_HEADER], const struct index_block *block,
                             const void *payload);
/* Reads magic, version and limits only; the checksum needs the payload (below). -EUCLEAN. Leaves
 * at.pack, at.offset, references and live alone. */
int index_record_header_get(const uint8_t bytes[INDEX_RECORD_HEADER], struct index_block *block);
/* True when the checksum in BYTES is that of the header and the payload. */
bool index_record_intact(const uint8_t bytes[INDEX_RECORD_HEADER], const void *payload,
                         size_t payload_size);

#endif
