/* SPDX-License-Identifier: BSD-2-Clause
 *
 * internal.h - the open store and its transactions, as the files of index/ see them. Start reading
 * with struct index; store.c opens it, txn.c commits it, db.c touches LMDB for all others.
 *
 * Locks, in the order they may be taken: index->mutex, packs.mutex, pool_mutex. conf_mutex is taken
 * alone.
 */
#ifndef INDEX_INTERNAL_H
#define INDEX_INTERNAL_H

#include <lmdb.h>
#include <pthread.h>
#include <stdatomic.h>

#include "index.h"
#include "io.h"
#include "pack.h"
#include "record.h"

#define INDEX_BLOCK_DEFAULT (128u << 10)        /* bytes */
#define INDEX_BLOCK_MIN     (16u << 10)         /* bytes */
#define INDEX_MAP_DEFAULT   (UINT64_C(1) << 40) /* bytes */
#define INDEX_PACK_DEFAULT  (256u << 20)        /* bytes */

/* Uncommitted pages (an upper bound) beyond which a commit is started without being asked for:
 * 64 MiB of memory with 4 KiB pages. */
#define INDEX_TXN_PAGES 16384u

/* How far numbers are reserved ahead at each commit (struct index_state); more than a transaction
 * of INDEX_TXN_PAGES can use. */
#define INDEX_NUMBERS_AHEAD (UINT64_C(1) << 20)

struct index_ids {
    uint64_t *list;
    size_t count, capacity;
};

/* Access to the records. The one writer is index->writer; readers come from a pool. Not for two
 * threads at once. */
struct index_txn {
    struct index *index;
    MDB_txn *mdb;
    MDB_cursor *cursor[INDEX_DB_COUNT]; /* opened at first use */
    enum index_access access;
    bool writer;                /* this is index->writer, index->mutex is held */
    int error;                  /* negative errno of the failure that poisoned the transaction */
    struct index_ids unused;    /* blocks to look at in index_end: no reference may be left */
    struct index_txn *next;     /* in the pool */
    struct index_record record; /* scratch of the function that runs */
};

/* A line "key=value" of sepfs.conf, or a comment. */
struct index_conf_line {
    char *text;  /* the whole line */
    char *key;   /* NULL for a comment or an empty line */
    char *value; /* as written */
};

struct index {
    char *path;
    const char *index_name; /* the directory of the environment: "index" but for a salvage */
    unsigned flags;         /* enum index_open_flags */
    const struct index_io *io;
    index_log_fn log;
    void *log_arg;
    uint32_t block_size, pack_size;
    uint8_t uuid[16];
    uint64_t name_seed; /* for the hash of names */

    int dir_fd, index_fd, packs_fd; /* STORE, STORE/index, STORE/packs */
    int lock_fd;                    /* -1 when read-only */
    bool lock_lent;                 /* the lock is somebody else's, who keeps it */

    pthread_mutex_t conf_mutex;
    struct index_conf_line *conf; /* conf_mutex */
    size_t conf_count;            /* conf_mutex */

    MDB_env *env;
    MDB_dbi db[INDEX_DB_COUNT];
    uint64_t map_size;
    uint32_t page_size;

    /* Transactions. mutex is held by the thread inside the write transaction and during commits. */
    pthread_mutex_t mutex;
    pthread_cond_t wake; /* for the index thread */
    pthread_cond_t done; /* a transaction began, ended, or a commit finished */
    pthread_t thread;
    bool thread_runs;
    struct index_txn writer;
    bool want_begin, want_stop;     /* mutex */
    bool marked_dirty;              /* mutex: the state on disk says not clean */
    uint64_t commits_wanted;        /* mutex: generation that somebody waits for */
    uint64_t commits_done;          /* mutex: generation of the last finished commit */
    int commit_error;               /* mutex: of the last commit */
    bool changed;                   /* mutex: the open transaction changed something */
    struct timespec changed_at;     /* mutex: monotonic time of the oldest change */
    atomic_bool writing;            /* a write transaction is open */
    atomic_bool failed;             /* poisoned: refuses writes until opened again */
    _Atomic uint64_t operations;    /* pages that the open transaction may have touched */
    struct index_punches punches;   /* mutex: of the open transaction */
    bool punching;                  /* mutex: some that are no longer listed are being punched */
    struct index_punches punchable; /* mutex: committed, for the index thread to work off */

    pthread_mutex_t pool_mutex;
    struct index_txn *pool; /* pool_mutex: idle readers */

    /* State, under mutex; the copy in INDEX_DB_META is as of the last commit. */
    uint64_t next_ino;
    _Atomic uint64_t next_block;
    struct index_counters counters;

    struct index_packs packs;

    /* The thread that copies the index (copies.c); copier_mutex is a leaf lock. */
    pthread_mutex_t copier_mutex;
    pthread_cond_t copier_wake;
    pthread_t copier;
    bool copier_runs;
    bool copier_stop;       /* copier_mutex */
    uint64_t opened_commit; /* LMDB's number of the last commit when the store was opened */

    /* Space (reserve.c), bytes. */
    _Atomic uint64_t promised;        /* pack bytes promised and not released */
    _Atomic uint64_t index_used;      /* data.mdb up to its last page at the last commit */
    _Atomic uint64_t index_allocated; /* host space data.mdb may grow into without asking */
    atomic_bool no_prealloc;          /* the host cannot preallocate */
    _Atomic uint64_t copy_bytes;      /* of the copies of the index */
    pthread_mutex_t reserve_mutex;    /* held while data.mdb gets more room; a leaf lock */
};

/* ---- store.c ---- */

/* index_open with another table of system calls: for the tests. */
int index_open_with(const char *path, const struct index_options *options,
                    const struct index_io *io, struct index **index, char *error, size_t size);

/* Walks the pages of data.mdb as of COMMIT, which a reader of LMDB pins. -EUCLEAN, -EIO, -ESTALE (its
 * header is gone already) and others leave the reason in TEXT. */
int index_snapshot_check(struct index *index, uint64_t commit, char *text, size_t size);

/* The same in another directory of the store than index/, under a lock that the caller holds. */
struct index_place {
    const char *directory;
    int lock_fd;
};
int index_open_place(const char *path, const struct index_options *options,
                     const struct index_io *io, const struct index_place *place,
                     struct index **index, char *error, size_t size);
/* Opens the store's directory, takes its lock and reads sepfs.conf; no more of it is usable. Release
 * it with index_store_unlock. */
int index_store_lock(const char *path, const struct index_options *options,
                     const struct index_io *io, struct index **index, char *error, size_t size);
void index_store_unlock(struct index *index);

void index_log(const struct index *index, int priority, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* ---- db.c: LMDB, with our errnos ---- */

/* 0, -ENOENT (no such key), or a failure that poisoned a write transaction. VALUE points into the
 * map and is good until the next write in this transaction or index_end; it is empty when the
 * record's checksum does not match. DATA must not point into the map. */
int index_db_get(struct index_txn *txn, enum index_db db, const struct index_key *key,
                 MDB_val *value);
/* Inserts or replaces. */
int index_db_put(struct index_txn *txn, enum index_db db, const struct index_key *key,
                 const void *data, size_t size);
int index_db_put_record(struct index_txn *txn, enum index_db db, const struct index_key *key,
                        const struct index_record *record);
/* -ENOENT when there is no such key. */
int index_db_delete(struct index_txn *txn, enum index_db db, const struct index_key *key);
/* Any key, as LMDB returned it: removes a malformed record. */
int index_db_delete_raw(struct index_txn *txn, enum index_db db, const MDB_val *key);
/* First record with key >= KEY, and the record after the one that the last seek, next or before
 * found. -ENOENT at the end. Changes to other records do not disturb the walk. */
int index_db_seek(struct index_txn *txn, enum index_db db, const struct index_key *key,
                  MDB_val *found, MDB_val *value);
int index_db_next(struct index_txn *txn, enum index_db db, MDB_val *found, MDB_val *value);
/* Last record with key < KEY. */
int index_db_before(struct index_txn *txn, enum index_db db, const struct index_key *key,
                    MDB_val *found, MDB_val *value);
uint64_t index_db_entries(struct index_txn *txn, enum index_db db);

/* Logs a malformed or damaged record with its key; returns -EUCLEAN. */
int index_malformed(struct index_txn *txn, enum index_db db, const MDB_val *key);
/* Poisons the write transaction: it is rolled back, the index refuses writes. Returns ERROR. */
int index_fail(struct index_txn *txn, int error, const char *what);
/* The negative errno for a return value of LMDB. */
int index_mdb_error(int rc);

/* ---- txn.c ---- */

int index_txn_start(struct index *index); /* starts the index thread */
int index_txn_stop(struct index *index);  /* last commit, stops it; returns the commit's error */
void index_txn_free_pool(struct index *index);
/* Commits and gives the host back what became garbage. False when there was nothing to do, or it
 * failed. Outside index_begin. */
bool index_txn_settle(struct index *index);
/* A transaction of the calling thread for use before the index thread runs (opening). */
int index_txn_begin_local(struct index *index, enum index_access access);
int index_txn_end_local(struct index *index, bool commit);

/* ---- meta.c ---- */

int index_state_load(struct index_txn *txn, struct index_state *state);
/* Puts the state: numbers reserved ahead unless CLEAN. */
int index_state_store(struct index_txn *txn, bool clean);
/* Adds SIGN (1 or -1) times this inode to the counters. */
void index_count_inode(struct index *index, const struct index_inode *inode, int sign);

/* ---- block.c ---- */

/* index_end: drops the blocks noted in txn->unused that have no reference. */
int index_blocks_drop_unused(struct index_txn *txn);
int index_block_put(struct index_txn *txn, const struct index_block *block);
int index_txn_note_unused(struct index_txn *txn, uint64_t block);

/* ---- conf.c ---- */

int index_conf_load(struct index *index, char *error, size_t size);
int index_conf_create(struct index *index);
void index_conf_free(struct index *index);

/* ---- recover.c, rebuild.c, reserve.c ---- */

/* Finishes what a crash interrupted: orphans. Needs the index thread. */
int index_recover(struct index *index);
/* Copies a mostly empty index file into a new one, index/data.mdb.new. True when it did. Nothing
 * may run in the environment. */
bool index_rebuild_copy(struct index *index);
/* Puts the copy in place of the old file; after the environment was closed. */
int index_rebuild_swap(struct index *index);
/* Makes the file of ENV reach END and its last page. LMDB does not write pages that a transaction
 * took and freed again; without this its file may end before the last page that its header counts,
 * as one that was cut short does. A longer file costs nothing: what is added is a hole. */
int index_env_reach(const struct index *index, MDB_env *env, uint64_t end);
/* The same for what the open transaction may have taken: before its commit, so that a crash behind
 * it finds the file long enough. */
int index_reserve_commit(const struct index *index);
/* Re-reads how far data.mdb is in use: after a commit. */
void index_reserve_refresh(struct index *index);
/* True when the open transaction should be committed soon for lack of room or memory. */
bool index_reserve_tight(const struct index *index);
/* True when nothing may be added to it before that: deletions, which reserve nothing, could otherwise
 * use up what is kept for them while the commit is on its way. */
bool index_reserve_exhausted(const struct index *index);
/* Gets the margin that deletions need, if the host has it, or gives back what is more than that: at
 * opening and after commits. No transaction may be open. */
void index_reserve_margin(struct index *index);
/* Has the host hold NEED bytes or more of FD for us from FROM on. On success *got >= NEED. */
int index_reserve_host(struct index *index, int fd, uint64_t from, uint64_t need, uint64_t *got);
/* Gives back what data.mdb holds beyond its last page, unless the host is nearly full: then the next
 * session may need it to delete something. No transaction may be open. */
void index_reserve_trim(struct index *index);

#endif
