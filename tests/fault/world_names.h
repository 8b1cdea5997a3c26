/* SPDX-License-Identifier: BSD-2-Clause
 *
 * world_names.h - what world.c needs of the names in a world.
 */
#ifndef TEST_FAULT_WORLD_NAMES_H
#define TEST_FAULT_WORLD_NAMES_H

#include "world.h"

/* A commit returned 0: names are as they are now. */
void world_names_acknowledged(struct world *world);
/* Finds which files are there, from a read-only look at the closed store. */
void world_names_find(struct world *world);
/* With the store open: each name is there that must be, and none that must not. */
void world_names_judge(struct world *world);

#endif
