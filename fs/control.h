/* SPDX-License-Identifier: BSD-2-Clause
 *
 * control.h - STORE/control.sock: how sepfs-compact, sepfs-stats and sepfs-umount talk to the
 * daemon.
 *
 * A UNIX stream socket, mode 0600; the peer must be root or the daemon's own user (SO_PEERCRED). A
 * request is one line of at most 4,096 bytes, "verb key=value ...\n", values percent-encoded; an
 * answer is lines "key=value\n" ended by "ok\n" or "error ERRNO TEXT\n". Verbs:
 *   hello                                            pid, version, store, mountpoint
 *   stats                                            counters, cache, dirty, decode percentiles
 *   compact ino=N all=0|1 older_than=S method=M gc=0|1     ticket
 *   wait ticket=N timeout_ms=N                       status fields, done=0|1
 *   status | pause | resume                          status fields
 *   sync                                             writes back and commits
 * A connection that stays open is closed by the daemon's exit: that is how sepfs-umount waits.
 */
#ifndef FS_CONTROL_H
#define FS_CONTROL_H

#include "core.h"

int fs_control_start(struct fs *fs, const char *mountpoint);
void fs_control_stop(struct fs *fs);

#endif
