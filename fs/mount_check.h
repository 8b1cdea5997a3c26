/* SPDX-License-Identifier: BSD-2-Clause
 *
 * mount_check.h - everything that can be refused before a store is opened or anything is mounted.
 */
#ifndef FS_MOUNT_CHECK_H
#define FS_MOUNT_CHECK_H

#include <limits.h>
#include <stddef.h>

#include "options.h"

struct fs_mount_paths {
    char store[PATH_MAX], mountpoint[PATH_MAX]; /* absolute, without symbolic links */
};

/* Resolves both paths and checks them, /dev/fuse and the right to mount. 0, or a negative errno with
 * one clear line in ERROR. The store itself may be missing: index_open says whether it is one. */
int fs_mount_check(const char *store, const char *mountpoint, const struct fs_options *options,
                   struct fs_mount_paths *paths, char *error, size_t size);

#endif
