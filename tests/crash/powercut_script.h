/* SPDX-License-Identifier: BSD-2-Clause
 *
 * powercut_script.h - what a workload does that leaves nothing to chance: each thing that a store can
 * be asked, once at least.
 */
#ifndef TEST_CRASH_POWERCUT_SCRIPT_H
#define TEST_CRASH_POWERCUT_SCRIPT_H

#include "powercut_actor.h"

struct script {
    void (*act)(struct actor *actor); /* NULL: not on a mounted store, but see damaged */
    bool damaged; /* records are made wrong and repaired, as sepfs-fsck -y does */
    bool killed;  /* at the end, otherwise the store is closed */
};

/* Sessions, in their order; the last one has neither. */
extern const struct script powercut_script[];

#endif
