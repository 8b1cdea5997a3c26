/* SPDX-License-Identifier: BSD-2-Clause
 *
 * pack.c - the table of packs, their descriptors, and what opening a store does to them.
 *
 * Descriptors are opened on demand and kept, at most FD_LIMIT of them, least recently used out
 * first; one in use, or with appends that no fdatasync has covered, stays. A read-only index does
 * not load the table: it takes packs as block records name them.
 *
 * Opening read-write brings packs/ to what the last commit says: the tail of an open pack beyond its
 * committed size is cut off, a pack without a record is removed (nothing can refer to either), and
 * both are left alone when the index is opened for checking.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <syslog.h>
#include <unistd.h>

#include "internal.h"

#define FD_LIMIT 64u

void index_pack_name(uint32_t id, char name[16])
{
    snprintf(name, 16, "%08x.pack", id);
}

bool index_pack_parse_name(const char *name, uint32_t *id)
{
    char again[16];
    unsigned value;
    if (strlen(name) != 13 || sscanf(name, "%8x", &value) != 1)
        return false;
    index_pack_name(value, again);
    *id = value;
    return value != 0 && strcmp(name, again) == 0;
}

/* ---- table; packs->mutex held ------------------------------------------------------------------ */

/* Position of the first pack with an id >= ID. */
static size_t position(const struct index_packs *packs, uint32_t id)
{
    size_t low = 0, high = packs->count;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (packs->list[middle]->id < id)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static struct index_pack_file *find(const struct index_packs *packs, uint32_t id)
{
    const size_t at = position(packs, id);
    return at < packs->count && packs->list[at]->id == id ? packs->list[at] : NULL;
}

struct index_pack_file *index_packs_add(struct index_packs *packs, uint32_t id)
{
    if (packs->count == packs->capacity) {
        const size_t capacity = packs->capacity == 0 ? 64 : 2 * packs->capacity;
        struct index_pack_file **list = realloc(packs->list, capacity * sizeof(*list));
        if (list == NULL)
            return NULL;
        packs->list = list;
        packs->capacity = capacity;
    }
    struct index_pack_file *const pack = calloc(1, sizeof *pack);
    if (pack == NULL)
        return NULL;
    pack->id = id;
    pack->fd = -1;
    const size_t at = position(packs, id);
    memmove(packs->list + at + 1, packs->list + at, (packs->count - at) * sizeof *packs->list);
    packs->list[at] = pack;
    packs->count++;
    return pack;
}

struct index_pack_file *index_packs_find(struct index *index, uint32_t id)
{
    pthread_mutex_lock(&index->packs.mutex);
    struct index_pack_file *const pack = find(&index->packs, id);
    pthread_mutex_unlock(&index->packs.mutex);
    return pack;
}

/* ---- descriptors ------------------------------------------------------------------------------- */

static void close_fd(struct index *index, struct index_pack_file *pack)
{
    if (pack->fd < 0)
        return;
    index->io->close(pack->fd);
    pack->fd = -1;
    index->packs.open_fds--;
}

/* Closes the descriptor that was not used for longest. False when none may be closed. */
static bool evict_fd(struct index *index)
{
    struct index_packs *const packs = &index->packs;
    struct index_pack_file *oldest = NULL;
    for (size_t i = 0; i < packs->count; i++) {
        struct index_pack_file *const pack = packs->list[i];
        if (pack->fd >= 0 && pack->users == 0 && !atomic_load(&pack->unsynced) &&
            (oldest == NULL || pack->used < oldest->used))
            oldest = pack;
    }
    if (oldest != NULL)
        close_fd(index, oldest);
    return oldest != NULL;
}

void index_packs_close_idle(struct index *index)
{
    pthread_mutex_lock(&index->packs.mutex);
    while (index->packs.open_fds > FD_LIMIT && evict_fd(index))
        ;
    pthread_mutex_unlock(&index->packs.mutex);
}

int index_pack_hold(struct index *index, struct index_pack_file *pack)
{
    struct index_packs *const packs = &index->packs;
    if (pack->removed)
        return -ESTALE;
    if (pack->fd < 0) {
        char name[16];
        index_pack_name(pack->id, name);
        while (packs->open_fds >= FD_LIMIT && evict_fd(index))
            ;
        const int flags = index->flags & INDEX_OPEN_READONLY ? O_RDONLY : O_RDWR;
        const int fd = index_io_open(index->io, index->packs_fd, name, flags, 0);
        if (fd < 0)
            return fd == -ENOENT ? -ESTALE : fd;
        pack->fd = fd;
        packs->open_fds++;
    }
    pack->users++;
    pack->used = ++packs->clock;
    return 0;
}

int index_pack_acquire(struct index *index, uint32_t id, struct index_pack_file **pack, int *fd)
{
    struct index_packs *const packs = &index->packs;
    int error = -ESTALE;
    pthread_mutex_lock(&packs->mutex);
    struct index_pack_file *found = find(packs, id);
    if (found == NULL && (index->flags & INDEX_OPEN_READONLY)) {
        char name[16];
        struct stat status;
        index_pack_name(id, name);
        const int probe = index_io_open(index->io, index->packs_fd, name, O_RDONLY, 0);
        if (probe >= 0) { /* only for files that exist, so that records cannot grow the table */
            if (index->io->fstat(probe, &status) == 0)
                found = index_packs_add(packs, id);
            index->io->close(probe);
        }
    }
    if (found != NULL)
        error = index_pack_hold(index, found);
    if (error == 0) {
        *pack = found;
        *fd = found->fd;
    }
    pthread_mutex_unlock(&packs->mutex);
    return error;
}

void index_pack_release(struct index *index, struct index_pack_file *pack)
{
    pthread_mutex_lock(&index->packs.mutex);
    pack->users--;
    if (pack->users == 0 && pack->removed)
        close_fd(index, pack);
    pthread_mutex_unlock(&index->packs.mutex);
}

int index_pack_pread(struct index *index, uint32_t id, void *data, size_t size, uint64_t offset)
{
    struct index_pack_file *pack;
    int fd;
    if (offset > INT64_MAX - size)
        return -EIO;
    const int error = index_pack_acquire(index, id, &pack, &fd);
    if (error != 0)
        return error == -ESTALE || error == -ENOMEM || error == -EMFILE ? error : -EIO;
    const ssize_t got = index_io_read(index->io, fd, data, size, offset);
    index_pack_release(index, pack);
    return got == (ssize_t)size ? 0 : -EIO;
}

/* ---- records ----------------------------------------------------------------------------------- */

int index_pack_next(struct index_txn *txn, uint32_t from, struct index_pack *pack)
{
    struct index *const index = txn->index;
    if (txn->writer && index->thread_runs && !atomic_load(&index->failed)) {
        struct index_packs *const packs = &index->packs;
        int error = -ENOENT;
        pthread_mutex_lock(&packs->mutex);
        for (size_t at = position(packs, from); at < packs->count; at++) {
            const struct index_pack_file *const file = packs->list[at];
            if (file->removed)
                continue;
            *pack = (struct index_pack){.id = file->id,
                                        .class = (uint8_t)file->class,
                                        .sealed = file->sealed,
                                        .size = file->tail,
                                        .live = file->live};
            error = 0;
            break;
        }
        pthread_mutex_unlock(&packs->mutex);
        return error;
    }
    struct index_key key;
    MDB_val found, value;
    index_key_one(&key, from);
    const int error = index_db_seek(txn, INDEX_DB_PACK, &key, &found, &value);
    if (error == 0 && index_record_get_pack(&found, &value, pack) < 0)
        return index_malformed(txn, INDEX_DB_PACK, &found);
    return error;
}

/* ---- opening ----------------------------------------------------------------------------------- */

/* Makes the tail of an open pack what was committed. */
static int load_open(struct index *index, struct index_pack_file *file)
{
    int error = index_pack_hold(index, file);
    if (error == -ESTALE) {
        index_log(index, LOG_ERR, "pack %08x: the file is missing", file->id);
        file->sealed = true;
        return 0;
    }
    if (error != 0) {
        index_log(index, LOG_ERR, "pack %08x: %s", file->id, strerror(-error));
        return error;
    }
    struct stat status;
    if (index->io->fstat(file->fd, &status) < 0) {
        error = -errno;
        goto out;
    }
    const uint64_t size = (uint64_t)status.st_size;
    if (index->flags & INDEX_OPEN_NO_RECOVER) {
        if (size > file->tail)
            file->tail = (size + INDEX_PACK_ALIGN - 1) & ~(uint64_t)(INDEX_PACK_ALIGN - 1);
    } else if (size >= file->tail) { /* the same size: gives back what was preallocated */
        if (index->io->ftruncate(file->fd, (off_t)file->tail) < 0)
            error = -errno;
    }
    if (index->packs.open[file->class] == NULL) {
        file->users++;
        index->packs.open[file->class] = file;
    } else {
        file->sealed = true;
    }
out:
    file->users--;
    return error;
}

static int load_record(struct index *index, const struct index_pack *record)
{
    struct index_pack_file *const file = index_packs_add(&index->packs, record->id);
    if (file == NULL)
        return -ENOMEM;
    const uint64_t least = INDEX_PACK_HEADER;
    file->class = record->class;
    file->live = record->live;
    file->recorded = *record;
    file->sealed = record->sealed;
    file->tail = record->size < least ? least : record->size;
    file->tail = (file->tail + INDEX_PACK_ALIGN - 1) & ~(uint64_t)(INDEX_PACK_ALIGN - 1);
    const int error = file->sealed ? 0 : load_open(index, file);
    file->allocated = file->written = file->synced = file->tail;
    return error;
}

/* Removes pack files without a record if KEEP is false, and moves the next id behind all that
 * exist. */
static int scan_directory(struct index *index, bool keep)
{
    DIR *dir;
    int got = index_io_list(index->io, index->packs_fd, &dir);
    if (got != 0)
        return got;
    const struct dirent *entry;
    while ((got = index_io_next(index->io, dir, &entry)) > 0) {
        uint32_t id;
        if (!index_pack_parse_name(entry->d_name, &id))
            continue;
        const bool known = find(&index->packs, id) != NULL;
        if (!known && !keep) {
            if (index->io->unlinkat(index->packs_fd, entry->d_name, 0) < 0)
                index_log(index, LOG_WARNING, "pack %08x: cannot remove the unused file: %s", id,
                          strerror(errno));
        } else if (id >= index->packs.next_id && id < UINT32_MAX) {
            index->packs.next_id = id + 1;
        }
    }
    index->io->closedir(dir);
    return got;
}

int index_packs_load(struct index *index, struct index_txn *txn)
{
    struct index_key key;
    MDB_val found, value;
    bool keep = (index->flags & INDEX_OPEN_NO_RECOVER) != 0;
    index_key_one(&key, 0);
    pthread_mutex_lock(&index->packs.mutex);
    int error = index_db_seek(txn, INDEX_DB_PACK, &key, &found, &value);
    while (error == 0) {
        struct index_pack record;
        if (index_record_get_pack(&found, &value, &record) == 0) {
            error = load_record(index, &record);
        } else { /* one of the files may be the pack that it described */
            index_malformed(txn, INDEX_DB_PACK, &found);
            keep = true;
        }
        if (error == 0)
            error = index_db_next(txn, INDEX_DB_PACK, &found, &value);
    }
    if (error == -ENOENT)
        error = scan_directory(index, keep);
    pthread_mutex_unlock(&index->packs.mutex);
    return error;
}

void index_packs_free(struct index *index)
{
    struct index_packs *const packs = &index->packs;
    for (size_t i = 0; i < packs->count; i++) {
        close_fd(index, packs->list[i]);
        free(packs->list[i]);
    }
    free(packs->list);
    packs->list = NULL;
    packs->count = packs->capacity = 0;
    packs->open[INDEX_HOT] = packs->open[INDEX_COLD] = NULL;
}
