/* SPDX-License-Identifier: BSD-2-Clause
 *
 * control_verbs.h - what each request of the control socket does; private to fs/.
 */
#ifndef FS_CONTROL_VERBS_H
#define FS_CONTROL_VERBS_H

#include <limits.h>

#include "core.h"

/* What a verb may see. */
struct fs_control_view {
    struct fs *fs;
    int stop; /* readable once a long wait must end */
    char mountpoint[PATH_MAX];
};

/* An answer in the making; data is NULL when memory ran out, freed by the caller. */
struct fs_reply {
    char *data;
    size_t size, capacity;
    bool failed;
};

/* Executes LINE (no newline; changed by parsing) and writes the whole answer, with its last line
 * "ok" or "error ERRNO TEXT". */
void fs_control_verb(struct fs_control_view *view, char *line, struct fs_reply *reply);

#endif
