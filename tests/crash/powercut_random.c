/* SPDX-License-Identifier: BSD-2-Clause
 *
 * powercut_random.c - an actor's random work. A step is one operation on a name or a file, a promise
 * asked for, a habit of programs (to write a new file and rename it over the old one, to make many
 * at once), a collection of garbage or a request to the compactor.
 */
#include "powercut_actor.h"

/* Some name that is taken, or free; POWERCUT_NAMES if there is none. */
static uint32_t some_name(struct actor *a, bool taken)
{
    const uint32_t first = (uint32_t)actor_below(a, POWERCUT_NAMES);
    for (uint32_t i = 0; i < POWERCUT_NAMES; i++) {
        const uint32_t name = (first + i) % POWERCUT_NAMES;
        if ((a->names[name] != POWERCUT_NO_FILE) == taken)
            return name;
    }
    return POWERCUT_NAMES;
}

/* Whole blocks, ends of files, and anything. */
static uint64_t some_offset(struct actor *a, const struct actor_file *file)
{
    switch (actor_below(a, 4)) {
    case 0:
        return file->size;
    case 1:
        return actor_below(a, 300);
    case 2:
        return actor_below(a, POWERCUT_FILE_MAX);
    default:
        return actor_below(a, POWERCUT_FILE_MAX / POWERCUT_BLOCK) * POWERCUT_BLOCK;
    }
}

static uint64_t some_length(struct actor *a, uint64_t offset)
{
    static const uint64_t most[] = {200, 4000, POWERCUT_BLOCK, 4 * POWERCUT_BLOCK};
    uint64_t length = 1 + actor_below(a, most[actor_below(a, 4)]);
    if (actor_below(a, 3) == 0)
        length = (length + POWERCUT_BLOCK - 1) / POWERCUT_BLOCK * POWERCUT_BLOCK;
    return length < POWERCUT_FILE_MAX - offset ? length : POWERCUT_FILE_MAX - offset;
}

static void write_some(struct actor *a, uint32_t number, uint64_t offset, uint64_t length)
{
    static const uint32_t kinds[] = {POWERCUT_TEXT, POWERCUT_TEXT, POWERCUT_TEXT, POWERCUT_NOISE,
                                     POWERCUT_ZEROS};
    const uint32_t content = kinds[actor_below(a, 5)];
    /* often the same: identical blocks are stored once */
    const uint64_t seed = actor_below(a, 3) == 0 ? actor_below(a, 4) : powercut_random(&a->random);
    actor_write(a, number, offset, length, content, seed);
}

static void truncate_some(struct actor *a, uint32_t number)
{
    const uint64_t size = actor_below(a, 3) == 0 ? 0 : some_offset(a, &a->files[number]);
    actor_truncate(a, number, size);
}

static void punch_some(struct actor *a, uint32_t number)
{
    const uint64_t offset = some_offset(a, &a->files[number]) % POWERCUT_FILE_MAX;
    actor_punch(a, number, offset, some_length(a, offset));
}

/* Whole blocks between two files: they are shared. */
static void copy_some(struct actor *a, uint32_t from, uint32_t number)
{
    const uint64_t blocks = a->files[from].size / POWERCUT_BLOCK;
    if (from == number || blocks == 0)
        return;
    const uint64_t first = actor_below(a, blocks), count = 1 + actor_below(a, blocks - first);
    const uint64_t to = actor_below(a, POWERCUT_FILE_MAX / POWERCUT_BLOCK - count + 1);
    actor_copy(a, from, first, number, to, count);
}

/* What editors do: a new file, synced, takes the place of the old one. */
static void replace(struct actor *a)
{
    const uint32_t name = some_name(a, false);
    if (name == POWERCUT_NAMES || a->file_count == POWERCUT_FILES)
        return;
    const uint32_t number = actor_create(a, name);
    write_some(a, number, 0, some_length(a, 0));
    if (actor_below(a, 2) == 0)
        actor_sync_file(a, number);
    actor_rename(a, name, (uint32_t)actor_below(a, POWERCUT_NAMES));
    if (actor_below(a, 2) == 0)
        actor_sync_names(a);
}

/* Many small files with the same fate, at once: what a checkout does. */
static void burst(struct actor *a)
{
    for (unsigned i = 0; i < 4; i++) {
        const uint32_t name = some_name(a, false);
        if (name == POWERCUT_NAMES || a->file_count == POWERCUT_FILES)
            break;
        const uint32_t number = actor_create(a, name);
        write_some(a, number, 0, 1 + actor_below(a, 5000));
    }
    if (actor_below(a, 2) == 0)
        actor_sync_all(a);
}

static void set_conf(struct actor *a)
{
    if (a->first)
        actor_conf(a, powercut_random(&a->random) % 1000000);
}

static void collect(struct actor *a)
{
    if (a->first)
        actor_collect(a, 50 + (unsigned)actor_below(a, 50));
}

static void compact(struct actor *a)
{
    static const char *const methods[] = {"sep:1", "zstd:9", "zstd:1", "lz4", "lz4:9", "zstd:5"};
    /* Most of them decode fast: what is coded is read again thousands of times. */
    const char *const method = methods[actor_below(a, 6)];
    const bool gc = actor_below(a, 2) == 0;
    if (!a->first)
        actor_compact(a, 0, method, gc, actor_below(a, 2) == 0);
}

/* ---- steps ------------------------------------------------------------------------------------------ */

static void step_file(struct actor *a, uint64_t dice, uint32_t name)
{
    const uint32_t number = a->names[name], to = (uint32_t)actor_below(a, POWERCUT_NAMES);
    const struct actor_file *const file = &a->files[number];
    if (dice < 30) {
        const uint64_t offset = some_offset(a, file) % POWERCUT_FILE_MAX;
        write_some(a, number, offset, some_length(a, offset));
    } else if (dice < 36) {
        truncate_some(a, number);
    } else if (dice < 40) {
        punch_some(a, number);
    } else if (dice < 45) {
        copy_some(a, a->names[some_name(a, true)], number);
    } else if (dice < 49) {
        actor_unlink(a, name, actor_below(a, 2) == 0);
    } else if (dice < 54) {
        actor_rename(a, name, to);
    } else if (dice < 56) {
        if (a->names[to] == POWERCUT_NO_FILE)
            actor_link(a, name, to);
    } else if (dice < 58) {
        if (a->names[to] != POWERCUT_NO_FILE && a->names[to] != number)
            actor_exchange(a, name, to);
    } else if (dice < 61) {
        actor_tag(a, number, actor_below(a, 1000) + 1);
    } else if (dice < 73) {
        actor_sync_file(a, number);
    } else {
        actor_write_back(a, number);
    }
}

static void step(struct actor *a)
{
    const uint64_t dice = actor_below(a, 100);
    const uint32_t name = some_name(a, true), free_name = some_name(a, false);
    if (dice < 76 && name != POWERCUT_NAMES)
        step_file(a, dice, name);
    else if (dice < 84 && free_name != POWERCUT_NAMES && a->file_count < POWERCUT_FILES)
        actor_create(a, free_name);
    else if (dice < 91)
        replace(a);
    else if (dice < 93)
        burst(a);
    else if (dice < 95)
        actor_sync_all(a);
    else if (dice < 96)
        actor_sync_names(a);
    else if (dice < 97)
        set_conf(a);
    else if (dice < 98)
        collect(a);
    else
        compact(a);
}

void actor_run(struct actor *a, unsigned steps)
{
    actor_directory(a);
    for (unsigned i = 0; i < steps; i++) {
        if (i == steps / 3)
            set_conf(a); /* rare among the steps, and of interest in each session */
        step(a);
    }
}
