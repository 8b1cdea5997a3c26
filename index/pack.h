/* SPDX-License-Identifier: BSD-2-Clause
 *
 * pack.h - the pack files of a store: their table in memory, the two that are appended to, a cache
 * of descriptors, and the dead ranges in them.
 *
 * Life of a pack: created when a class has none open (or the open one is full), appended to, sealed
 * when it is full or when index_pack_seal says so, and removed once it is sealed, nothing in it is
 * live and every record appended to it was put into the index or is known to be garbage.
 *
 * Locks, taken in this order: index->mutex (live, recorded, removal), then packs->mutex (all else).
 * A pack's memory stays until index_close, so a pointer to one is always good.
 */
#ifndef INDEX_PACK_H
#define INDEX_PACK_H

#include <pthread.h>
#include <stdatomic.h>

#include "io.h"
#include "record.h"

struct index_pack_file {
    uint32_t id;
    enum index_class class;

    /* index->mutex */
    uint64_t live;              /* bytes of records that blocks refer to */
    uint64_t records_put;       /* records of this session that a transaction referred to */
    struct index_pack recorded; /* as in INDEX_DB_PACK; size 0 = no record yet */

    /* packs->mutex */
    bool sealed, removed;
    bool dropping;             /* its record goes with the commit that runs */
    uint64_t tail;             /* where the next record goes */
    uint64_t written;          /* end of the furthest record that is completely in the file */
    uint64_t synced;           /* the same, as of the last fdatasync */
    uint64_t allocated;        /* end of the host space that is promised to us; >= tail */
    uint64_t records_appended; /* of this session */
    unsigned in_flight;        /* appends between taking their place and having written */
    int fd;                    /* -1 = not open */
    unsigned users;            /* of fd; no eviction while > 0 */
    uint64_t used;             /* clock of the last use of fd */
    int64_t sealed_at;         /* monotonic seconds */

    atomic_bool unsynced; /* completed appends that no fdatasync has covered */
};

struct index_packs {
    pthread_mutex_t mutex;
    struct index_pack_file **list; /* ascending ids, removed ones included */
    size_t count, capacity;
    struct index_pack_file *open[2]; /* by class; NULL = none */
    uint32_t next_id;
    unsigned open_fds;
    uint64_t clock;
    bool closing;            /* the session ends: no append is under way */
    bool directory_unsynced; /* a pack file was created since the last sync of packs/ */
    /* Host space: tail..allocated of the open hot pack, bytes; read without the mutex. */
    _Atomic uint64_t headroom;
};

struct index;
struct index_txn;

/* ---- table (pack.c) ---- */

/* The pack with this id, or NULL. Takes packs->mutex. */
struct index_pack_file *index_packs_find(struct index *index, uint32_t id);

/* Adds an empty entry; NULL without memory. packs->mutex held. */
struct index_pack_file *index_packs_add(struct index_packs *packs, uint32_t id);
/* Opens the pack's descriptor if need be and counts a user. packs->mutex held. */
int index_pack_hold(struct index *index, struct index_pack_file *pack);

/* After a sync: closes descriptors that had to stay open for it, down to the limit. */
void index_packs_close_idle(struct index *index);

/* Reads INDEX_DB_PACK and packs/, truncates tails and removes unknown files unless the index was
 * opened with INDEX_OPEN_NO_RECOVER. Read-write stores only. */
int index_packs_load(struct index *index, struct index_txn *txn);
void index_packs_free(struct index *index);

/* Holds a descriptor of the pack open until index_pack_release. -ESTALE when the pack is gone. */
int index_pack_acquire(struct index *index, uint32_t id, struct index_pack_file **pack, int *fd);
void index_pack_release(struct index *index, struct index_pack_file *pack);

/* Seals an open pack: later appends go to a new one. -ENOENT: no open pack has this id. */
int index_pack_seal(struct index *index, uint32_t id);

/* Reads SIZE bytes of a pack at OFFSET. -ESTALE: the pack is gone; -EIO: short or failed. */
int index_pack_pread(struct index *index, uint32_t id, void *data, size_t size, uint64_t offset);

/* Preallocates in the open hot pack until BYTES fit. */
int index_packs_reserve(struct index *index, uint64_t bytes);

/* Name of a pack file below packs/. NAME: 16 bytes. */
void index_pack_name(uint32_t id, char name[16]);
/* Id of a pack from its file name; false when it is no such name. */
bool index_pack_parse_name(const char *name, uint32_t *id);

/* ---- commit (pack_commit.c); called by the index thread ---- */

/* fdatasync of every pack with unsynced appends, and of packs/ after creations. */
int index_packs_sync(struct index *index);
/* Puts changed pack records, drops records of packs to be removed. Under index->mutex. */
int index_packs_record(struct index_txn *txn);
/* After the commit: closes and unlinks what index_packs_record dropped. */
void index_packs_unlink_dropped(struct index *index);
/* Gives preallocated space of sealed packs back to the host; of open ones too when ALL. */
void index_packs_trim(struct index *index, bool all);

/* ---- dead ranges (free.c) ---- */

/* Adds a record's range to INDEX_DB_FREE, joined with its neighbours, and lowers the pack's live
 * bytes. The bytes are punched after the commit. */
int index_free_add(struct index_txn *txn, const struct index_location *at);
/* Raises the pack's live bytes for a record that a block now refers to. -ESTALE: pack unknown. */
int index_free_take(struct index_txn *txn, const struct index_location *at);
/* Notes a record that nothing refers to as a dead range. */
int index_free_garbage(struct index_txn *txn, const struct index_location *at);
/* Removes all dead ranges of a pack from the index. */
int index_free_forget(struct index_txn *txn, uint32_t pack);

/* Ranges to punch once the commit is durable; list under index->mutex. */
struct index_punch {
    uint32_t pack;
    uint64_t start, end;
};
struct index_punches {
    struct index_punch *list;
    size_t count, capacity;
};
/* Sorts and joins the ranges that touch. */
void index_punches_merge(struct index_punches *punches);
void index_punch_range(struct index *index, const struct index_punch *punch);
/* Queues every dead range for punching: after an unclean end. */
int index_free_requeue(struct index_txn *txn);

#endif
