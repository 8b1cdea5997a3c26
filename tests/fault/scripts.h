/* SPDX-License-Identifier: BSD-2-Clause
 *
 * scripts.h - short lives of a store, each begun on a copy of a store that was made without faults.
 */
#ifndef TEST_FAULT_SCRIPTS_H
#define TEST_FAULT_SCRIPTS_H

#include "world.h"

struct fault_script {
    const char *name;
    void (*prepare)(struct world *world); /* makes the store; NULL: there is none */
    bool killed;                          /* the preparing process ends without closing */
    bool damaged; /* the store needs a repair: what a run leaves of it is done at the end */
    void (*run)(struct world *world); /* on the open store; may close it */
};

extern const struct fault_script fault_scripts[];
extern const unsigned fault_script_count;

#endif
