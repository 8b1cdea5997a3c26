/* SPDX-License-Identifier: BSD-2-Clause
 *
 * encode.h - what a worker does with a dirty block before it takes any lock.
 */
#ifndef FS_ENCODE_H
#define FS_ENCODE_H

#include "dirty.h"

/* Decides the form of a version that is WRITING and, for a new block, appends its record to a pack.
 * Sets dirty->form and dirty->block. */
int fs_encode(struct fs *fs, struct sep_context *context, struct fs_dirty *dirty);

#endif
