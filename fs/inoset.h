/* SPDX-License-Identifier: BSD-2-Clause
 *
 * inoset.h - a set of inode numbers: open addressing with linear probing, at most two thirds full,
 * and removal by moving what follows back, so that nothing is left behind. Not locked.
 */
#ifndef FS_INOSET_H
#define FS_INOSET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct fs_inoset {
    uint64_t *slots;        /* 0 = free: no inode has that number */
    size_t count, capacity; /* capacity: 0 or a power of two */
};

/* All zeros is an empty set. */
void fs_inoset_free(struct fs_inoset *set);
bool fs_inoset_has(const struct fs_inoset *set, uint64_t ino);
/* True when INO is in the set now, also when it was before; false when there is no memory. */
bool fs_inoset_add(struct fs_inoset *set, uint64_t ino);
/* False when it was not there. */
bool fs_inoset_remove(struct fs_inoset *set, uint64_t ino);
/* Takes out any one; 0 when the set is empty. */
uint64_t fs_inoset_pop(struct fs_inoset *set);

#endif
