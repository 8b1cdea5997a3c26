/* SPDX-License-Identifier: BSD-2-Clause
 *
 * powercut_decode.h - the decoding of sepfs-fsck --deep, for stores of which thousands hold the same
 * blocks: what decoded well once is not decoded again.
 */
#ifndef TEST_CRASH_POWERCUT_DECODE_H
#define TEST_CRASH_POWERCUT_DECODE_H

#include "index/index.h"

/* For struct index_check, of one thread. */
int powercut_decode(void *arg, unsigned worker, const struct index_block *block,
                    const void *payload, char *reason, size_t size);

#endif
