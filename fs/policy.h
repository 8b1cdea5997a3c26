/* SPDX-License-Identifier: BSD-2-Clause
 *
 * policy.h - what may be done with a file's data: from the virtual attribute user.sepfs.policy of
 * the file (inherited from its directory when it was created), else the mount's options.
 *
 * Text form, one or more of, separated by commas: cold=never, cold=now, cold=METHOD, hot=METHOD,
 * where METHOD is a sep_method_parse text. Kept as the extended attribute of that name, which is
 * never listed.
 */
#ifndef FS_POLICY_H
#define FS_POLICY_H

#include <stdbool.h>
#include <stddef.h>

#include "codec/sep.h"
#include "index/index.h"

struct fs;

#define FS_POLICY_XATTR "user.sepfs.policy"

struct fs_policy {
    struct sep_method hot, cold;
    bool cold_never; /* the compactor leaves it alone */
    bool cold_now;   /* cold as soon as it is written */
};

/* Parses TEXT over the defaults already in *policy. 0 or -EINVAL with a reason in ERROR. */
int fs_policy_parse(const char *text, struct fs_policy *policy, char *error, size_t size);
/* Policy in force for INO. Inside a transaction. */
int fs_policy_get(struct fs *fs, struct index_txn *txn, uint64_t ino, struct fs_policy *policy);
/* Copies the directory's policy attribute, if any, to a new inode. Inside a transaction. */
int fs_policy_inherit(struct index_txn *txn, uint64_t dir, uint64_t ino);

#endif
