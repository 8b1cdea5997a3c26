/* SPDX-License-Identifier: BSD-2-Clause
 *
 * session.h - the life of one mount inside the daemon, and how it tells whoever started it.
 */
#ifndef FS_SESSION_H
#define FS_SESSION_H

#include "mount_check.h"

struct fs_report {
    int pipe;       /* to the waiting parent; -1 in the foreground */
    bool delivered; /* the parent has its answer */
};

/* Either of them once; what comes later goes to the log alone. */
void fs_report_ready(struct fs_report *report);
void fs_report_error(struct fs_report *report, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Opens the store, mounts it, serves until it is unmounted or told to end (SIGINT, SIGTERM, SIGHUP),
 * and closes it. Returns the exit code of the process: 0, or 1 after an error was reported or
 * something could not be written. */
int fs_serve(const struct fs_mount_paths *paths, const struct fs_options *options,
             struct fs_report *report);

#endif
