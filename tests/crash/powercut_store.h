/* SPDX-License-Identifier: BSD-2-Clause
 *
 * powercut_store.h - opens a store as a power cut left it and holds it to what was promised.
 */
#ifndef TEST_CRASH_POWERCUT_STORE_H
#define TEST_CRASH_POWERCUT_STORE_H

#include "powercut_promise.h"

/* AGAIN: also closes it, opens it again and looks once more. True when all is well; otherwise TEXT
 * says what is not. */
bool store_holds(const char *path, const struct promise *promise, bool again, char *text,
                 size_t size);

#endif
