/* SPDX-License-Identifier: BSD-2-Clause
 *
 * train_files.c - offers the blocks of files and folders to a sample. Symbolic links below an operand
 * and special files are left out; what cannot be read is reported and skipped.
 */
#include <errno.h>
#include <fcntl.h>
#include <fts.h>
#include <stdlib.h>
#include <unistd.h>

#include "train.h"

static int by_name(const FTSENT **a, const FTSENT **b)
{
    const unsigned char *left = (const unsigned char *)(*a)->fts_name;
    const unsigned char *right = (const unsigned char *)(*b)->fts_name;

    while (*left != 0 && *left == *right) {
        left++;
        right++;
    }
    return *left - *right;
}

static ssize_t read_block(int file, uint8_t *bytes, uint64_t offset)
{
    size_t got = 0;

    while (got < SEP_BLOCK_SIZE_DEFAULT) {
        const ssize_t part =
            pread(file, bytes + got, SEP_BLOCK_SIZE_DEFAULT - got, (off_t)(offset + got));

        if (part < 0 && errno == EINTR)
            continue;
        if (part < 0)
            return -errno;
        if (part == 0)
            break;
        got += (size_t)part;
    }
    return (ssize_t)got;
}

/* NAME is the path below the operand, so that a tree gives the same sample wherever it lies. */
static int add_file(struct train_sample *sample, const char *path, const char *name,
                    const struct train_watch *watch, uint8_t *buffer)
{
    const int file = open(path, O_RDONLY | O_CLOEXEC);
    const off_t size = file < 0 ? -1 : lseek(file, 0, SEEK_END);
    int error = 0;

    if (size < 0)
        watch->problem(watch->user, path, errno);
    for (uint64_t offset = 0; error == 0 && (off_t)offset < size;
         offset += SEP_BLOCK_SIZE_DEFAULT) {
        ssize_t got;

        if (*watch->stop != 0)
            error = -EINTR;
        if (error != 0 || !train_sample_wants(sample, name, offset))
            continue;
        got = read_block(file, buffer, offset);
        if (got < 0) {
            watch->problem(watch->user, path, (int)-got);
            break;
        }
        error = train_sample_add(sample, name, offset, buffer, (size_t)got);
    }
    if (file >= 0)
        close(file);
    return error;
}

static int walk(struct train_sample *sample, FTS *tree, const struct train_watch *watch,
                uint8_t *buffer)
{
    uint64_t seen = 0;
    size_t root = 0;

    for (FTSENT *entry; (entry = fts_read(tree)) != NULL;) {
        int error = 0;

        if (entry->fts_level == FTS_ROOTLEVEL)
            root = entry->fts_info == FTS_D ? entry->fts_pathlen
                                            : entry->fts_pathlen - entry->fts_namelen;
        switch (entry->fts_info) {
        case FTS_F:
            error = add_file(sample, entry->fts_path, entry->fts_path + root, watch, buffer);
            seen += (uint64_t)entry->fts_statp->st_size;
            watch->reading(watch->user, seen);
            break;
        case FTS_DNR:
        case FTS_ERR:
        case FTS_NS:
            watch->problem(watch->user, entry->fts_path, entry->fts_errno);
            break;
        default:
            break;
        }
        if (error != 0)
            return error;
    }
    return errno != 0 ? -errno : 0;
}

int train_files_sample(struct train_sample *sample, const char *path,
                       const struct train_watch *watch)
{
    char *const paths[] = {(char *)path, NULL};
    uint8_t *const buffer = malloc(SEP_BLOCK_SIZE_DEFAULT);
    FTS *const tree = fts_open(paths, FTS_PHYSICAL | FTS_COMFOLLOW | FTS_NOCHDIR, by_name);
    int error = -ENOMEM;

    if (buffer != NULL && tree != NULL)
        error = walk(sample, tree, watch, buffer);
    if (tree != NULL)
        fts_close(tree);
    free(buffer);
    return error;
}
