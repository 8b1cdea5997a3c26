/* SPDX-License-Identifier: BSD-2-Clause
 *
 * models.c - STORE/models: the model files that blocks name, each under the content hash that the
 * file itself carries. A model lies there, synced, before a block may name it, so that a store
 * never needs a file from elsewhere. What a model file holds is codec/'s business: here it is a name
 * and bytes.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "internal.h"

#define HASH_DIGITS 16
#define SUFFIX      ".sepm"
#define NAME_SIZE   (HASH_DIGITS + sizeof SUFFIX)

static int open_directory(const struct index *index)
{
    return index_io_open(index->io, index->dir_fd, "models", O_RDONLY | O_DIRECTORY | O_NOFOLLOW,
                         0);
}

static void name_of(uint64_t hash, char name[NAME_SIZE])
{
    snprintf(name, NAME_SIZE, "%016" PRIx64 SUFFIX, hash);
}

/* True for a name that name_of could have made: lower-case digits, nothing else. */
static bool hash_of(const char *name, uint64_t *hash)
{
    char again[NAME_SIZE];

    if (strspn(name, "0123456789abcdef") != HASH_DIGITS)
        return false;
    *hash = strtoull(name, NULL, 16);
    name_of(*hash, again);
    return strcmp(name, again) == 0;
}

int index_model_each(struct index *index, index_model_fn each, void *arg)
{
    const int fd = open_directory(index);
    if (fd < 0)
        return fd == -ENOENT ? 0 : fd;
    DIR *dir;
    int got = index_io_list(index->io, fd, &dir);
    if (got == 0) {
        const struct dirent *entry;
        while ((got = index_io_next(index->io, dir, &entry)) > 0) {
            uint64_t hash;
            if (!hash_of(entry->d_name, &hash))
                continue;
            got = each(arg, hash);
            if (got != 0)
                break;
        }
        index->io->closedir(dir);
    }
    index->io->close(fd);
    return got;
}

int index_model_read(struct index *index, uint64_t hash, void **bytes, size_t *size)
{
    char name[NAME_SIZE], *data;
    const int fd = open_directory(index);
    if (fd < 0)
        return fd;
    name_of(hash, name);
    const int error = index_io_load(index->io, fd, name, INDEX_MODEL_MAX, &data, size);
    index->io->close(fd);
    if (error == 0)
        *bytes = data;
    return error;
}

int index_model_add(struct index *index, uint64_t hash, const void *bytes, size_t size)
{
    if (hash == 0 || size == 0 || size > INDEX_MODEL_MAX)
        return -EINVAL;
    if (index->flags & INDEX_OPEN_READONLY)
        return -EROFS;
    char name[NAME_SIZE];
    const int fd = open_directory(index);
    if (fd < 0)
        return fd;
    name_of(hash, name);
    const int error = index_io_replace(index->io, fd, name, bytes, size);
    index->io->close(fd);
    return error;
}

int index_model_remove(struct index *index, uint64_t hash)
{
    if (index->flags & INDEX_OPEN_READONLY)
        return -EROFS;
    char name[NAME_SIZE];
    const int fd = open_directory(index);
    if (fd < 0)
        return fd == -ENOENT ? 0 : fd;
    name_of(hash, name);
    int error = index->io->unlinkat(fd, name, 0) == 0 ? 0 : -errno;
    if (error == 0)
        error = index_io_sync_dir(index->io, fd);
    index->io->close(fd);
    return error == -ENOENT ? 0 : error;
}
