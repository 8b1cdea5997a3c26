/* SPDX-License-Identifier: BSD-2-Clause
 *
 * powercut_promise.h - what must be found in a store, and what may be, by the marks so far.
 *
 * Names of an actor are what they were after some number of its operations: at least those that a
 * promise covers, at most those that were begun. Each block of a file is what it was after some
 * number of operations on the file, with the same limits, whatever the other blocks are; its size
 * lies between those that the file had. What a file replaces by rename has its contents by then.
 */
#ifndef TEST_CRASH_POWERCUT_PROMISE_H
#define TEST_CRASH_POWERCUT_PROMISE_H

#include <stdbool.h>

#include "powercut.h"

struct promise;

/* What one actor has, after some number of operations on names. */
struct promise_names {
    bool directory;                 /* its own is there */
    uint32_t file[POWERCUT_NAMES];  /* or POWERCUT_NO_FILE */
    uint64_t tag[POWERCUT_FILES];   /* 0 = none */
    uint32_t floor[POWERCUT_FILES]; /* operations on the contents that must be there */
    uint32_t links[POWERCUT_FILES]; /* names of the file */
};

struct promise *promise_new(void);
void promise_free(struct promise *promise);
/* Takes in the next mark. Ends the process when it makes no sense. */
void promise_mark(struct promise *promise, const struct mark *mark);

bool promise_opened(const struct promise *promise);
/* Whether the store may be damaged: then a repair must make it good. */
bool promise_damaged(const struct promise *promise);
uint32_t promise_actors(const struct promise *promise); /* all are below */
/* What is known of a model: the mark that says what it is, whether it must be there, and whether it may.
 */
struct promise_model {
    struct mark mark;
    bool must, may;
};
const struct promise_model *promise_model(const struct promise *promise, uint32_t number);
/* Operations on names: *least that must be there, *most that may. */
void promise_range(const struct promise *promise, uint32_t actor, uint32_t *least, uint32_t *most);
void promise_names(const struct promise *promise, uint32_t actor, uint32_t count,
                   struct promise_names *names);
/* 0: not known yet. */
uint64_t promise_ino(const struct promise *promise, uint32_t actor, uint32_t file);
/* The setting: what was promised last is CONF[0], 0 = nothing. Returns how many values it may have,
 * at most LIMIT. */
unsigned promise_conf(const struct promise *promise, uint64_t *conf, unsigned limit);
/* Whether DATA can be the contents of the file; if not, a line in TEXT. */
bool promise_contents(const struct promise *promise, uint32_t actor, uint32_t file, uint32_t floor,
                      const uint8_t *data, uint64_t size, char *text, size_t text_size);

#endif
