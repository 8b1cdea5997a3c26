/* SPDX-License-Identifier: BSD-2-Clause
 *
 * start.c - a whole mounted store: the data path with compactor and scrub on top.
 */
#include "core.h"

#include "compactor.h"
#include "control.h"
#include "scrub.h"

int fs_start(struct fs *fs, struct index *index, const struct fs_options *options)
{
    int error = fs_data_start(fs, index, options);

    if (error != 0 || fs->writeback == NULL)
        return error;
    if (options->compact != FS_COMPACT_OFF)
        error = fs_compactor_start(fs);
    if (error == 0)
        error = fs_scrub_start(fs);
    if (error != 0) {
        fs_compactor_stop(fs);
        fs_data_stop(fs);
    }
    return error;
}

int fs_stop(struct fs *fs)
{
    if (fs->control != NULL)
        fs_control_stop(fs);
    fs_scrub_stop(fs); /* looks at the compactor */
    fs_compactor_stop(fs);
    return fs_data_stop(fs);
}
