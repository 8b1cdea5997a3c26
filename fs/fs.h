/* SPDX-License-Identifier: BSD-2-Clause
 *
 * fs.h - the public door of fs/: mounting a store, the models of a store (models.h), and the client
 * side of the control socket that the tools use.
 */
#ifndef FS_FS_H
#define FS_FS_H

#include "models.h"
#include "options.h"

/* Mounts STORE on MOUNTPOINT and, unless options->foreground, returns in the parent once the mount
 * answers (the daemon goes on in the background). In the foreground it returns after unmount.
 * Returns a process exit code: 0; 1 after one clear line on stderr. */
int fs_mount(const char *store, const char *mountpoint, const struct fs_options *options);

/* ---- client side --------------------------------------------------------------------------------
 */

/* Finds the sepfs mount that PATH lies on: its mount point, its store and PATH's inode number.
 * -ENODEV when it lies on none. Buffers of PATH_MAX. */
int fs_client_find(const char *path, char *mountpoint, char *store, uint64_t *ino);

struct fs_client;
/* Connects to the daemon of STORE. -ENOTCONN when it is not mounted. */
int fs_client_open(const char *store, struct fs_client **client);
void fs_client_close(struct fs_client *client);
/* Sends REQUEST (one line without newline) and calls FIELD for each key=value of the answer. 0, the
 * daemon's error (negative errno, with its text in ERROR), or -EIO when the connection broke. */
int fs_client_call(struct fs_client *client, const char *request,
                   void (*field)(void *arg, const char *key, const char *value), void *arg,
                   char *error, size_t size);
/* Waits until the daemon has closed the connection, at most TIMEOUT_MS (-1: for ever). */
int fs_client_wait_exit(struct fs_client *client, int timeout_ms);

#endif
