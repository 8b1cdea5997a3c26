/* SPDX-License-Identifier: BSD-2-Clause
 *
 * start.c - a whole mounted store: the data path with the compactor on top.
 */
#include "core.h"

#include "compactor.h"
#include "control.h"

int fs_start(struct fs *fs, struct index *index, const struct fs_options *options)
{
    int error = fs_data_start(fs, index, options);

    if (error != 0 || fs->writeback == NULL || options->compact == FS_COMPACT_OFF)
        return error;
    error = fs_compactor_start(fs);
    if (error != 0)
        fs_data_stop(fs);
    return error;
}

int fs_stop(struct fs *fs)
{
    if (fs->control != NULL)
        fs_control_stop(fs);
    if (fs->compactor != NULL)
        fs_compactor_stop(fs);
    return fs_data_stop(fs);
}
