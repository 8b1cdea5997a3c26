/* SPDX-License-Identifier: BSD-2-Clause
 *
 * core.c - the data path's parts started in the order they depend on each other, and stopped in the
 * opposite one.
 */
#include "core.h"

#include <string.h>
#include <syslog.h>

#include "blocks.h"
#include "buffers.h"
#include "inode.h"
#include "models.h"
#include "reaper.h"
#include "workers.h"
#include "writeback.h"

/* Free block buffers kept: two for every worker and what a few FUSE threads use at once, but no more
 * than 8 MiB with large blocks. */
static unsigned buffers_kept(const struct fs *fs)
{
    unsigned keep = 2 * fs->options.threads + 16, most = (8u << 20) / fs->block_size;

    return keep < most ? keep : most;
}

static void stop_parts(struct fs *fs)
{
    fs_workers_stop(fs); /* runs what is queued: also frees dropped versions */
    if (fs->reaper != NULL)
        fs_inode_forget_all(fs);
    fs_reaper_stop(fs);
    fs_writeback_free(fs);
    fs_models_free(fs->models);
    fs->models = NULL;
    fs_inodes_free(fs->inodes);
    fs_cache_free(fs->cache);
    fs_buffers_free(fs->buffers);
    fs->inodes = NULL;
    fs->cache = NULL;
    fs->buffers = NULL;
}

int fs_data_start(struct fs *fs, struct index *index, const struct fs_options *options)
{
    int error;

    memset(fs, 0, sizeof(*fs));
    fs->index = index;
    fs->options = *options;
    fs->block_size = index_block_size(index);
    error = fs_buffers_new(sep_bound(fs->block_size), buffers_kept(fs), &fs->buffers);
    if (error == 0)
        error = fs_cache_new(fs, options->cache, &fs->cache);
    if (error == 0)
        error = fs_inodes_new(&fs->inodes);
    if (error == 0)
        error = fs_models_open(index, &fs->models);
    if (error == 0)
        error = fs_workers_start(fs, options->threads);
    if (error == 0 && !options->readonly && !index_readonly(index)) {
        error = fs_writeback_start(fs);
        if (error == 0)
            error = fs_reaper_start(fs);
        if (error == 0)
            error = fs_inode_reap_all(fs);
        if (error != 0)
            fs_writeback_stop(fs);
    }
    if (error != 0)
        stop_parts(fs);
    return error;
}

int fs_data_stop(struct fs *fs)
{
    int error = fs_writeback_stop(fs);
    int committed;

    if (error != 0)
        fs_log(LOG_ERR, "%s: not everything could be written: %s", index_path(fs->index),
               strerror(-error));
    stop_parts(fs);
    committed = index_readonly(fs->index) ? 0 : index_commit(fs->index);
    return error != 0 ? error : committed;
}
