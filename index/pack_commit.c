/* SPDX-License-Identifier: BSD-2-Clause
 *
 * pack_commit.c - the packs' part in a commit: their bytes are synced first, their records go into
 * the transaction, and what the transaction dropped is unlinked after it.
 *
 * A sealed pack goes when nothing in it is live and no record is on its way into the index: each
 * record appended in this session was put by a transaction, or the pack has been sealed for
 * SETTLE_SECONDS (then a record that still was not put never will be), or the session ends.
 */
#include <errno.h>
#include <stdlib.h>
#include <syslog.h>
#include <string.h>

#include "internal.h"

#define SETTLE_SECONDS 600

/* One pack with appends that are not synced, held; NULL when there is none. */
static struct index_pack_file *next_unsynced(struct index *index, size_t *from, uint64_t *written,
                                             int *error)
{
    struct index_packs *const packs = &index->packs;
    struct index_pack_file *found = NULL;
    pthread_mutex_lock(&packs->mutex);
    for (; *from < packs->count && found == NULL && *error == 0; (*from)++) {
        struct index_pack_file *const pack = packs->list[*from];
        if (!atomic_load(&pack->unsynced) || pack->removed)
            continue;
        *error = index_pack_hold(index, pack);
        if (*error == 0) {
            atomic_store(&pack->unsynced, false);
            *written = pack->written;
            found = pack;
        }
    }
    pthread_mutex_unlock(&packs->mutex);
    return found;
}

int index_packs_sync(struct index *index)
{
    struct index_packs *const packs = &index->packs;
    int error = 0;
    size_t from = 0;
    uint64_t written;
    struct index_pack_file *pack;
    while ((pack = next_unsynced(index, &from, &written, &error)) != NULL) {
        if (index->io->fdatasync(pack->fd) < 0)
            error = -errno;
        pthread_mutex_lock(&packs->mutex);
        if (error == 0 && pack->synced < written)
            pack->synced = written;
        pthread_mutex_unlock(&packs->mutex);
        index_pack_release(index, pack);
        if (error != 0) {
            index_log(index, LOG_ERR, "pack %08x: sync: %s", pack->id, strerror(-error));
            return error;
        }
    }
    if (error != 0)
        return error;
    pthread_mutex_lock(&packs->mutex);
    const bool directory = packs->directory_unsynced;
    packs->directory_unsynced = false;
    pthread_mutex_unlock(&packs->mutex);
    return directory ? index_io_sync_dir(index->io, index->packs_fd) : 0;
}

/* True when the pack goes with this commit. packs->mutex and index->mutex held. */
static bool finished(const struct index_packs *packs, const struct index_pack_file *pack,
                     int64_t now)
{
    if (pack->live != 0 || pack->in_flight != 0 || !(pack->sealed || packs->closing))
        return false;
    return packs->closing || pack->records_appended == pack->records_put ||
           now - pack->sealed_at > SETTLE_SECONDS;
}

static int put_record(struct index_txn *txn, const struct index_pack *record)
{
    struct index_key key;
    index_key_one(&key, record->id);
    index_record_pack(&txn->record, record);
    return index_db_put_record(txn, INDEX_DB_PACK, &key, &txn->record);
}

static int drop_record(struct index_txn *txn, uint32_t id)
{
    struct index_key key;
    index_key_one(&key, id);
    const int error = index_db_delete(txn, INDEX_DB_PACK, &key);
    if (error != 0 && error != -ENOENT)
        return error;
    return index_free_forget(txn, id);
}

static int record_one(struct index_txn *txn, struct index_pack_file *pack, int64_t now)
{
    struct index_packs *const packs = &txn->index->packs;
    pthread_mutex_lock(&packs->mutex);
    const struct index_pack current = {.id = pack->id,
                                       .class = (uint8_t)pack->class,
                                       .sealed = pack->sealed,
                                       .size = pack->synced,
                                       .live = pack->live};
    const bool gone = pack->removed;
    /* Opened for checking, nothing is dropped: the counter of live bytes is what is in question. */
    const bool drop =
        !gone && !(txn->index->flags & INDEX_OPEN_NO_RECOVER) && finished(packs, pack, now);
    if (drop) {
        pack->dropping = true;
        if (packs->open[pack->class] == pack) {
            packs->open[pack->class] = NULL;
            pack->sealed = true;
            pack->users--;
            atomic_store(&packs->headroom, 0);
        }
    }
    pthread_mutex_unlock(&packs->mutex);
    if (gone || current.size < INDEX_PACK_HEADER)
        return 0;
    if (drop)
        return drop_record(txn, pack->id);
    const struct index_pack *const old = &pack->recorded;
    if (old->size == current.size && old->live == current.live && old->sealed == current.sealed)
        return 0;
    pack->recorded = current;
    return put_record(txn, &current);
}

int index_packs_record(struct index_txn *txn)
{
    struct index *const index = txn->index;
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    for (size_t i = 0;; i++) {
        pthread_mutex_lock(&index->packs.mutex);
        struct index_pack_file *const pack = i < index->packs.count ? index->packs.list[i] : NULL;
        pthread_mutex_unlock(&index->packs.mutex);
        if (pack == NULL)
            return 0;
        const int error = record_one(txn, pack, now.tv_sec);
        if (error != 0)
            return error;
    }
}

void index_packs_unlink_dropped(struct index *index)
{
    struct index_packs *const packs = &index->packs;
    pthread_mutex_lock(&packs->mutex);
    for (size_t i = 0; i < packs->count; i++) {
        struct index_pack_file *const pack = packs->list[i];
        if (!pack->dropping)
            continue;
        char name[16];
        index_pack_name(pack->id, name);
        pack->dropping = false;
        pack->removed = true;
        atomic_store(&pack->unsynced, false);
        if (pack->users == 0 && pack->fd >= 0) {
            index->io->close(pack->fd);
            pack->fd = -1;
            packs->open_fds--;
        }
        if (index->io->unlinkat(index->packs_fd, name, 0) < 0 && errno != ENOENT)
            index_log(index, LOG_WARNING, "pack %08x: cannot remove: %s", pack->id,
                      strerror(errno));
    }
    pthread_mutex_unlock(&packs->mutex);
}

void index_packs_trim(struct index *index, bool all)
{
    struct index_packs *const packs = &index->packs;
    pthread_mutex_lock(&packs->mutex);
    for (size_t i = 0; i < packs->count; i++) {
        struct index_pack_file *const pack = packs->list[i];
        if (pack->removed || pack->allocated <= pack->tail || pack->in_flight > 0 ||
            !(pack->sealed || all) || index_pack_hold(index, pack) != 0)
            continue;
        if (index->io->ftruncate(pack->fd, (off_t)pack->tail) == 0)
            pack->allocated = pack->tail;
        pack->users--;
    }
    const struct index_pack_file *const hot = packs->open[INDEX_HOT];
    atomic_store(&packs->headroom, hot == NULL ? 0 : hot->allocated - hot->tail);
    pthread_mutex_unlock(&packs->mutex);
}
