/* SPDX-License-Identifier: BSD-2-Clause
 *
 * compact_share.h - what compact_share.c and compact_order.c share.
 */
#ifndef FS_COMPACT_SHARE_H
#define FS_COMPACT_SHARE_H

#include "compact.h"

/* Bytes to be laid down once, and all extents that name them. */
struct compact_piece {
    const struct compact_item *item; /* the first of... */
    unsigned copies;                 /* ...so many, one behind the other */
    char *name;                      /* of the first one's file; NULL: not found */
    const char *folder;              /* name of its directory, owned by the layout; NULL */
    bool taken;
};

/* A name that is looked for: of INO in the directory PARENT. */
struct compact_label {
    uint64_t parent, ino;
    char *name;
    struct compact_piece *piece; /* takes the name; NULL: it is a directory's */
};

struct compact_layout {
    struct compact_pass *pass;
    struct compact_piece *pieces;
    unsigned count;
    struct compact_label *folders;
    unsigned folder_count;
};

/* Gives the pieces their names and puts them in the order in which they are laid. */
int compact_layout_order(struct compact_layout *layout);
/* Frees names, folders and pieces. */
void compact_layout_free(struct compact_layout *layout);

#endif
