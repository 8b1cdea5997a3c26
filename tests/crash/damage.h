/* SPDX-License-Identifier: BSD-2-Clause
 *
 * damage.h - damage that follows from the rest of a store: a repair, finished or cut short and begun
 * again, must lose nothing by it.
 */
#ifndef TEST_CRASH_DAMAGE_H
#define TEST_CRASH_DAMAGE_H

#include "index/internal.h"

/* In a write transaction: every inode but the root has a link too many, every other block two
 * references too many, and its hash record is gone. *count: records changed. 0 or a negative errno. */
int damage_plant(struct index_txn *txn, unsigned *count);

#endif
