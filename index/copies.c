/* SPDX-License-Identifier: BSD-2-Clause
 *
 * copies.c - when copies of the index are made, and which are kept: one at the end of a session that
 * changed anything, one a day during it; the newest two stay. Made beside the mount from a read
 * transaction, by a thread of its own at idle priority.
 *
 * A copy that cannot be made (no room on the host, a damaged index) is a line in the log and leaves
 * the copies as they are.
 */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <syslog.h>
#include <time.h>

#include "copy.h"
#include "create.h"

#define NEW_NAME   "new"
#define KEPT       2u
#define DAY        (24 * 3600)          /* seconds */
#define LOOK_EVERY 900                  /* seconds between two looks at whether a day is over */
#define HOST_SPARE (UINT64_C(64) << 20) /* bytes that must be free beyond the size of the index */
/* An index beyond this is not copied at the end of a session that began less than a day after the
 * last copy: an unmount should not take minutes. */
#define LARGE (UINT64_C(256) << 20)

/* "20260101T120000Z-000000000000002a.copy": when, and LMDB's number of the commit. */
static bool parse(const char *name, int64_t *when, uint64_t *commit)
{
    struct tm tm = {0};
    int used = 0;
    unsigned long long number;
    if (strlen(name) != 38 ||
        sscanf(name, "%4d%2d%2dT%2d%2d%2dZ-%16llx.copy%n", &tm.tm_year, &tm.tm_mon, &tm.tm_mday,
               &tm.tm_hour, &tm.tm_min, &tm.tm_sec, &number, &used) != 7 ||
        used != 38)
        return false;
    tm.tm_year -= 1900;
    tm.tm_mon -= 1;
    *when = timegm(&tm);
    *commit = number;
    return true;
}

int index_copies_name(const struct index_io *io, int dir_fd, unsigned n, char *name)
{
    char before[64] = "~"; /* behind all names */
    DIR *dir;
    int error = 0;
    for (unsigned i = 0; i <= n && error == 0; i++) {
        const struct dirent *entry;
        int64_t when;
        uint64_t commit;
        name[0] = '\0';
        error = index_io_list(io, dir_fd, &dir);
        if (error != 0)
            return error;
        while ((error = index_io_next(io, dir, &entry)) > 0) {
            if (parse(entry->d_name, &when, &commit) && strcmp(entry->d_name, before) < 0 &&
                strcmp(entry->d_name, name) > 0)
                snprintf(name, 64, "%.63s", entry->d_name);
        }
        io->closedir(dir);
        if (error == 0 && name[0] == '\0')
            error = -ENOENT;
        snprintf(before, sizeof before, "%s", name);
    }
    return error;
}

static int open_copies(const struct index *index)
{
    return index_io_open(index->io, index->dir_fd, INDEX_COPIES, O_RDONLY | O_DIRECTORY, 0);
}

void index_copies_measure(struct index *index)
{
    DIR *dir;
    const struct dirent *entry;
    uint64_t bytes = 0;
    const int copies = open_copies(index);
    if (copies >= 0 && index_io_list(index->io, copies, &dir) == 0) {
        while (index_io_next(index->io, dir, &entry) > 0) {
            struct stat status;
            const int fd = entry->d_name[0] == '.'
                               ? -1
                               : index_io_open(index->io, copies, entry->d_name, O_RDONLY, 0);
            if (fd >= 0 && index->io->fstat(fd, &status) == 0 && S_ISREG(status.st_mode))
                bytes += (uint64_t)status.st_size;
            if (fd >= 0)
                index->io->close(fd);
        }
        index->io->closedir(dir);
    }
    if (copies >= 0)
        index->io->close(copies);
    atomic_store(&index->copy_bytes, bytes);
}

static bool room(struct index *index)
{
    struct statvfs host;
    if (index->io->fstatvfs(index->dir_fd, &host) < 0)
        return false;
    return (uint64_t)host.f_bavail * host.f_frsize >= HOST_SPARE + atomic_load(&index->index_used);
}

/* Removes all copies but the newest. */
static void rotate(struct index *index, int copies)
{
    char name[64];
    while (index_copies_name(index->io, copies, KEPT, name) == 0) {
        if (index->io->unlinkat(copies, name, 0) < 0)
            break;
    }
}

/* The copy itself: written, verified, synced, named. */
static int make(struct index *index, MDB_txn *txn, int copies, char *problem, size_t size)
{
    char name[64];
    const time_t now = time(NULL);
    struct tm tm;
    const uint64_t commit = mdb_txn_id(txn);
    int error = index_snapshot_check(index, commit, problem, size);
    if (error != 0)
        return error;
    const int fd = index_io_open(index->io, copies, NEW_NAME, O_RDWR | O_CREAT | O_TRUNC, 0600);
    if (fd < 0)
        return fd;
    error = index_copy_write(index, txn, fd, problem, size);
    index->io->close(fd);
    const size_t end = strftime(name, sizeof name, "%Y%m%dT%H%M%SZ", gmtime_r(&now, &tm));
    snprintf(name + end, sizeof name - end, "-%016jx.copy", (uintmax_t)commit);
    if (error == 0 && index->io->renameat(copies, NEW_NAME, copies, name) < 0)
        error = -errno;
    if (error == 0)
        error = index_io_sync_dir(index->io, copies);
    if (error == 0)
        error = index_io_sync_dir(index->io, index->dir_fd);
    if (error == 0)
        rotate(index, copies);
    else
        index->io->unlinkat(copies, NEW_NAME, 0);
    return error;
}

/* Whether the newest copy is as good as one made now. */
static bool current(struct index *index, int copies, uint64_t commit, int64_t min_age)
{
    char name[64];
    int64_t when;
    uint64_t of;
    if (index_copies_name(index->io, copies, 0, name) != 0 || !parse(name, &when, &of))
        return false;
    const int64_t now = time(NULL);
    /* A session that changed nothing needs none, also when the end of the one before rewrote the file
     * and began to number commits anew. */
    return of == commit || commit == index->opened_commit || (now >= when && now - when < min_age);
}

void index_copies_make(struct index *index, int64_t min_age)
{
    MDB_txn *txn;
    char problem[256] = "";
    if (index->io->mkdirat(index->dir_fd, INDEX_COPIES, 0700) < 0 && errno != EEXIST) {
        index_log(index, LOG_WARNING, "no copy of the index: cannot create " INDEX_COPIES ": %s",
                  strerror(errno));
        return;
    }
    const int copies = open_copies(index);
    int error =
        copies < 0 ? copies : index_mdb_error(mdb_txn_begin(index->env, NULL, MDB_RDONLY, &txn));
    if (error != 0) {
        if (copies >= 0)
            index->io->close(copies);
        return;
    }
    if (atomic_load(&index->index_used) > LARGE && min_age == 0)
        min_age = DAY;
    if (!current(index, copies, mdb_txn_id(txn), min_age)) {
        if (!room(index))
            error = index_refuse(&(struct index_refusal){problem, sizeof problem}, -ENOSPC,
                                 "the host is nearly full");
        else
            error = make(index, txn, copies, problem, sizeof problem);
        if (error != 0)
            index_log(index, LOG_WARNING, "no copy of the index: %s",
                      problem[0] != '\0' && (error == -EUCLEAN || error == -EIO || error == -ENOSPC)
                          ? problem
                          : strerror(-error));
        index_copies_measure(index);
    }
    mdb_txn_abort(txn);
    index->io->close(copies);
}

/* ---- the thread ---------------------------------------------------------------------------- */

static void *run(void *arg)
{
    struct index *const index = arg;
    const struct sched_param none = {0};
    (void)pthread_setschedparam(pthread_self(), SCHED_IDLE, &none);
    pthread_mutex_lock(&index->copier_mutex);
    while (!index->copier_stop) {
        struct timespec until;
        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_sec += LOOK_EVERY;
        if (pthread_cond_timedwait(&index->copier_wake, &index->copier_mutex, &until) !=
                ETIMEDOUT ||
            index->copier_stop)
            continue;
        pthread_mutex_unlock(&index->copier_mutex);
        index_copies_make(index, DAY);
        pthread_mutex_lock(&index->copier_mutex);
    }
    pthread_mutex_unlock(&index->copier_mutex);
    return NULL;
}

int index_copies_start(struct index *index)
{
    const int rc = pthread_create(&index->copier, NULL, run, index);
    index->copier_runs = rc == 0;
    return -rc;
}

void index_copies_stop(struct index *index)
{
    if (!index->copier_runs)
        return;
    pthread_mutex_lock(&index->copier_mutex);
    index->copier_stop = true;
    pthread_cond_signal(&index->copier_wake);
    pthread_mutex_unlock(&index->copier_mutex);
    pthread_join(index->copier, NULL);
    index->copier_runs = false;
}
