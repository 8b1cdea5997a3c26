/* SPDX-License-Identifier: BSD-2-Clause
 *
 * create.c - makes an empty directory a store: the lock file, index/, packs/, models/, an index with
 * its tables and the root directory, and last sepfs.conf, whose rename is the moment of creation.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "create.h"
#include "internal.h"

/* What creation leaves when it is interrupted, and what a fresh file system brings along. */
static bool is_piece(const char *name)
{
    static const char *const pieces[] = {".",     "..",     "lock",           "index",
                                         "packs", "models", "sepfs.conf.new", "lost+found"};
    for (size_t i = 0; i < sizeof pieces / sizeof pieces[0]; i++) {
        if (strcmp(name, pieces[i]) == 0)
            return true;
    }
    return false;
}

/* Looks through a directory: whether NAME is in it, and whether anything is no piece. */
static int scan(struct index *index, const char *wanted, bool *found, bool *foreign)
{
    *found = *foreign = false;
    DIR *dir;
    int got = index_io_list(index->io, index->dir_fd, &dir);
    if (got != 0)
        return got;
    const struct dirent *entry;
    bool lock = false, other = false;
    while ((got = index_io_next(index->io, dir, &entry)) > 0) {
        const char *const name = entry->d_name;
        *found |= strcmp(name, wanted) == 0;
        *foreign |= !is_piece(name);
        lock |= strcmp(name, "lock") == 0;
        other |=
            strcmp(name, "index") == 0 || strcmp(name, "packs") == 0 || strcmp(name, "models") == 0;
    }
    /* The lock file comes first: without it, directories of these names are somebody else's. */
    *foreign |= other && !lock;
    index->io->closedir(dir);
    return got;
}

int index_store_exists(struct index *index, bool *exists, struct index_refusal *refusal)
{
    bool foreign;
    const int error = scan(index, "sepfs.conf", exists, &foreign);
    if (error != 0)
        return index_refuse(refusal, error, "%s: %s", index->path, strerror(-error));
    if (*exists)
        return 0;
    if (foreign)
        return index_refuse(refusal, -ENOTEMPTY, "%s: not empty and not a sepfs store",
                            index->path);
    if (!(index->flags & INDEX_OPEN_CREATE))
        return index_refuse(refusal, -ENOENT, "%s: not a sepfs store", index->path);
    return 0;
}

static int make_directory(struct index *index, const char *name, int *fd)
{
    if (index->io->mkdirat(index->dir_fd, name, 0700) < 0 && errno != EEXIST)
        return -errno;
    *fd = index_io_open(index->io, index->dir_fd, name, O_RDONLY | O_DIRECTORY, 0);
    return *fd < 0 ? *fd : 0;
}

static int put_root(struct index_txn *txn)
{
    struct index_inode root = {
        .ino = INDEX_ROOT_INO,
        .parent = INDEX_ROOT_INO,
        .mode = S_IFDIR | 0755,
        .uid = geteuid(),
        .gid = getegid(),
        .nlink = 2,
    };
    clock_gettime(CLOCK_REALTIME, &root.mtime);
    root.atime = root.ctime = root.btime = root.mtime;
    return index_inode_put(txn, &root);
}

/* The first transaction: all tables, the state, the root directory. */
static int fill_index(struct index *index)
{
    int error = index_txn_begin_local(index, INDEX_WRITE);
    if (error != 0)
        return error;
    struct index_txn *const txn = &index->writer;
    for (unsigned db = 0; db < INDEX_DB_COUNT && error == 0; db++)
        error =
            index_mdb_error(mdb_dbi_open(txn->mdb, index_db_names[db], MDB_CREATE, &index->db[db]));
    index->next_ino = INDEX_ROOT_INO + 1;
    atomic_store(&index->next_block, 1);
    index->packs.next_id = 1;
    memset(&index->counters, 0, sizeof index->counters);
    if (error == 0)
        error = put_root(txn);
    if (error == 0)
        error = index_state_store(txn, true);
    const int ended = index_txn_end_local(index, error == 0);
    if (error == 0 && ended == 0)
        error = index_env_reach(index, index->env, 0);
    return error != 0 ? error : ended;
}

static int create_index(struct index *index, struct index_refusal *refusal)
{
    /* Of an interrupted creation. */
    index->io->unlinkat(index->index_fd, "data.mdb", 0);
    index->io->unlinkat(index->index_fd, "lock.mdb", 0);
    int error = index_env_open(index, refusal);
    if (error == 0) {
        error = fill_index(index);
        if (error != 0)
            index_refuse(refusal, error, "%s/index: cannot create: %s", index->path,
                         strerror(-error));
    }
    if (index->env != NULL)
        mdb_env_close(index->env);
    index->env = NULL;
    atomic_store(&index->index_used, 0);
    atomic_store(&index->index_allocated, 0);
    return error;
}

/* The directory that holds STORE, so that its name is durable. */
static int sync_parent(const struct index *index)
{
    const int fd = index_io_open(index->io, index->dir_fd, "..", O_RDONLY | O_DIRECTORY, 0);
    if (fd < 0)
        return fd == -EACCES ? 0 : fd; /* a directory that the caller did not make either */
    const int error = index_io_sync_dir(index->io, fd);
    index->io->close(fd);
    return error;
}

int index_store_sync_names(const struct index *index)
{
    int error = index_io_sync_dir(index->io, index->index_fd);
    if (error == 0)
        error = index_io_sync_dir(index->io, index->dir_fd);
    return error == 0 ? sync_parent(index) : error;
}

int index_store_create(struct index *index, struct index_refusal *refusal)
{
    const struct index_io *const io = index->io;
    int models = -1;
    if (getrandom(index->uuid, sizeof index->uuid, 0) != (ssize_t)sizeof index->uuid)
        return index_refuse(refusal, -EIO, "%s: no random bytes for the uuid", index->path);
    index->uuid[6] = (uint8_t)((index->uuid[6] & 0x0f) | 0x40); /* version 4, RFC 4122 */
    index->uuid[8] = (uint8_t)((index->uuid[8] & 0x3f) | 0x80);
    /* The lock file tells pieces of a store from other things, so it must be there before them. */
    int error = index_io_sync_dir(io, index->dir_fd);
    if (error == 0)
        error = make_directory(index, "index", &index->index_fd);
    if (error == 0)
        error = make_directory(index, "packs", &index->packs_fd);
    if (error == 0)
        error = make_directory(index, "models", &models);
    if (error == 0)
        error = create_index(index, refusal);
    else
        index_refuse(refusal, error, "%s: cannot create: %s", index->path, strerror(-error));
    if (error != 0)
        goto out;
    error = index_io_sync_dir(io, index->index_fd);
    if (error == 0)
        error = index_io_sync_dir(io, index->dir_fd);
    if (error == 0)
        error = index_conf_create(index);
    if (error == 0)
        error = sync_parent(index);
    if (error != 0)
        index_refuse(refusal, error, "%s: cannot create: %s", index->path, strerror(-error));
out:
    if (models >= 0)
        io->close(models);
    if (index->index_fd >= 0)
        io->close(index->index_fd);
    if (index->packs_fd >= 0)
        io->close(index->packs_fd);
    index->index_fd = index->packs_fd = -1;
    return error;
}
