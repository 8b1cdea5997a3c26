/* SPDX-License-Identifier: BSD-2-Clause
 *
 * salvage.h - rebuilding the index, between salvage.c (sources, order of steps, the exchange) and
 * salvage_packs.c (what the packs say).
 */
#ifndef INDEX_SALVAGE_H
#define INDEX_SALVAGE_H

#include "internal.h"
#include "pages.h"

struct salvage_gap { /* records between two keys, exclusive, are lost */
    enum index_db db;
    bool from_start, to_end;
    struct index_key low, high;
};

struct salvage_found {        /* an intact record in a pack */
    struct index_block block; /* with its place and its owner */
    bool used;                /* a block record names it now */
};

struct salvage {
    struct index *place; /* paths, system calls, UUID, block size; no environment is open in it */
    const struct index_salvage *options;
    struct index_salvage_result *result;

    MDB_env *env; /* the new index */
    MDB_txn *txn;
    MDB_dbi db[INDEX_DB_COUNT];
    uint64_t uncommitted; /* bytes */
    struct index_state state;
    bool filling; /* reading a copy: only what falls into a gap is put */

    struct salvage_gap *gaps;
    size_t gap_count, gap_room;
    uint64_t copy_blocks;  /* highest block id in the copy, 0: no copy */
    bool stale;            /* the present index may be that of the commit before the last */
    uint64_t index_blocks; /* highest block id in it */

    struct salvage_found *found; /* ascending ids */
    size_t found_count, found_room;
    uint64_t *referred; /* ascending ids of blocks that extents name */
    size_t referred_count, referred_room;
    struct salvage_side { /* files of blocks that have no place in their own */
        uint64_t owner, ino;
    } * sides;
    size_t side_count, side_room;
};

bool salvage_in_gap(const struct salvage *s, enum index_db db, const MDB_val *key);
bool salvage_any_gap(const struct salvage *s, enum index_db db);
/* -EEXIST with UNIQUE; poisons nothing. VALUE has no seal. */
int salvage_put(struct salvage *s, enum index_db db, const struct index_key *key,
                const struct index_record *record, bool unique);
/* Without its seal; -ENOENT. */
int salvage_get(struct salvage *s, enum index_db db, const struct index_key *key, MDB_val *value);
void salvage_say(struct salvage *s, const char *kind, enum index_problem_state state, uint64_t ino,
                 uint64_t block, uint32_t pack, const char *format, ...)
    __attribute__((format(printf, 7, 8)));
int salvage_stopped(const struct salvage *s);

/* Scans all packs: every record in them that is intact, and a pack record each. */
int salvage_scan(struct salvage *s);
/* Gives blocks their places, and those that nothing refers to a file. */
int salvage_attach(struct salvage *s);

#endif
