/* SPDX-License-Identifier: BSD-2-Clause
 *
 * reserve.c - room on the host, held before data is accepted, so that a full disk is an error of
 * write() and never of the commit behind it.
 *
 * Two kinds of room. Pack bytes: the open hot pack keeps space preallocated beyond its tail for
 * everything promised and not released. Index pages: data.mdb keeps space preallocated beyond its
 * last page for what the open transaction may touch (one page an operation and some inner pages),
 * for the records of the promised bytes (an eighth of them: 512 bytes for 4 KiB files, 16 KiB for a
 * 128 KiB block), and a margin for operations under way and for deletions. When the host is nearly
 * full the margin shrinks to what deletions need; those never ask.
 *
 * Usually this is two comparisons of atomics. A host without fallocate gets arithmetic on statvfs
 * instead, which another writer on that host can defeat.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/falloc.h>
#include <string.h>

#include "internal.h"

#define STEP_MAX    (UINT64_C(16) << 20) /* bytes asked from the host at a time */
#define STEP_MIN    (UINT64_C(64) << 10)
#define MARGIN      (UINT64_C(8) << 20)  /* of index pages, bytes: 32 KiB for 256 operations */
#define MARGIN_LAST (UINT64_C(1) << 20)  /* kept for deletions when the host is full, bytes */
#define HOST_SCARCE (UINT64_C(64) << 20) /* free on the host: every byte counts */
/* A transaction of so few record changes is never ended for lack of room: it would not help. */
#define OPERATIONS_MIN 16u

/* Bytes the open transaction may add to data.mdb. */
static uint64_t pending_bytes(const struct index *index)
{
    const uint64_t operations = atomic_load_explicit(&index->operations, memory_order_relaxed);
    return (operations + operations / 16 + 64) * index->page_size;
}

static int host_available(const struct index *index, uint64_t *bytes)
{
    struct statvfs host;
    if (index->io->fstatvfs(index->dir_fd, &host) < 0)
        return -errno;
    *bytes = (uint64_t)host.f_bavail * host.f_frsize;
    return 0;
}

/* Without preallocation: everything promised must fit what the host says is free. */
static int reserve_by_arithmetic(const struct index *index)
{
    uint64_t available = 0;
    const int error = host_available(index, &available);
    if (error != 0)
        return error;
    const uint64_t promised = atomic_load(&index->promised);
    const uint64_t wanted = promised + promised / 8 + pending_bytes(index) + 2 * MARGIN_LAST;
    return available < wanted ? -ENOSPC : 0;
}

static int allocate(struct index *index, int fd, uint64_t from, uint64_t bytes)
{
    int rc;
    do {
        rc = index->io->fallocate(fd, FALLOC_FL_KEEP_SIZE, (off_t)from, (off_t)bytes);
    } while (rc < 0 && errno == EINTR);
    return rc < 0 ? -errno : 0;
}

int index_reserve_host(struct index *index, int fd, uint64_t from, uint64_t need, uint64_t *got)
{
    *got = need;
    if (need > INT64_MAX / 2 || from > INT64_MAX / 2)
        return -ENOSPC;
    if (atomic_load(&index->no_prealloc))
        return 0; /* index_reserve has done the arithmetic */
    uint64_t available = 0;
    int error = host_available(index, &available);
    if (error != 0)
        return error;
    /* Small steps on a nearly full host, so that one file does not hold what another needs. */
    uint64_t step = available / 64;
    step = step < STEP_MIN ? STEP_MIN : step > STEP_MAX ? STEP_MAX : step;
    if (step > need) {
        error = allocate(index, fd, from, step);
        if (error == 0)
            *got = step;
    } else {
        error = allocate(index, fd, from, need);
    }
    if ((error == -ENOSPC || error == -EDQUOT) && step > need)
        error = allocate(index, fd, from, need);
    if (error == -EOPNOTSUPP || error == -ENOSYS) {
        atomic_store(&index->no_prealloc, true);
        error = 0;
    }
    return error;
}

/* Where data.mdb may end when everything promised so far was stored, without a margin. */
static uint64_t index_end_of(const struct index *index)
{
    return atomic_load(&index->index_used) + pending_bytes(index) +
           atomic_load(&index->promised) / 8;
}

/* Bytes of the map that only deletions may use. */
static uint64_t map_last(const struct index *index)
{
    return index->map_size / 8 < 2 * MARGIN ? index->map_size / 8 : 2 * MARGIN;
}

/* What to keep beyond index_end_of: a sixteenth of a small host, where packs want room as well. */
static uint64_t margin_of(uint64_t available)
{
    const uint64_t margin = available / 16;
    return margin < MARGIN_LAST ? MARGIN_LAST : margin > MARGIN ? MARGIN : margin;
}

static int extend_index(struct index *index)
{
    mdb_filehandle_t fd;
    uint64_t available = 0, got = 0;
    const int rc = mdb_env_get_fd(index->env, &fd);
    if (rc != 0)
        return index_mdb_error(rc);
    int error = host_available(index, &available);
    if (error != 0)
        return error;
    const uint64_t margin = margin_of(available);
    pthread_mutex_lock(&index->reserve_mutex);
    const uint64_t allocated = atomic_load(&index->index_allocated);
    const uint64_t end = index_end_of(index);
    if (end + margin > allocated)
        error = index_reserve_host(index, fd, allocated, end + margin - allocated, &got);
    if (error == -ENOSPC || error == -EDQUOT) {
        got = 0;
        error = end + MARGIN_LAST <= allocated
                    ? 0
                    : index_reserve_host(index, fd, allocated, end + MARGIN_LAST - allocated, &got);
    }
    if (error == 0)
        atomic_store(&index->index_allocated, allocated + got);
    pthread_mutex_unlock(&index->reserve_mutex);
    return error;
}

/* Gives back what an open transaction was thought to take and did not. */
static void shorten_index(struct index *index, uint64_t margin)
{
    mdb_filehandle_t fd;
    if (mdb_env_get_fd(index->env, &fd) != 0)
        return;
    pthread_mutex_lock(&index->reserve_mutex);
    const uint64_t page = index->page_size;
    const uint64_t keep = (index_end_of(index) + margin + page - 1) / page * page;
    if (keep + STEP_MIN < atomic_load(&index->index_allocated) &&
        index->io->ftruncate(fd, (off_t)keep) == 0)
        atomic_store(&index->index_allocated, keep);
    pthread_mutex_unlock(&index->reserve_mutex);
}

/* Bytes of free pages inside data.mdb that the next transaction may use: those that no commit but
 * the last two refers to. LMDB's free list maps a transaction to a count and that many pages. */
static uint64_t reusable_bytes(const struct index *index)
{
    MDB_envinfo info;
    MDB_txn *txn;
    MDB_cursor *cursor;
    MDB_val key, value;
    uint64_t pages = 0;
    if (mdb_env_info(index->env, &info) != 0 ||
        mdb_txn_begin(index->env, NULL, MDB_RDONLY, &txn) != 0)
        return 0;
    if (mdb_cursor_open(txn, 0, &cursor) == 0) {
        while (mdb_cursor_get(cursor, &key, &value, MDB_NEXT) == 0) {
            size_t id, count;
            if (key.mv_size != sizeof id || value.mv_size < sizeof count)
                continue;
            memcpy(&id, key.mv_data, sizeof id);
            memcpy(&count, value.mv_data, sizeof count);
            if (id + 2 <= info.me_last_txnid && count < value.mv_size)
                pages += count;
        }
        mdb_cursor_close(cursor);
    }
    mdb_txn_abort(txn);
    return pages * index->page_size;
}

static int reserve_index(struct index *index)
{
    const uint64_t end = index_end_of(index);
    const uint64_t last = map_last(index);
    int error = -ENOSPC;
    if (end + last <= index->map_size)
        error = end + MARGIN <= atomic_load(&index->index_allocated) ? 0 : extend_index(index);
    if (error != -ENOSPC && error != -EDQUOT)
        return error;
    /* The file cannot grow, but after deletions it has room inside. */
    const uint64_t need =
        end - atomic_load(&index->index_used) + (last < MARGIN_LAST ? last : MARGIN_LAST);
    return need <= reusable_bytes(index) / 4 * 3 ? 0 : error;
}

/* Makes room for what is promised, BYTES of which are new. */
static int make_room(struct index *index, uint64_t bytes)
{
    const uint64_t promised = atomic_load(&index->promised);
    int error = 0;
    if (bytes > 0 && promised > atomic_load(&index->packs.headroom) &&
        !atomic_load(&index->no_prealloc))
        error = index_packs_reserve(index, promised);
    if (error == 0)
        error = reserve_index(index);
    if (error == 0 && atomic_load(&index->no_prealloc))
        error = reserve_by_arithmetic(index);
    return error;
}

int index_reserve(struct index *index, uint64_t bytes)
{
    if (index_readonly(index))
        return -EROFS;
    if (bytes > INT64_MAX / 4)
        return -ENOSPC;
    atomic_fetch_add(&index->promised, bytes);
    int error = make_room(index, bytes);
    /* What was deleted since the last commit comes back with the next one. */
    if ((error == -ENOSPC || error == -EDQUOT) && index_txn_settle(index))
        error = make_room(index, bytes);
    if (error != 0)
        index_release(index, bytes);
    return error;
}

void index_release(struct index *index, uint64_t bytes)
{
    uint64_t promised = atomic_load(&index->promised), less;
    do {
        less = promised < bytes ? 0 : promised - bytes;
    } while (!atomic_compare_exchange_weak(&index->promised, &promised, less));
}

int index_env_reach(const struct index *index, MDB_env *env, uint64_t end)
{
    MDB_envinfo info;
    mdb_filehandle_t fd;
    struct stat status;
    int rc = mdb_env_info(env, &info);
    if (rc == 0)
        rc = mdb_env_get_fd(env, &fd);
    if (rc != 0)
        return index_mdb_error(rc);
    const uint64_t used = ((uint64_t)info.me_last_pgno + 1) * index->page_size;
    end = end < used ? used : end > index->map_size ? index->map_size : end;
    if (index->io->fstat(fd, &status) < 0)
        return -errno;
    if ((uint64_t)status.st_size >= end)
        return 0;
    return index->io->ftruncate(fd, (off_t)end) < 0 ? -errno : 0;
}

int index_reserve_commit(const struct index *index)
{
    const uint64_t end = atomic_load(&index->index_used) + pending_bytes(index);
    return index_env_reach(index, index->env, end);
}

void index_reserve_refresh(struct index *index)
{
    MDB_envinfo info;
    if (mdb_env_info(index->env, &info) != 0)
        return;
    const uint64_t used = ((uint64_t)info.me_last_pgno + 1) * index->page_size;
    atomic_store(&index->index_used, used);
    uint64_t allocated = atomic_load(&index->index_allocated);
    while (allocated < used &&
           !atomic_compare_exchange_weak(&index->index_allocated, &allocated, used))
        ;
}

/* True when the open transaction has eaten up all but 1/PART of what is kept for deletions. */
static bool nearly_out(const struct index *index, unsigned part)
{
    const uint64_t end = index_end_of(index);
    if (end + map_last(index) / part > index->map_size)
        return true;
    return !atomic_load(&index->no_prealloc) &&
           end + MARGIN_LAST / part > atomic_load(&index->index_allocated);
}

bool index_reserve_tight(const struct index *index)
{
    const uint64_t operations = atomic_load(&index->operations);
    return operations > INDEX_TXN_PAGES || (operations > OPERATIONS_MIN && nearly_out(index, 2));
}

bool index_reserve_exhausted(const struct index *index)
{
    const uint64_t operations = atomic_load(&index->operations);
    return operations > 2 * INDEX_TXN_PAGES ||
           (operations > OPERATIONS_MIN && nearly_out(index, 4));
}

void index_reserve_margin(struct index *index)
{
    uint64_t available = 0;
    if (host_available(index, &available) != 0)
        return;
    if (index_end_of(index) + margin_of(available) > atomic_load(&index->index_allocated))
        (void)extend_index(index); /* a full host: then there is what was kept before */
    else if (available < HOST_SCARCE)
        shorten_index(index, margin_of(available));
}

void index_reserve_trim(struct index *index)
{
    mdb_filehandle_t fd;
    struct stat status;
    uint64_t available = 0;
    if (mdb_env_get_fd(index->env, &fd) != 0 || index->io->fstat(fd, &status) < 0 ||
        host_available(index, &available) != 0 || available < HOST_SCARCE)
        return;
    /* After a failed commit it is not known which header the file has. */
    const uint64_t end =
        atomic_load(&index->failed) ? (uint64_t)status.st_size : atomic_load(&index->index_used);
    /* Also when nothing was preallocated now: a session that crashed may have left some. */
    if (index->io->ftruncate(fd, (off_t)end) == 0)
        atomic_store(&index->index_allocated, end);
}
