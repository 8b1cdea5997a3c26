/* SPDX-License-Identifier: BSD-2-Clause
 *
 * powercut_promise.c - see powercut_promise.h.
 *
 * A file is kept as its contents at the last promise, the operations since, and its contents now,
 * which copies take from. Copies become writes of what they copied.
 */
#include "powercut_promise.h"

#include <stdlib.h>

struct contents {
    uint8_t data[POWERCUT_FILE_MAX];
    uint64_t size;
};

struct change {    /* an operation on contents */
    uint32_t kind; /* MARK_WRITE, MARK_TRUNCATE or MARK_ZERO */
    uint64_t offset, length;
    uint8_t *data;
};

struct file {
    uint64_t ino;
    uint32_t promised; /* changes that are in base */
    uint32_t count;    /* changes since */
    struct change *list;
    struct contents *base, *now;
};

struct name_change {
    struct mark mark;
    uint32_t file, floor; /* the file moved, and changes that it had by then */
};

struct actor {
    struct name_change *list;
    uint32_t count, promised;
    struct promise_names now;
    struct file files[POWERCUT_FILES];
    uint32_t file_count;
};

struct promise {
    bool opened, damaged;
    struct promise_model models[POWERCUT_MODELS];
    uint32_t count;
    struct actor *actors[POWERCUT_ACTORS];
    uint64_t *conf; /* the one promised last, and those intended since */
    unsigned conf_count;
};

static void die(const char *what)
{
    fprintf(stderr, "powercut: %s\n", what);
    abort();
}

static void *grown(void *list, size_t count, size_t size)
{
    list = reallocarray(list, count, size);
    if (list == NULL)
        die("out of memory");
    return list;
}

struct promise *promise_new(void)
{
    struct promise *const promise = calloc(1, sizeof *promise);
    if (promise == NULL)
        die("out of memory");
    promise->conf = grown(NULL, 1, sizeof *promise->conf);
    promise->conf[0] = 0;
    promise->conf_count = 1;
    return promise;
}

static void settle(struct file *file)
{
    for (uint32_t i = 0; i < file->count; i++)
        free(file->list[i].data);
    free(file->list);
    file->list = NULL;
    file->promised += file->count;
    file->count = 0;
}

void promise_free(struct promise *promise)
{
    for (uint32_t i = 0; i < promise->count; i++) {
        struct actor *const actor = promise->actors[i];
        if (actor == NULL)
            continue;
        for (uint32_t j = 0; j < actor->file_count; j++) {
            settle(&actor->files[j]);
            free(actor->files[j].base);
            free(actor->files[j].now);
        }
        free(actor->list);
        free(actor);
    }
    free(promise->conf);
    free(promise);
}

static struct actor *actor_of(struct promise *promise, uint32_t number)
{
    if (number >= POWERCUT_ACTORS)
        die("too many actors");
    if (promise->actors[number] == NULL) {
        struct actor *const actor = calloc(1, sizeof *actor);
        if (actor == NULL)
            die("out of memory");
        memset(actor->now.file, 0xff, sizeof actor->now.file);
        promise->actors[number] = actor;
    }
    if (number >= promise->count)
        promise->count = number + 1;
    return promise->actors[number];
}

static struct file *file_of(struct actor *actor, uint32_t number)
{
    if (number >= actor->file_count)
        die("a mark names a file that was not made");
    return &actor->files[number];
}

/* ---- names ----------------------------------------------------------------------------------------- */

static void apply_name(struct promise_names *names, const struct name_change *change)
{
    const struct mark *const m = &change->mark;
    const uint32_t old = names->file[m->to];
    switch (m->kind) {
    case MARK_MKDIR:
        names->directory = true;
        break;
    case MARK_CREATE:
    case MARK_LINK:
        names->file[m->kind == MARK_LINK ? m->to : m->name] = change->file;
        names->links[change->file]++;
        break;
    case MARK_RENAME:
        if (old != POWERCUT_NO_FILE) {
            names->links[old]--;
            names->floor[change->file] = change->floor;
        }
        names->file[m->to] = change->file;
        names->file[m->name] = POWERCUT_NO_FILE;
        break;
    case MARK_EXCHANGE:
        names->file[m->to] = names->file[m->name];
        names->file[m->name] = old;
        break;
    case MARK_UNLINK:
        names->links[change->file]--;
        names->file[m->name] = POWERCUT_NO_FILE;
        break;
    default:
        names->tag[change->file] = m->seed;
    }
}

static void add_name(struct actor *actor, const struct mark *m)
{
    struct name_change change = {.mark = *m, .file = m->file};
    if (m->name >= POWERCUT_NAMES || m->to >= POWERCUT_NAMES)
        die("a mark has a bad name");
    if (m->kind == MARK_CREATE) {
        if (m->file != actor->file_count || m->file == POWERCUT_FILES)
            die("files are not numbered one after the other");
        struct file *const file = &actor->files[actor->file_count++];
        file->base = calloc(1, sizeof *file->base);
        file->now = calloc(1, sizeof *file->now);
        if (file->base == NULL || file->now == NULL)
            die("out of memory");
    } else if (m->kind != MARK_TAG && m->kind != MARK_MKDIR) {
        change.file = actor->now.file[m->name];
    }
    if (m->kind != MARK_MKDIR) {
        const struct file *const file = file_of(actor, change.file);
        change.floor = file->promised + file->count;
    }
    actor->list = grown(actor->list, actor->count + 1, sizeof *actor->list);
    actor->list[actor->count++] = change;
    apply_name(&actor->now, &change);
}

void promise_range(const struct promise *promise, uint32_t actor, uint32_t *least, uint32_t *most)
{
    const struct actor *const a = promise->actors[actor];
    *least = a == NULL ? 0 : a->promised;
    *most = a == NULL ? 0 : a->count;
}

void promise_names(const struct promise *promise, uint32_t actor, uint32_t count,
                   struct promise_names *names)
{
    memset(names, 0, sizeof *names);
    memset(names->file, 0xff, sizeof names->file);
    for (uint32_t i = 0; i < count; i++)
        apply_name(names, &promise->actors[actor]->list[i]);
}

uint64_t promise_ino(const struct promise *promise, uint32_t actor, uint32_t file)
{
    return promise->actors[actor]->files[file].ino;
}

/* ---- contents -------------------------------------------------------------------------------------- */

static void apply(struct contents *contents, const struct change *change)
{
    const uint64_t end = change->offset + change->length;
    if (change->kind == MARK_TRUNCATE) {
        if (change->offset < contents->size)
            memset(contents->data + change->offset, 0, contents->size - change->offset);
        contents->size = change->offset;
    } else if (change->kind == MARK_ZERO) {
        memset(contents->data + change->offset, 0, change->length); /* zeros behind the end too */
    } else {
        memcpy(contents->data + change->offset, change->data, change->length);
        contents->size = end > contents->size ? end : contents->size;
    }
}

static void add_change(struct actor *actor, const struct mark *m)
{
    struct file *const file = file_of(actor, m->file);
    struct change change = {.kind = m->kind, .offset = m->offset, .length = m->length};
    if (m->length > POWERCUT_FILE_MAX || m->offset > POWERCUT_FILE_MAX - m->length)
        die("a mark has a bad range");
    if (m->kind == MARK_WRITE || m->kind == MARK_COPY) {
        change.kind = MARK_WRITE;
        change.data = grown(NULL, m->length, 1);
    }
    if (m->kind == MARK_WRITE)
        powercut_fill(change.data, m->length, m->content, m->seed);
    if (m->kind == MARK_COPY)
        memcpy(change.data, file_of(actor, m->to)->now->data + m->seed, m->length);
    file->list = grown(file->list, file->count + 1, sizeof *file->list);
    file->list[file->count++] = change;
    apply(file->now, &change);
}

static void promise_file(struct file *file)
{
    *file->base = *file->now;
    settle(file);
}

/* What was found of a file, and what of it is accounted for. */
struct match {
    const uint8_t *data;
    uint64_t size, least, most; /* bytes; of the file, at least and at most */
    bool bytewise;              /* the bytes of a block may be of different times */
    bool good[POWERCUT_FILE_MAX];
};

/* Notes which blocks are like those of STATE, and how long the file may be. */
static void match(struct match *m, const struct contents *state)
{
    m->least = state->size < m->least ? state->size : m->least;
    m->most = state->size > m->most ? state->size : m->most;
    for (uint64_t at = 0; at < m->size; at += POWERCUT_BLOCK) {
        const uint64_t left = m->size - at;
        const size_t length = left < POWERCUT_BLOCK ? left : POWERCUT_BLOCK;
        if (memcmp(state->data + at, m->data + at, length) == 0)
            memset(m->good + at, true, length);
        for (size_t i = at; i < at + length && m->bytewise; i++)
            m->good[i] = m->good[i] || state->data[i] == m->data[i];
    }
}

/* A block is stored as it was at one moment, but cutting it off, or a hole in it, reaches what is
 * stored before earlier writes do that wait in memory: then bytes are looked at one by one. */
static bool is_bytewise(const struct file *file)
{
    for (uint32_t i = 0; i < file->count; i++) {
        if (file->list[i].kind != MARK_WRITE)
            return true;
    }
    return false;
}

static void match_all(struct match *m, const struct file *file, uint32_t floor)
{
    struct contents *const state = grown(NULL, 1, sizeof *state);
    *state = *file->base;
    if (file->promised >= floor)
        match(m, state);
    for (uint32_t i = 0; i < file->count; i++) {
        apply(state, &file->list[i]);
        if (file->promised + i + 1 >= floor)
            match(m, state);
    }
    free(state);
}

static bool is_like(const struct contents *state, const uint8_t *data, uint64_t size)
{
    return size == state->size && memcmp(state->data, data, size) == 0;
}

bool promise_contents(const struct promise *promise, uint32_t actor, uint32_t number,
                      uint32_t floor, const uint8_t *data, uint64_t size, char *text,
                      size_t text_size)
{
    static struct match m;
    const struct file *const file = &promise->actors[actor]->files[number];
    if (is_like(file->now, data, size) ||
        (file->promised >= floor && is_like(file->base, data, size)))
        return true; /* mostly; the rest takes longer */
    m = (struct match){
        .data = data, .size = size, .least = UINT64_MAX, .bytewise = is_bytewise(file)};
    if (size > POWERCUT_FILE_MAX)
        m.size = 0;
    match_all(&m, file, floor);
    if (size < m.least || size > m.most) {
        snprintf(text, text_size, "the size is %ju, not %ju to %ju", (uintmax_t)size,
                 (uintmax_t)m.least, (uintmax_t)m.most);
        return false;
    }
    for (uint64_t i = 0; i < size; i++) {
        if (m.good[i])
            continue;
        snprintf(text, text_size,
                 "at %ju of %ju bytes it is like nothing that was written (%u changes, %u "
                 "promised)",
                 (uintmax_t)i, (uintmax_t)size, file->promised + file->count,
                 file->promised > floor ? file->promised : floor);
        return false;
    }
    return true;
}

/* ---- marks ----------------------------------------------------------------------------------------- */

static void promise_conf_set(struct promise *promise, uint64_t value)
{
    promise->conf[0] = value;
    promise->conf_count = 1;
}

static void add_conf(struct promise *promise, uint64_t value)
{
    promise->conf = grown(promise->conf, promise->conf_count + 1, sizeof *promise->conf);
    promise->conf[promise->conf_count++] = value;
}

unsigned promise_conf(const struct promise *promise, uint64_t *conf, unsigned limit)
{
    const unsigned count = promise->conf_count < limit ? promise->conf_count : limit;
    memcpy(conf, promise->conf, count * sizeof *conf);
    return count;
}

bool promise_opened(const struct promise *promise)
{
    return promise->opened;
}

bool promise_damaged(const struct promise *promise)
{
    return promise->damaged;
}

const struct promise_model *promise_model(const struct promise *promise, uint32_t number)
{
    return &promise->models[number];
}

/* A model is made once under its number. */
static void change_model(struct promise *promise, const struct mark *m)
{
    if (m->file >= POWERCUT_MODELS)
        die("a mark names a model that there is not");
    struct promise_model *const model = &promise->models[m->file];
    model->must = m->kind == MARK_MODEL_SET;
    if (m->kind == MARK_MODEL)
        *model = (struct promise_model){.mark = *m, .may = true};
}

uint32_t promise_actors(const struct promise *promise)
{
    return promise->count;
}

void promise_mark(struct promise *promise, const struct mark *m)
{
    struct actor *const actor = actor_of(promise, m->actor);
    switch (m->kind) {
    case MARK_OPENED:
        promise->opened = true;
        break;
    case MARK_MODEL:
    case MARK_MODEL_SET:
    case MARK_MODEL_DROP:
        change_model(promise, m);
        break;
    case MARK_DAMAGE:
    case MARK_REPAIRED:
        promise->damaged = m->kind == MARK_DAMAGE;
        break;
    case MARK_CONF_SET:
        promise_conf_set(promise, m->seed);
        break;
    case MARK_CONF:
        add_conf(promise, m->seed);
        break;
    case MARK_ALL:
        for (uint32_t i = 0; i < actor->file_count; i++)
            promise_file(&actor->files[i]);
        actor->promised = actor->count;
        break;
    case MARK_SYNCED:
        promise_file(file_of(actor, m->file));
        actor->promised = actor->count;
        break;
    case MARK_NAMES:
        actor->promised = actor->count;
        break;
    case MARK_INO:
        file_of(actor, m->file)->ino = m->seed;
        break;
    case MARK_WRITE:
    case MARK_TRUNCATE:
    case MARK_ZERO:
    case MARK_COPY:
        add_change(actor, m);
        break;
    default:
        add_name(actor, m);
    }
}
