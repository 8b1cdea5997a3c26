/* SPDX-License-Identifier: BSD-2-Clause
 *
 * check.h - what the passes of index_check share: the tables that they fill for each other, walks
 * over raw records, and reporting. check.c runs the passes in this order:
 *
 *   1 records   check_records.c  every record decodes; fills the inode and block tables
 *   2 names     check_names.c    names and inodes agree; fills links and parents
 *   3 reach     check_reach.c    every inode hangs below the root; link counts; orphans, xattrs
 *   4 extents   check_extents.c  extents lie in files and in blocks; counts references
 *   5 packs     check_packs.c    pack records, pack files, where blocks lie, dead ranges
 *   6 blocks    check_blocks.c   references, hash records, hot list, pending list
 *   7 counters  check_counters.c numbers handed out, sums
 *   8 scrub     check_scrub.c    every record in the packs, and what decode says of it
 *   9 damage    check_damage.c   the files that damaged or missing blocks belong to
 *
 * A pass repairs as it goes, so that the next one sees a store in which what it relies on holds; a
 * check that repairs nothing skips what an earlier pass has reported. Repairs of one pass are one
 * transaction; it is committed before the next pass. Packs come before blocks, because a block that
 * is dropped becomes a dead range, and dead ranges are punched: they must be right by then.
 *
 * Memory: 32 bytes an inode, 24 a block, and from pass 5 on another 24 a block.
 */
#ifndef INDEX_CHECK_H
#define INDEX_CHECK_H

#include "internal.h"

#define CHECK_NO_PARENT UINT32_MAX

struct check_inode {
    uint64_t ino;
    uint64_t parent; /* as in the record */
    uint32_t nlink;  /* as in the record */
    uint32_t names;  /* names found; of a directory: subdirectories found */
    uint32_t up;     /* directory: row of the one that holds its name, or CHECK_NO_PARENT */
    uint16_t type;   /* mode & S_IFMT */
    uint8_t reaches; /* directory: 0 = not looked at, 1 = being looked at, 2 = done */
    bool rebuilt;    /* its record was missing: without repair it is only here */
};

struct check_block {
    uint64_t id;
    uint32_t references; /* extents found */
    uint32_t live;       /* their bytes, saturating */
    uint32_t plain_size;
};

struct check_damage { /* a block that cannot be read */
    uint64_t block;
    uint32_t pack;
    const char *kind;
    bool named; /* a file was reported for it */
    char reason[160];
};

struct check_place { /* where a block lies */
    uint64_t offset;
    uint64_t block;
    uint32_t pack, payload_size;
};

struct checker {
    struct index *index;
    const struct index_check *options;
    struct index_txn *txn; /* of the pass that runs */
    bool modified;         /* a repair changed records: walks find their place again */

    struct check_inode *inodes; /* ascending */
    size_t inode_count, inode_room;
    struct check_block *blocks; /* ascending */
    size_t block_count, block_room;
    struct check_place *places; /* ascending pack and offset, after pass 5 */
    size_t place_count, place_room;
    struct check_damage *damage; /* in no order until pass 9 */
    size_t damage_count, damage_room;

    uint64_t *models; /* hashes of those in the store, once models_listed */
    size_t model_count, model_room;
    bool models_listed;

    uint64_t live;       /* bytes of all records that blocks lie in, from pass 5 */
    uint32_t last_pack;  /* highest number of a pack, from pass 5 */
    uint64_t lost_found; /* inode of /lost+found, 0 = not needed yet */
    uint64_t progress_done;
};

/* ---- check.c ---- */

enum check_remedy {
    CHECK_DERIVABLE, /* the right value follows from other records */
    CHECK_LOSSY,     /* repair removes or guesses something */
    CHECK_LOST,      /* nothing to be done: reported as lost */
};

/* Reports a problem. True when the caller is to repair it now. ID fields as in index_problem. */
bool check_problem(struct checker *c, const char *kind, enum check_remedy remedy, uint64_t ino,
                   uint64_t block, uint32_t pack, const char *format, ...)
    __attribute__((format(printf, 7, 8)));

/* Counts one step of PASS and tells the caller of the check every 1,024 steps. -ECANCELED when the
 * check is to stop. */
int check_step(struct checker *c, const char *pass, uint64_t total);

/* A walk over all records of a table that survives every change to it. */
struct check_walk {
    enum index_db db;
    bool shared; /* what is done at each record uses the table's cursor too: seek every time */
    bool started;
    struct index_key key; /* copy of the present record's key */
    MDB_val found, value; /* good until the next change */
};
/* -ENOENT at the end; -EUCLEAN when keys do not ascend: the pages of the index are damaged. */
int check_next(struct checker *c, struct check_walk *walk);
/* Starts at the first key >= KEY instead of at the first record. */
void check_walk_from(struct check_walk *walk, enum index_db db, const struct index_key *key);
/* Removes the present record. */
int check_delete(struct checker *c, struct check_walk *walk);

/* Grows an array by one element; returns the element or NULL. */
void *check_grow(void **array, size_t *count, size_t *room, size_t size);

struct check_inode *check_inode_find(const struct checker *c, uint64_t ino);
struct check_block *check_block_find(const struct checker *c, uint64_t id);
int check_damage_add(struct checker *c, uint64_t block, uint32_t pack, const char *kind,
                     const char *format, ...) __attribute__((format(printf, 5, 6)));

/* ---- passes: 0 or a negative errno that ends the check ---- */

int check_records(struct checker *c);
int check_names(struct checker *c);
int check_reach(struct checker *c);
int check_extents(struct checker *c);
int check_blocks(struct checker *c);
int check_packs(struct checker *c);
int check_counters(struct checker *c);
int check_scrub(struct checker *c); /* outside transactions */
int check_damage(struct checker *c);

/* Adds an inode that a name or an extent proves to have existed, with what can be known of it: to
 * the table, so that later passes report no consequences, and with repair to the store
 * (check_names.c). */
int check_rebuild_inode(struct checker *c, uint64_t ino, uint32_t mode, uint64_t parent);
/* Puts a name for INO into /lost+found (check_reach.c). */
int check_lost_found(struct checker *c, struct check_inode *inode);

#endif
