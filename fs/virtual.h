/* SPDX-License-Identifier: BSD-2-Clause
 *
 * virtual.h - attributes that say how a file is stored. Computed when asked for, never listed, so
 * that cp -a and rsync do not copy them. user.sepfs.policy, which is set by users and stored, is in
 * policy.h.
 *
 * user.sepfs.stored   bytes that the file takes in the store
 * user.sepfs.ratio    size to stored bytes, "3.42"; "inf" for a file of holes
 * user.sepfs.codecs   blocks by method, "zstd:3=12 sep:5=3"; "inline" when the index holds the data
 * user.sepfs.cold     percent of the stored plain bytes that do not wait for the compactor, "100"
 */
#ifndef FS_VIRTUAL_H
#define FS_VIRTUAL_H

#include "core.h"

#define FS_VIRTUAL_PREFIX   "user.sepfs."
#define FS_VIRTUAL_TEXT_MAX 1024u

/* Whether NAME belongs to sepfs: reserved, not stored, except the policy. */
bool fs_virtual_name(const char *name);

/* Writes the value of NAME for INO to TEXT and returns its length. -ENODATA: no such attribute, or
 * not a regular file. Outside transactions; takes many short ones for a large file. */
int fs_virtual_get(struct fs *fs, uint64_t ino, const char *name, char text[FS_VIRTUAL_TEXT_MAX]);

#endif
