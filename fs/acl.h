/* SPDX-License-Identifier: BSD-2-Clause
 *
 * acl.h - POSIX access control lists, kept as the extended attributes that the kernel's own file
 * systems use. The kernel enforces them (-o acl); the rules here keep list and mode in step, as
 * POSIX 1003.1e draft 17 and FUSE_POSIX_ACL ask of the file system. All inside a transaction.
 */
#ifndef FS_ACL_H
#define FS_ACL_H

#include "index/index.h"

#define FS_ACL_ACCESS  "system.posix_acl_access"
#define FS_ACL_DEFAULT "system.posix_acl_default"

/* attr->mode was changed by chmod: changes the access list, if there is one, to match. */
int fs_acl_chmod(struct index_txn *txn, const struct index_inode *attr);

/* A new inode ATTR in DIR, asked for with attr->mode: applies DIR's default list if it has one,
 * else UMASK. Changes attr->mode and stores lists; the caller puts the inode. */
int fs_acl_create(struct index_txn *txn, uint64_t dir, struct index_inode *attr, mode_t umask);

/* An access list is about to be stored: takes the mode from it. *keep: whether the list says more
 * than the mode, that is, whether it needs storing. -EINVAL: malformed. */
int fs_acl_to_mode(const void *value, size_t size, uint32_t *mode, bool *keep);

/* Whether VALUE is a well-formed list: entries in order, each required one there. */
bool fs_acl_valid(const void *value, size_t size);

#endif
