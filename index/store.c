/* SPDX-License-Identifier: BSD-2-Clause
 *
 * store.c - opens, locks and closes a store.
 *
 * A directory with a sepfs.conf is a store. Creation writes that file last, so a directory that
 * holds nothing but the pieces of a creation is one that was interrupted: it is begun again.
 *
 * Locks: a read-write opener holds flock(LOCK_EX) on STORE/lock, which also holds its process id. A
 * read-only opener shares a lock on the directory STORE/index; whoever replaces index/data.mdb or
 * removes lock.mdb holds that one exclusively, because LMDB's readers must not see either change.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <syslog.h>
#include <unistd.h>

#include "bytes.h"
#include "copy.h"
#include "create.h"
#include "internal.h"
#include "pages.h"

#define SNAPSHOTS 100u /* tried before a reader gives up on a writer that commits without end */

void index_log(const struct index *index, int priority, const char *format, ...)
{
    if (index->log == NULL)
        return;
    char line[512];
    va_list args;
    va_start(args, format);
    vsnprintf(line, sizeof line, format, args);
    va_end(args);
    index->log(index->log_arg, priority, line);
}

int index_refuse(struct index_refusal *refusal, int result, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    if (refusal->size > 0)
        vsnprintf(refusal->text, refusal->size, format, args);
    va_end(args);
    return result;
}

/* ---- lock ---------------------------------------------------------------------------------------- */

static int refuse_locked(struct index *index, int fd, struct index_refusal *refusal)
{
    char text[32] = "";
    const ssize_t got = index_io_read(index->io, fd, text, sizeof text - 1, 0);
    const long pid = got > 0 ? strtol(text, NULL, 10) : 0;
    if (pid > 0)
        return index_refuse(refusal, -EBUSY, "%s: store is mounted by process %ld", index->path,
                            pid);
    return index_refuse(refusal, -EBUSY, "%s: store is in use by another process", index->path);
}

/* Takes the lock of a read-write opener. */
static int lock_store(struct index *index, struct index_refusal *refusal)
{
    const int fd = index_io_open(index->io, index->dir_fd, "lock", O_RDWR | O_CREAT, 0600);
    if (fd < 0)
        return index_refuse(refusal, fd, "%s/lock: %s", index->path, strerror(-fd));
    int error = 0;
    if (index->io->flock(fd, LOCK_EX | LOCK_NB) < 0) {
        error = -errno;
        if (error == -EWOULDBLOCK)
            error = refuse_locked(index, fd, refusal);
        else
            index_refuse(refusal, error, "%s/lock: %s", index->path, strerror(-error));
        index->io->close(fd);
        return error;
    }
    char text[32];
    struct iovec part = {.iov_base = text};
    part.iov_len = (size_t)snprintf(text, sizeof text, "%ld\n", (long)getpid());
    /* Only a message depends on the text; a full disk must not keep a store from being opened. */
    if (index->io->ftruncate(fd, 0) == 0)
        (void)index_io_write(index->io, fd, &part, 1, 0);
    index->lock_fd = fd;
    return 0;
}

/* True when no process has the store open for writing. For readers that may not touch lock.mdb. */
static bool idle(const struct index *index)
{
    const int fd = index_io_open(index->io, index->dir_fd, "lock", O_RDONLY, 0);
    if (fd < 0)
        return fd == -ENOENT;
    const bool free = index->io->flock(fd, LOCK_SH | LOCK_NB) == 0;
    index->io->close(fd);
    return free;
}

/* ---- directories ----------------------------------------------------------------------------------- */

static int open_directory(struct index *index, const char *name, int *fd,
                          struct index_refusal *refusal)
{
    *fd = index_io_open(index->io, index->dir_fd, name, O_RDONLY | O_DIRECTORY, 0);
    if (*fd >= 0)
        return 0;
    const int error = *fd == -ENOENT || *fd == -ENOTDIR ? -EUCLEAN : *fd;
    return index_refuse(refusal, error, "%s/%s: %s", index->path, name, strerror(-*fd));
}

static int open_top(struct index *index, const char *path, struct index_refusal *refusal)
{
    const struct index_io *const io = index->io;
    index->dir_fd = index_io_open(io, AT_FDCWD, path, O_RDONLY | O_DIRECTORY, 0);
    if (index->dir_fd == -ENOENT && (index->flags & INDEX_OPEN_CREATE)) {
        if (io->mkdirat(AT_FDCWD, path, 0700) < 0 && errno != EEXIST)
            return index_refuse(refusal, -errno, "%s: cannot create: %s", path, strerror(errno));
        index->dir_fd = index_io_open(io, AT_FDCWD, path, O_RDONLY | O_DIRECTORY, 0);
    }
    if (index->dir_fd < 0)
        return index_refuse(refusal, index->dir_fd, "%s: %s", path, strerror(-index->dir_fd));
    index->path = io->realpath(path, NULL);
    if (index->path == NULL)
        return index_refuse(refusal, -errno, "%s: %s", path, strerror(errno));
    return 0;
}

/* ---- LMDB -------------------------------------------------------------------------------------------- */

/* The reason why data.mdb is not opened. */
static int refuse_pages(struct index *index, int error, const struct index_pages *pages,
                        struct index_refusal *refusal)
{
    if (error != -EUCLEAN && error != -EIO)
        return index_refuse(refusal, error, "%s/index/data.mdb: %s", index->path, strerror(-error));
    return index_refuse(refusal, error,
                        "%s/index/data.mdb: %s; sepfs-fsck --salvage rebuilds the index",
                        index->path, pages->problem);
}

/* LMDB creates a missing file and takes an empty one for new: neither may happen to a store. It
 * also believes the last page number that its header gives. */
static int check_index_file(struct index *index, struct index_refusal *refusal)
{
    struct stat status;
    const int fd = index_io_open(index->io, index->index_fd, "data.mdb", O_RDONLY, 0);
    if (fd < 0)
        return index_refuse(refusal, fd == -ENOENT ? -EUCLEAN : fd, "%s/index/data.mdb: %s",
                            index->path, strerror(-fd));
    int error = index->io->fstat(fd, &status) < 0 ? -errno : 0;
    if (error == 0 && (!S_ISREG(status.st_mode) || status.st_size < 2 * 4096))
        error = -EUCLEAN;
    if (error != 0) {
        index->io->close(fd);
        return index_refuse(refusal, error, "%s/index/data.mdb: damaged or unreadable",
                            index->path);
    }
    struct index_pages pages;
    error = index_pages_open(&pages, index->io, fd);
    if (error != 0)
        refuse_pages(index, error, &pages, refusal);
    index_pages_close(&pages);
    index->io->close(fd);
    return error;
}

int index_snapshot_check(struct index *index, uint64_t commit, char *text, size_t size)
{
    struct index_refusal *const refusal = &(struct index_refusal){text, size};
    struct index_pages pages;
    const int fd = index_io_open(index->io, index->index_fd, "data.mdb", O_RDONLY, 0);
    if (fd < 0)
        return index_refuse(refusal, fd, "%s/index/data.mdb: %s", index->path, strerror(-fd));
    int error = index_pages_open(&pages, index->io, fd);
    if (error == 0)
        error = index_pages_check(&pages, commit);
    if (error != 0 && error != -ESTALE)
        refuse_pages(index, error, &pages, refusal);
    index_pages_close(&pages);
    index->io->close(fd);
    return error;
}

/* Begins a read transaction whose pages are all sound. LMDB has looked at nothing but the headers by
 * then. A writer beside us may have gone on twice before its headers are read: then once more. */
static int begin_sound(struct index *index, struct index_refusal *refusal)
{
    for (unsigned i = 0;; i++) {
        int error = index_txn_begin_local(index, INDEX_READ);
        if (error != 0)
            return index_refuse(refusal, error, "%s/index: %s", index->path, strerror(-error));
        index->opened_commit = mdb_txn_id(index->writer.mdb);
        error = index_snapshot_check(index, index->opened_commit, refusal->text, refusal->size);
        if (error == 0)
            return 0;
        index_txn_end_local(index, false);
        if (error != -ESTALE || i == SNAPSHOTS)
            return error != -ESTALE
                       ? error
                       : index_refuse(refusal, -EBUSY, "%s/index: changes too fast to be read",
                                      index->path);
    }
}

/* Opens the environment with the largest map that the process may have. */
static int open_map(struct index *index, const char *path, unsigned flags)
{
    for (uint64_t map = index->map_size;; map /= 4) {
        int rc = mdb_env_create(&index->env);
        if (rc != 0) {
            index->env = NULL;
            return rc;
        }
        mdb_env_set_maxdbs(index->env, INDEX_DB_COUNT);
        mdb_env_set_maxreaders(index->env, 510);
        rc = mdb_env_set_mapsize(index->env, map);
        if (rc == 0)
            rc = index->io->env_open(index->env, path, flags, 0600);
        if (rc == 0) {
            index->map_size = map;
            return 0;
        }
        mdb_env_close(index->env);
        index->env = NULL;
        if (rc != ENOMEM || map < (UINT64_C(1) << 30))
            return rc;
    }
}

/* LMDB creates its table of readers or takes the file that is there, and would follow a link. */
static int check_table_file(struct index *index, struct index_refusal *refusal)
{
    const int fd = index_io_open(index->io, index->index_fd, "lock.mdb", O_RDONLY, 0);
    if (fd >= 0)
        index->io->close(fd);
    if (fd >= 0 || fd == -ENOENT || fd == -EACCES) /* unreadable: LMDB says so, or needs it not */
        return 0;
    return index_refuse(refusal, fd, "%s/index/lock.mdb: %s", index->path, strerror(-fd));
}

int index_env_open(struct index *index, struct index_refusal *refusal)
{
    char path[4096 + 16];
    snprintf(path, sizeof path, "%s/%s", index->path, index->index_name);
    unsigned flags = MDB_NOTLS;
    if (index->flags & INDEX_OPEN_READONLY)
        flags |= MDB_RDONLY;
    const int table = check_table_file(index, refusal);
    if (table != 0)
        return table;
    int rc = open_map(index, path, flags);
    if ((flags & MDB_RDONLY) && (rc == EACCES || rc == EROFS || rc == EPERM) && idle(index))
        rc = open_map(index, path, flags | MDB_NOLOCK);
    if (rc != 0)
        return index_refuse(refusal, index_mdb_error(rc), "%s/index: %s", index->path,
                            mdb_strerror(rc));
    MDB_stat stat;
    mdb_env_stat(index->env, &stat);
    index->page_size = stat.ms_psize;
    atomic_store(&index->index_allocated, 0); /* what lies beyond the last page may be a hole */
    index_reserve_refresh(index);
    return 0;
}

/* Opens the tables and takes the state. Ends with no transaction open. */
static int load_state(struct index *index, struct index_refusal *refusal)
{
    struct index_state state;
    int error = begin_sound(index, refusal);
    if (error != 0)
        return error;
    struct index_txn *const txn = &index->writer;
    for (unsigned db = 0; db < INDEX_DB_COUNT && error == 0; db++) {
        const int rc = mdb_dbi_open(txn->mdb, index_db_names[db], 0, &index->db[db]);
        if (rc != 0)
            error = index_refuse(refusal, rc == MDB_NOTFOUND ? -EUCLEAN : index_mdb_error(rc),
                                 "%s/index: table %s: %s", index->path, index_db_names[db],
                                 mdb_strerror(rc));
    }
    if (error == 0) {
        error = index_state_load(txn, &state);
        if (error != 0)
            error = index_refuse(refusal, error == -ENOENT ? -EUCLEAN : error,
                                 "%s/index: the state record is damaged or missing", index->path);
    }
    if (error == 0 && state.format > INDEX_FORMAT_VERSION)
        error = index_refuse(refusal, -EPROTONOSUPPORT,
                             "%s: store format %u is newer than this program (%u)", index->path,
                             state.format, INDEX_FORMAT_VERSION);
    if (error == 0 && memcmp(state.uuid, index->uuid, sizeof state.uuid) != 0)
        error = index_refuse(refusal, -EUCLEAN, "%s/index: belongs to another store", index->path);
    if (error == 0) {
        index->next_ino = state.next_ino;
        atomic_store(&index->next_block, state.next_block);
        index->packs.next_id = state.next_pack;
        index->counters = state.counters;
        if (!(index->flags & INDEX_OPEN_READONLY)) {
            error = index_packs_load(index, txn);
            if (error == 0 && !state.clean && !(index->flags & INDEX_OPEN_NO_RECOVER))
                error = index_free_requeue(txn);
            if (error != 0)
                index_refuse(refusal, error, "%s/packs: %s", index->path, strerror(-error));
        }
        index->marked_dirty = !state.clean;
    }
    /* Committed, so that the table handles stay. */
    const int ended = index_txn_end_local(index, error == 0);
    if (error == 0 && ended != 0)
        error = index_refuse(refusal, ended, "%s/index: %s", index->path, strerror(-ended));
    return error;
}

/* ---- open and close ------------------------------------------------------------------------------------ */

static struct index *allocate(const struct index_options *options, const struct index_io *io)
{
    struct index *const index = calloc(1, sizeof *index);
    if (index == NULL)
        return NULL;
    index->io = io;
    index->index_name = "index";
    index->flags = options->flags;
    index->log = options->log;
    index->log_arg = options->log_arg;
    index->block_size = options->block_size != 0 ? options->block_size : INDEX_BLOCK_DEFAULT;
    index->map_size = options->map_size != 0 ? options->map_size : INDEX_MAP_DEFAULT;
    index->pack_size = options->pack_size != 0 ? options->pack_size : INDEX_PACK_DEFAULT;
    index->dir_fd = index->index_fd = index->packs_fd = index->lock_fd = -1;
    index->writer.index = index;
    pthread_mutex_init(&index->mutex, NULL);
    pthread_mutex_init(&index->conf_mutex, NULL);
    pthread_mutex_init(&index->pool_mutex, NULL);
    pthread_mutex_init(&index->packs.mutex, NULL);
    pthread_mutex_init(&index->reserve_mutex, NULL);
    pthread_mutex_init(&index->copier_mutex, NULL);
    pthread_cond_init(&index->copier_wake, NULL);
    pthread_cond_init(&index->wake, NULL);
    pthread_cond_init(&index->done, NULL);
    return index;
}

static void close_fd(const struct index *index, int fd)
{
    if (fd >= 0)
        index->io->close(fd);
}

/* Frees everything; commits nothing. */
static void release(struct index *index)
{
    index_txn_free_pool(index);
    index_packs_free(index);
    free(index->writer.unused.list);
    free(index->punches.list);
    free(index->punchable.list);
    if (index->env != NULL)
        mdb_env_close(index->env);
    index_conf_free(index);
    close_fd(index, index->index_fd);
    close_fd(index, index->packs_fd);
    close_fd(index, index->dir_fd);
    if (!index->lock_lent)
        close_fd(index, index->lock_fd);
    pthread_mutex_destroy(&index->mutex);
    pthread_mutex_destroy(&index->conf_mutex);
    pthread_mutex_destroy(&index->pool_mutex);
    pthread_mutex_destroy(&index->packs.mutex);
    pthread_mutex_destroy(&index->reserve_mutex);
    pthread_mutex_destroy(&index->copier_mutex);
    pthread_cond_destroy(&index->copier_wake);
    pthread_cond_destroy(&index->wake);
    pthread_cond_destroy(&index->done);
    free(index->path);
    free(index);
}

static int open_store(struct index *index, const char *path, const struct index_options *options,
                      struct index_refusal *refusal)
{
    const bool writes = !(index->flags & INDEX_OPEN_READONLY);
    const uint32_t size = index->block_size;
    if (size < INDEX_BLOCK_MIN || size > INDEX_PLAIN_MAX || (size & (size - 1)) != 0)
        return index_refuse(refusal, -EINVAL,
                            "block size %u is not a power of two in 16384..4194304", size);
    int error = open_top(index, path, refusal);
    bool exists = false;
    if (error == 0)
        error = index_store_exists(index, &exists, refusal);
    if (error == 0 && writes && !index->lock_lent)
        error = lock_store(index, refusal);
    if (error == 0 && writes) /* another opener may have created it meanwhile */
        error = index_store_exists(index, &exists, refusal);
    if (error == 0 && !exists)
        error = index_store_create(index, refusal);
    else if (error == 0)
        error = index_conf_load(index, refusal->text, refusal->size);
    if (error == 0 && exists && options->block_size != 0 &&
        options->block_size != index->block_size)
        error = index_refuse(refusal, -EINVAL, "%s: the store has block size %u, not %u",
                             index->path, index->block_size, options->block_size);
    if (error == 0)
        error = open_directory(index, index->index_name, &index->index_fd, refusal);
    if (error == 0)
        error = open_directory(index, "packs", &index->packs_fd, refusal);
    if (error == 0 && !writes && index->io->flock(index->index_fd, LOCK_SH) < 0)
        error = index_refuse(refusal, -errno, "%s/index: cannot lock: %s", index->path,
                             strerror(errno));
    if (error == 0)
        error = check_index_file(index, refusal);
    if (error == 0 && writes)
        index->io->unlinkat(index->index_fd, "data.mdb.new", 0);
    if (error == 0 && writes) {
        error = index_store_sync_names(index);
        if (error != 0)
            index_refuse(refusal, error, "%s: cannot sync: %s", index->path, strerror(-error));
    }
    if (error == 0)
        error = index_env_open(index, refusal);
    index->name_seed = index_load_u64(index->uuid);
    if (error == 0)
        error = load_state(index, refusal);
    if (error == 0 && writes) {
        index_reserve_margin(index);
        error = index_txn_start(index);
        if (error == 0 && !(index->flags & INDEX_OPEN_NO_RECOVER))
            error = index_recover(index);
        if (error != 0)
            index_refuse(refusal, error, "%s: cannot recover: %s", index->path, strerror(-error));
    }
    if (error == 0)
        index_copies_measure(index);
    if (error == 0 && writes && (index->flags & INDEX_OPEN_COPIES)) {
        error = index_copies_start(index);
        if (error != 0)
            index_refuse(refusal, error, "%s: cannot start a thread: %s", index->path,
                         strerror(-error));
    }
    return error;
}

int index_open_place(const char *path, const struct index_options *options,
                     const struct index_io *io, const struct index_place *place,
                     struct index **opened, char *error, size_t size)
{
    struct index_refusal refusal = {.text = error, .size = size};
    *opened = NULL;
    if (size > 0)
        error[0] = '\0';
    if ((options->flags & INDEX_OPEN_READONLY) && (options->flags & INDEX_OPEN_CREATE))
        return index_refuse(&refusal, -EINVAL, "%s: cannot create a store read-only", path);
    struct index *const index = allocate(options, io);
    if (index == NULL)
        return index_refuse(&refusal, -ENOMEM, "%s: out of memory", path);
    if (place != NULL) {
        index->index_name = place->directory;
        index->lock_fd = place->lock_fd;
        index->lock_lent = true;
    }
    const int result = open_store(index, path, options, &refusal);
    if (result != 0) {
        index_txn_stop(index);
        release(index);
        if (size > 0 && error[0] == '\0') /* a lack of memory somewhere */
            index_refuse(&refusal, result, "%s: %s", path, strerror(-result));
        return result;
    }
    *opened = index;
    return 0;
}

int index_open_with(const char *path, const struct index_options *options,
                    const struct index_io *io, struct index **index, char *error, size_t size)
{
    return index_open_place(path, options, io, NULL, index, error, size);
}

int index_store_lock(const char *path, const struct index_options *options,
                     const struct index_io *io, struct index **locked, char *error, size_t size)
{
    struct index_refusal refusal = {.text = error, .size = size};
    struct index *const index = allocate(options, io);
    bool exists = false;
    if (index == NULL)
        return index_refuse(&refusal, -ENOMEM, "%s: out of memory", path);
    int result = open_top(index, path, &refusal);
    if (result == 0)
        result = index_store_exists(index, &exists, &refusal);
    if (result == 0)
        result = lock_store(index, &refusal);
    if (result == 0)
        result = index_conf_load(index, error, size);
    if (result == 0)
        result = open_directory(index, "index", &index->index_fd, &refusal);
    if (result == 0)
        result = open_directory(index, "packs", &index->packs_fd, &refusal);
    if (result != 0)
        release(index);
    else
        *locked = index;
    return result;
}

void index_store_unlock(struct index *index)
{
    release(index);
}

int index_open(const char *path, const struct index_options *options, struct index **index,
               char *error, size_t size)
{
    return index_open_with(path, options, &index_io_system, index, error, size);
}

int index_close(struct index *index)
{
    if (index == NULL)
        return 0;
    index_copies_stop(index);
    int error = index_txn_stop(index);
    if (!(index->flags & INDEX_OPEN_READONLY)) {
        if ((index->flags & INDEX_OPEN_COPIES) && !atomic_load(&index->failed))
            index_copies_make(index, 0);
        index_reserve_trim(index);
        /* Alone: no process reads the index, so its files may be replaced and removed. */
        const bool alone = index->io->flock(index->index_fd, LOCK_EX | LOCK_NB) == 0;
        const bool copied = alone && !atomic_load(&index->failed) && index_rebuild_copy(index);
        index_txn_free_pool(index);
        mdb_env_close(index->env);
        index->env = NULL;
        if (copied) {
            const int swapped = index_rebuild_swap(index);
            error = error == 0 ? swapped : error;
        }
        if (alone)
            index->io->unlinkat(index->index_fd, "lock.mdb", 0);
    }
    release(index);
    return error;
}

uint32_t index_block_size(const struct index *index)
{
    return index->block_size;
}

const char *index_path(const struct index *index)
{
    return index->path;
}

const uint8_t *index_uuid(const struct index *index)
{
    return index->uuid;
}

bool index_readonly(const struct index *index)
{
    return (index->flags & INDEX_OPEN_READONLY) || atomic_load(&index->failed);
}
