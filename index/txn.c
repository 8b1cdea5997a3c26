/* SPDX-License-Identifier: BSD-2-Clause
 *
 * txn.c - the index thread, access to the current transaction, and group commit.
 *
 * LMDB's write lock belongs to the thread that began the transaction, so one thread begins,
 * commits and aborts all of them. In between, whoever holds index->mutex works in the transaction
 * directly. A thread that needs a write transaction when none is open has the index thread begin
 * one: one switch per commit, none per operation.
 *
 * A commit: sync the packs without the mutex; take the mutex; sync what was appended meanwhile; put
 * pack records and the state; commit. All threads that waited for it, or came while the
 * packs were synced, are served by it. Afterwards, without hurry: unlink removed packs, punch dead
 * ranges. The first transaction of a session is preceded by a commit that marks the store as in use
 * and moves the next numbers ahead (see struct index_state).
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <syslog.h>

#include "internal.h"

/* Dead ranges punched between two looks at what else is wanted. */
#define PUNCH_STEP 64u

static void close_cursors(struct index_txn *txn)
{
    for (unsigned db = 0; db < INDEX_DB_COUNT; db++) {
        if (txn->cursor[db] != NULL)
            mdb_cursor_close(txn->cursor[db]);
        txn->cursor[db] = NULL;
    }
}

/* ---- the write transaction; index->mutex held, index thread only ------------------------------ */

static void writer_closed(struct index *index)
{
    index->writer.mdb = NULL;
    index->changed = false;
    atomic_store(&index->operations, 0);
    atomic_store(&index->writing, false);
}

/* Takes LMDB's lock without the mutex, which in turn is taken while that lock is held: one order. */
static int writer_begin(struct index *index)
{
    struct index_txn *const writer = &index->writer;
    MDB_txn *txn = NULL;
    pthread_mutex_unlock(&index->mutex);
    const int rc = mdb_txn_begin(index->env, NULL, 0, &txn);
    pthread_mutex_lock(&index->mutex);
    writer->index = index;
    writer->writer = true;
    writer->access = INDEX_WRITE;
    writer->error = 0;
    if (rc != 0)
        return index_fail(writer, index_mdb_error(rc), "begin");
    writer->mdb = txn;
    atomic_store(&index->writing, true);
    return 0;
}

static void writer_abort(struct index *index)
{
    if (index->writer.mdb == NULL)
        return;
    close_cursors(&index->writer);
    mdb_txn_abort(index->writer.mdb);
    index->punches.count = 0;
    index->writer.unused.count = 0;
    writer_closed(index);
}

/* The header of data.mdb that a commit replaces. */
struct old_header {
    mdb_filehandle_t fd;
    off_t at;
    ssize_t size; /* 0: not read */
    uint8_t bytes[256];
};

static void save_header(struct index *index, struct old_header *old)
{
    old->size = 0;
    if (mdb_env_get_fd(index->env, &old->fd) != 0)
        return;
    old->at = (off_t)((mdb_txn_id(index->writer.mdb) & 1) * index->page_size);
    old->size = index->io->pread(old->fd, old->bytes, sizeof old->bytes, old->at);
}

/* LMDB takes back the number of a header that it could not write, but not the trees: such a header
 * looks like a damaged one. */
static void restore_header(struct index *index, const struct old_header *old)
{
    if (old->size > 0 &&
        index->io->pwrite(old->fd, old->bytes, (size_t)old->size, old->at) != old->size)
        index_log(index, LOG_WARNING, "index/data.mdb: the header before a failed commit is lost");
}

/* Commits what the transaction holds. The transaction is over in any case. */
static int writer_commit(struct index *index, bool clean)
{
    struct index_txn *const writer = &index->writer;
    writer->access = INDEX_WRITE;
    int error = writer->error;
    if (error == 0)
        error = index_packs_record(writer);
    if (error == 0)
        error = index_state_store(writer, clean);
    if (error == 0)
        error = index_reserve_commit(index);
    close_cursors(writer);
    if (error != 0) {
        index_fail(writer, error, "commit");
        writer_abort(index);
        return error;
    }
    struct old_header old;
    save_header(index, &old);
    const int rc = index->io->txn_commit(writer->mdb);
    if (rc != 0) {
        restore_header(index, &old);
        error = index_fail(writer, index_mdb_error(rc), "commit");
        index->punches.count = 0;
    } else {
        (void)index_env_reach(index, index->env, 0); /* it took more than was thought */
    }
    writer_closed(index);
    return error;
}

/* Moves the ranges of the committed transaction to those the thread works off. */
static void take_punches(struct index *index)
{
    struct index_punches *const from = &index->punches, *const to = &index->punchable;
    index_punches_merge(from);
    if (to->count == 0) {
        const struct index_punches swap = *to;
        *to = *from;
        *from = swap;
    } else {
        const size_t count = to->count + from->count;
        struct index_punch *list = realloc(to->list, count * sizeof *list);
        if (list == NULL)
            return; /* the ranges stay in INDEX_DB_FREE; an unclean end punches them again */
        memcpy(list + to->count, from->list, from->count * sizeof *list);
        *to = (struct index_punches){.list = list, .count = count, .capacity = count};
    }
    from->count = 0;
}

static int sync_packs(struct index *index)
{
    const int error = index_packs_sync(index);
    /* What was appended may be lost, and a later sync would not say so again. */
    if (error != 0 && !atomic_exchange(&index->failed, true))
        index_log(index, LOG_ERR, "index: sync of packs: %s; no further writes", strerror(-error));
    return error;
}

/* One commit with all that belongs to it. Entered and left with the mutex held. */
static void commit(struct index *index, bool clean)
{
    pthread_mutex_unlock(&index->mutex);
    int error = sync_packs(index);
    pthread_mutex_lock(&index->mutex);
    const uint64_t generation = index->commits_wanted;
    if (error == 0 && index->writer.mdb != NULL)
        error = sync_packs(index);
    if (index->writer.mdb == NULL) {
        if (error == 0 && atomic_load(&index->failed))
            error = index->commit_error != 0 ? index->commit_error : -EROFS;
    } else if (error != 0) {
        index_fail(&index->writer, error, "sync of packs");
        writer_abort(index);
    } else {
        error = writer_commit(index, clean);
        if (error == 0) {
            index->marked_dirty = !clean;
            take_punches(index);
            index_packs_unlink_dropped(index);
            index_packs_trim(index, false);
            index_packs_close_idle(index);
            index_reserve_refresh(index);
            index_reserve_margin(index);
            (void)mdb_reader_check(index->env, NULL); /* a killed reader would keep pages in use */
        }
    }
    index->commit_error = error;
    index->commits_done = generation;
    pthread_cond_broadcast(&index->done);
}

static void begin(struct index *index)
{
    index->want_begin = false;
    int error = 0;
    if (!index->marked_dirty) {
        error = sync_packs(index);
        if (error == 0)
            error = writer_begin(index);
        if (error == 0)
            error = writer_commit(index, false);
        index->marked_dirty = error == 0;
        index_reserve_refresh(index);
    }
    if (error == 0)
        error = writer_begin(index);
    if (error != 0)
        index->commit_error = error;
    pthread_cond_broadcast(&index->done);
}

/* Punches a few of the ranges that are due, without the mutex. */
static void punch_some(struct index *index)
{
    struct index_punch ranges[PUNCH_STEP];
    struct index_punches *const due = &index->punchable;
    const size_t count = due->count < PUNCH_STEP ? due->count : PUNCH_STEP;
    memcpy(ranges, due->list + (due->count - count), count * sizeof *ranges);
    due->count -= count;
    index->punching = true;
    pthread_mutex_unlock(&index->mutex);
    for (size_t i = 0; i < count; i++)
        index_punch_range(index, &ranges[i]);
    pthread_mutex_lock(&index->mutex);
    index->punching = false;
    if (due->count == 0)
        pthread_cond_broadcast(&index->done);
}

static void *index_thread(void *arg)
{
    struct index *const index = arg;
    pthread_mutex_lock(&index->mutex);
    for (;;) {
        const bool poisoned = index->writer.mdb != NULL && index->writer.error != 0;
        if (poisoned) {
            index->commit_error = index->writer.error;
            writer_abort(index);
            pthread_cond_broadcast(&index->done);
        } else if (index->commits_wanted > index->commits_done) {
            commit(index, false);
        } else if (index->want_begin && index->writer.mdb == NULL) {
            begin(index);
        } else if (index->punchable.count > 0) {
            punch_some(index);
        } else if (index->want_stop) {
            break;
        } else {
            pthread_cond_wait(&index->wake, &index->mutex);
        }
    }
    /* Everything is punched and committed; say so, if anything was written in this session. */
    if (index->marked_dirty && !atomic_load(&index->failed) &&
        !(index->flags & INDEX_OPEN_NO_RECOVER)) {
        index->packs.closing = true;
        index_packs_trim(index, true);
        int error = index->writer.mdb == NULL ? writer_begin(index) : 0;
        if (error == 0)
            commit(index, true);
        while (index->punchable.count > 0)
            punch_some(index);
    }
    writer_abort(index); /* still open when nothing was to be committed */
    pthread_mutex_unlock(&index->mutex);
    return NULL;
}

int index_txn_start(struct index *index)
{
    const int rc = pthread_create(&index->thread, NULL, index_thread, index);
    index->thread_runs = rc == 0;
    return -rc;
}

int index_txn_stop(struct index *index)
{
    if (!index->thread_runs)
        return 0;
    int error = index_commit(index);
    pthread_mutex_lock(&index->mutex);
    index->want_stop = true;
    pthread_cond_signal(&index->wake);
    pthread_mutex_unlock(&index->mutex);
    pthread_join(index->thread, NULL);
    index->thread_runs = false;
    if (error == 0)
        error = index->commit_error;
    return error;
}

/* ---- access ----------------------------------------------------------------------------------- */

static int begin_write(struct index *index, struct index_txn **txn)
{
    if (index->flags & INDEX_OPEN_READONLY)
        return -EROFS;
    pthread_mutex_lock(&index->mutex);
    for (;;) {
        if (atomic_load(&index->failed)) {
            pthread_mutex_unlock(&index->mutex);
            return -EROFS;
        }
        if (index->writer.mdb != NULL)
            break;
        index->want_begin = true;
        pthread_cond_signal(&index->wake);
        pthread_cond_wait(&index->done, &index->mutex);
    }
    index->writer.access = INDEX_WRITE;
    *txn = &index->writer;
    return 0;
}

/* A reader of the last commit: from the pool, or a new one. */
static int begin_read(struct index *index, struct index_txn **txn)
{
    pthread_mutex_lock(&index->pool_mutex);
    struct index_txn *reader = index->pool;
    if (reader != NULL)
        index->pool = reader->next;
    pthread_mutex_unlock(&index->pool_mutex);
    int rc;
    if (reader != NULL) {
        rc = mdb_txn_renew(reader->mdb);
        for (unsigned db = 0; rc == 0 && db < INDEX_DB_COUNT; db++) {
            if (reader->cursor[db] != NULL)
                rc = mdb_cursor_renew(reader->mdb, reader->cursor[db]);
        }
    } else {
        reader = calloc(1, sizeof *reader);
        if (reader == NULL)
            return -ENOMEM;
        reader->index = index;
        reader->access = INDEX_READ;
        rc = mdb_txn_begin(index->env, NULL, MDB_RDONLY, &reader->mdb);
        if (rc != 0)
            reader->mdb = NULL;
    }
    if (rc != 0) {
        close_cursors(reader);
        if (reader->mdb != NULL)
            mdb_txn_abort(reader->mdb);
        free(reader);
        return index_mdb_error(rc);
    }
    reader->error = 0;
    *txn = reader;
    return 0;
}

int index_begin(struct index *index, enum index_access access, struct index_txn **txn)
{
    if (access == INDEX_WRITE)
        return begin_write(index, txn);
    if (atomic_load(&index->writing)) {
        pthread_mutex_lock(&index->mutex);
        if (index->writer.mdb != NULL && index->writer.error == 0) {
            index->writer.access = INDEX_READ;
            *txn = &index->writer;
            return 0;
        }
        pthread_mutex_unlock(&index->mutex);
    }
    return begin_read(index, txn);
}

/* Starts a commit when the transaction has grown; waits for it when it has grown far. */
static void commit_if_large(struct index *index)
{
    if (!index_reserve_tight(index))
        return;
    const uint64_t generation = index->commits_done + 1;
    if (index->commits_wanted < generation) {
        index->commits_wanted = generation;
        pthread_cond_signal(&index->wake);
    }
    while (index_reserve_exhausted(index) && index->commits_done < generation && index->thread_runs)
        pthread_cond_wait(&index->done, &index->mutex);
}

void index_end(struct index_txn *txn)
{
    struct index *const index = txn->index;
    if (!txn->writer) {
        mdb_txn_reset(txn->mdb);
        pthread_mutex_lock(&index->pool_mutex);
        txn->next = index->pool;
        index->pool = txn;
        pthread_mutex_unlock(&index->pool_mutex);
        return;
    }
    if (txn->access == INDEX_WRITE && txn->error == 0 && txn->unused.count > 0)
        index_blocks_drop_unused(txn);
    if (txn->error != 0)
        pthread_cond_signal(&index->wake); /* to abort it */
    else if (txn->access == INDEX_WRITE)
        commit_if_large(index);
    pthread_mutex_unlock(&index->mutex);
}

int index_commit(struct index *index)
{
    if (index->flags & INDEX_OPEN_READONLY)
        return 0;
    pthread_mutex_lock(&index->mutex);
    int error = 0;
    if (atomic_load(&index->failed)) {
        error = index->commit_error != 0 ? index->commit_error : -EROFS;
    } else if (index->writer.mdb != NULL && index->changed) {
        const uint64_t generation = index->commits_done + 1;
        if (index->commits_wanted < generation)
            index->commits_wanted = generation;
        pthread_cond_signal(&index->wake);
        while (index->commits_done < generation && !atomic_load(&index->failed))
            pthread_cond_wait(&index->done, &index->mutex);
        error = index->commits_done < generation ? -EROFS : index->commit_error;
    }
    pthread_mutex_unlock(&index->mutex);
    return error;
}

bool index_txn_settle(struct index *index)
{
    pthread_mutex_lock(&index->mutex);
    const bool any = index->changed || index->punching || index->punchable.count > 0;
    pthread_mutex_unlock(&index->mutex);
    if (!any || index_commit(index) != 0)
        return false;
    pthread_mutex_lock(&index->mutex);
    while ((index->punching || index->punchable.count > 0) && index->thread_runs)
        pthread_cond_wait(&index->done, &index->mutex);
    pthread_mutex_unlock(&index->mutex);
    return true;
}

bool index_dirty(const struct index *index)
{
    struct index *const i = (struct index *)(uintptr_t)index;
    pthread_mutex_lock(&i->mutex);
    const bool dirty = i->changed;
    pthread_mutex_unlock(&i->mutex);
    return dirty;
}

double index_dirty_age(const struct index *index)
{
    struct index *const i = (struct index *)(uintptr_t)index;
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    pthread_mutex_lock(&i->mutex);
    const bool dirty = i->changed;
    const struct timespec since = i->changed_at;
    pthread_mutex_unlock(&i->mutex);
    if (!dirty)
        return 0;
    return (double)(now.tv_sec - since.tv_sec) + (double)(now.tv_nsec - since.tv_nsec) * 1e-9;
}

/* ---- opening and closing ---------------------------------------------------------------------- */

int index_txn_begin_local(struct index *index, enum index_access access)
{
    struct index_txn *const txn = &index->writer;
    txn->index = index;
    txn->writer = true;
    txn->access = access;
    txn->error = 0;
    const int rc =
        mdb_txn_begin(index->env, NULL, access == INDEX_READ ? MDB_RDONLY : 0, &txn->mdb);
    if (rc != 0)
        txn->mdb = NULL;
    return index_mdb_error(rc);
}

int index_txn_end_local(struct index *index, bool keep)
{
    struct index_txn *const txn = &index->writer;
    int rc = 0;
    close_cursors(txn);
    if (keep && txn->error == 0)
        rc = index->io->txn_commit(txn->mdb);
    else
        mdb_txn_abort(txn->mdb);
    writer_closed(index);
    return txn->error != 0 ? txn->error : index_mdb_error(rc);
}

void index_txn_free_pool(struct index *index)
{
    while (index->pool != NULL) {
        struct index_txn *const reader = index->pool;
        index->pool = reader->next;
        close_cursors(reader);
        mdb_txn_abort(reader->mdb);
        free(reader);
    }
}
