/* SPDX-License-Identifier: BSD-2-Clause
 *
 * powercut_disk.c - see powercut_disk.h.
 *
 * Each object has its durable state and, in order, the operations that no sync has covered. A cut
 * takes the durable state and applies those that survive, in their order: of two writes of one
 * sector the page cache never writes the older one last.
 *
 * Random cuts are of four kinds: each object's operations up to one of them, which is torn; each
 * object's all or none of them; and each operation by itself, kept, lost or torn, mostly lost or
 * mostly kept.
 */
#include "powercut_disk.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "powercut.h"

#define SECTOR 512u
#define PAGE   4096u
#define NAME   64u

struct operation {
    uint64_t number; /* of the entry */
    const uint8_t *payload;
    struct record_entry entry;
};

struct bytes {
    uint8_t *data;
    size_t size, room;
};

struct name {
    char text[NAME];
    uint32_t object;
};

struct names {
    struct name *list;
    size_t count;
};

struct object {
    bool directory;
    unsigned lose; /* enum disk_lose: the syncs that this object's are among */
    bool lock_file;
    struct bytes bytes; /* durable */
    struct names names; /* durable */
    struct operation *list;
    size_t count, room;
};

struct disk {
    unsigned lose;
    uint64_t entries;
    struct object *objects; /* by number */
    uint32_t count;
};

enum fate { LOST, KEPT, TORN };

/* What survives a cut. */
struct cut {
    const struct disk *disk;
    enum { NOTHING, EVERYTHING, PREFIX, OBJECTS, ANY } kind;
    uint64_t random;
    unsigned keep, tear; /* of 8 operations, with ANY */
    bool noise;          /* in the place of lost data behind the end of a file, not zeros */
    bool sizes;          /* of lost writes may survive */
    struct disk_fates *fates;
};

static void die(const char *what)
{
    fprintf(stderr, "powercut: %s: %s\n", what, strerror(errno));
    abort();
}

static void *grow(void *list, size_t *room, size_t count, size_t size)
{
    if (count < *room)
        return list;
    *room = *room == 0 ? 16 : 2 * *room;
    list = reallocarray(list, *room, size);
    if (list == NULL)
        die("memory");
    return list;
}

/* ---- contents -------------------------------------------------------------------------------------- */

static void resize(struct bytes *bytes, size_t size)
{
    if (size > bytes->room) {
        bytes->room = size + size / 2;
        bytes->data = realloc(bytes->data, bytes->room);
        if (bytes->data == NULL)
            die("memory");
    }
    if (size > bytes->size)
        memset(bytes->data + bytes->size, 0, size - bytes->size);
    bytes->size = size;
}

static void put(struct bytes *bytes, uint64_t offset, const uint8_t *data, size_t size)
{
    if (offset + size > bytes->size)
        resize(bytes, offset + size);
    memcpy(bytes->data + offset, data, size);
}

static void apply_plain(struct bytes *bytes, const struct operation *operation)
{
    const struct record_entry *const entry = &operation->entry;
    if (entry->type == RECORD_WRITE) {
        put(bytes, entry->offset, operation->payload, entry->size);
    } else if (entry->type == RECORD_RESIZE) {
        resize(bytes, entry->offset);
    } else if (entry->offset < bytes->size) {
        const size_t left = bytes->size - entry->offset;
        memset(bytes->data + entry->offset, 0, entry->length < left ? entry->length : left);
    }
}

/* A write that did not arrive may have made the file longer. */
static void apply_lost_size(struct bytes *bytes, const struct operation *operation, struct cut *cut)
{
    const size_t before = bytes->size, end = operation->entry.offset + operation->entry.size;
    const size_t from = operation->entry.offset > before ? operation->entry.offset : before;
    if (end <= before)
        return;
    resize(bytes, end);
    if (cut->noise)
        powercut_fill(bytes->data + from, end - from, POWERCUT_NOISE, cut->random);
}

static void apply_torn(struct bytes *bytes, const struct operation *operation, struct cut *cut)
{
    const struct record_entry *const entry = &operation->entry;
    if (entry->type != RECORD_WRITE) {
        if (powercut_random(&cut->random) % 2 == 0)
            apply_plain(bytes, operation);
        return;
    }
    if (cut->sizes)
        apply_lost_size(bytes, operation, cut);
    for (size_t done = 0; done < entry->size;) {
        size_t step = SECTOR - (entry->offset + done) % SECTOR;
        step = step < entry->size - done ? step : entry->size - done;
        if (powercut_random(&cut->random) % 2 == 0)
            put(bytes, entry->offset + done, operation->payload + done, step);
        else
            cut->fates->sectors++;
        done += step;
    }
}

/* ---- names ----------------------------------------------------------------------------------------- */

static void name_remove(struct names *names, const char *text, uint32_t object)
{
    for (size_t i = 0; i < names->count; i++) {
        if (names->list[i].object == object && strcmp(names->list[i].text, text) == 0) {
            names->list[i] = names->list[--names->count];
            return;
        }
    }
}

static void name_set(struct names *names, const char *text, uint32_t object)
{
    size_t i = 0;
    while (i < names->count && strcmp(names->list[i].text, text) != 0)
        i++;
    if (i == names->count) {
        names->list = reallocarray(names->list, ++names->count, sizeof *names->list);
        if (names->list == NULL)
            die("memory");
    }
    snprintf(names->list[i].text, NAME, "%s", text);
    names->list[i].object = object;
}

/* The name of an operation, and the new one of a rename. */
static void name_of(const struct operation *operation, char text[NAME], char to[NAME])
{
    const struct record_entry *const entry = &operation->entry;
    char both[2 * NAME] = "";
    if (entry->size >= NAME)
        die("a name is too long");
    memcpy(both, operation->payload, entry->size);
    snprintf(text, NAME, "%.*s", (int)NAME - 1, both);
    snprintf(to, NAME, "%.*s", (int)NAME - 1, both + strlen(text) + 1);
}

static void apply_name(struct names *names, const struct operation *operation)
{
    char text[NAME], to[NAME];
    name_of(operation, text, to);
    const uint32_t object = operation->entry.object;
    if (operation->entry.type == RECORD_UNLINK) {
        name_remove(names, text, object);
    } else if (operation->entry.type == RECORD_RENAME) {
        name_remove(names, text, object);
        name_set(names, to, object);
    } else {
        name_set(names, text, object);
    }
}

/* ---- log ------------------------------------------------------------------------------------------- */

struct disk *disk_new(void)
{
    struct disk *const disk = calloc(1, sizeof *disk);
    if (disk == NULL)
        die("memory");
    disk->count = RECORD_TOP + 1;
    disk->objects = calloc(disk->count, sizeof *disk->objects);
    if (disk->objects == NULL)
        die("memory");
    disk->objects[RECORD_TOP] = (struct object){.directory = true, .lose = DISK_LOSE_DIRECTORIES};
    return disk;
}

void disk_lose(struct disk *disk, unsigned lose)
{
    disk->lose = lose;
}

void disk_free(struct disk *disk)
{
    for (uint32_t i = 0; i < disk->count; i++) {
        free(disk->objects[i].bytes.data);
        free(disk->objects[i].names.list);
        free(disk->objects[i].list);
    }
    free(disk->objects);
    free(disk);
}

static struct object *object_of(const struct disk *disk, uint32_t number)
{
    if (number == 0 || number >= disk->count)
        die("the log names an object that it did not make");
    return &disk->objects[number];
}

static void make_object(struct disk *disk, const struct operation *operation)
{
    struct object object = {.directory = operation->entry.type == RECORD_DIRECTORY};
    char text[NAME], to[NAME];
    if (operation->entry.object != disk->count)
        die("objects are not numbered one after the other");
    name_of(operation, text, to);
    object.lose = object.directory                    ? DISK_LOSE_DIRECTORIES
                  : strstr(text, ".pack") != NULL     ? DISK_LOSE_PACKS
                  : strncmp(text, "data.mdb", 8) == 0 ? DISK_LOSE_INDEX
                                                      : DISK_LOSE_OTHERS;
    object.lock_file = strcmp(text, "lock.mdb") == 0;
    disk->objects = reallocarray(disk->objects, disk->count + 1, sizeof object);
    if (disk->objects == NULL)
        die("memory");
    disk->objects[disk->count++] = object;
}

static void pend(struct object *object, const struct operation *operation)
{
    object->list = grow(object->list, &object->room, object->count, sizeof *object->list);
    object->list[object->count++] = *operation;
}

static void make_durable(struct object *object, const struct operation *operation)
{
    if (object->directory)
        apply_name(&object->names, operation);
    else
        apply_plain(&object->bytes, operation);
}

/* What was done before entry LIMIT is durable. */
static void sync_object(struct object *object, uint64_t limit)
{
    size_t done = 0;
    for (; done < object->count && object->list[done].number < limit; done++)
        make_durable(object, &object->list[done]);
    object->count -= done;
    if (done > 0)
        memmove(object->list, object->list + done, object->count * sizeof *object->list);
}

/* One write is durable, before others that may lie below it. */
static void sync_write(struct object *object, uint64_t number)
{
    for (size_t i = 0; i < object->count; i++) {
        if (object->list[i].number != number)
            continue;
        make_durable(object, &object->list[i]);
        object->count--;
        memmove(object->list + i, object->list + i + 1, (object->count - i) * sizeof *object->list);
        return;
    }
}

void disk_apply(struct disk *disk, const struct record_entry *entry, const uint8_t *payload)
{
    const struct operation operation = {disk->entries++, payload, *entry};
    switch (entry->type) {
    case RECORD_DIRECTORY:
    case RECORD_CREATE:
        make_object(disk, &operation);
        pend(object_of(disk, entry->dir), &operation);
        break;
    case RECORD_RENAME:
    case RECORD_UNLINK:
        pend(object_of(disk, entry->dir), &operation);
        break;
    case RECORD_WRITE:
    case RECORD_RESIZE:
    case RECORD_ZERO:
        pend(object_of(disk, entry->object), &operation);
        break;
    case RECORD_SYNCED:
        if ((object_of(disk, entry->object)->lose & disk->lose) == 0)
            sync_object(object_of(disk, entry->object), entry->offset);
        break;
    case RECORD_WRITTEN:
        if ((disk->lose & DISK_LOSE_META) == 0)
            sync_write(object_of(disk, entry->object), entry->offset);
        break;
    case RECORD_BASE:
        for (uint32_t i = 1; i < disk->count; i++)
            sync_object(&disk->objects[i], UINT64_MAX);
        break;
    case RECORD_SYNC:
    case RECORD_MARK:
        break;
    default:
        die("the log has an unknown entry");
    }
}

/* ---- cuts ------------------------------------------------------------------------------------------ */

static struct cut choose(const struct disk *disk, uint64_t seed, unsigned variant)
{
    struct cut cut = {.disk = disk, .random = seed + variant * UINT64_C(0x9E3779B97F4A7C15)};
    cut.random += disk->entries * UINT64_C(0xD1B54A32D192ED03);
    if (variant < DISK_RANDOM) {
        cut.kind = variant == DISK_NOTHING ? NOTHING : EVERYTHING;
        return cut;
    }
    const uint64_t dice = powercut_random(&cut.random);
    cut.kind = dice % 8 == 0 ? PREFIX : dice % 8 < 3 ? OBJECTS : ANY;
    cut.keep = (unsigned)(1 + dice / 8 % 6);
    cut.tear = (unsigned)(dice / 64 % 2);
    cut.noise = dice / 128 % 2 == 0;
    cut.sizes = dice / 256 % 2 == 0;
    return cut;
}

/* The fate of operation I of COUNT; *last: a random number for the object. */
static enum fate choose_fate(struct cut *cut, size_t i, size_t count, uint64_t last)
{
    const uint64_t dice = powercut_random(&cut->random) % 8;
    switch (cut->kind) {
    case NOTHING:
        return LOST;
    case EVERYTHING:
        return KEPT;
    case PREFIX:
        last %= count + 1;
        return i < last ? KEPT : i == last ? TORN : LOST;
    case OBJECTS:
        return last % 2 == 0 ? KEPT : LOST;
    case ANY:
    default:
        return dice < cut->tear ? TORN : dice < cut->keep + cut->tear ? KEPT : LOST;
    }
}

static enum fate fate_of(struct cut *cut, size_t i, size_t count, uint64_t last)
{
    const enum fate fate = choose_fate(cut, i, count, last);
    cut->fates->lost += fate == LOST;
    cut->fates->kept += fate == KEPT;
    cut->fates->torn += fate == TORN;
    return fate;
}

static void cut_file(struct cut *cut, const struct object *object, struct bytes *bytes)
{
    const uint64_t last = powercut_random(&cut->random);
    resize(bytes, object->bytes.size);
    if (bytes->size > 0)
        memcpy(bytes->data, object->bytes.data, bytes->size);
    for (size_t i = 0; i < object->count; i++) {
        const struct operation *const operation = &object->list[i];
        const enum fate fate = fate_of(cut, i, object->count, last);
        if (fate == KEPT)
            apply_plain(bytes, operation);
        else if (fate == TORN)
            apply_torn(bytes, operation, cut);
        else if (cut->sizes && operation->entry.type == RECORD_WRITE &&
                 powercut_random(&cut->random) % 2 == 0)
            apply_lost_size(bytes, operation, cut);
    }
}

static void cut_names(struct cut *cut, const struct object *object, struct names *names)
{
    const uint64_t last = powercut_random(&cut->random);
    for (size_t i = 0; i < object->names.count; i++)
        name_set(names, object->names.list[i].text, object->names.list[i].object);
    for (size_t i = 0; i < object->count; i++) {
        enum fate fate = fate_of(cut, i, object->count, last);
        if (fate == TORN)
            fate = powercut_random(&cut->random) % 2 == 0 ? KEPT : LOST;
        if (fate == KEPT)
            apply_name(names, &object->list[i]);
    }
}

static void write_file(int dir, const char *name, const struct bytes *bytes)
{
    static const uint8_t zeros[PAGE];
    const int fd = openat(dir, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0 || ftruncate(fd, (off_t)bytes->size) < 0)
        die(name);
    for (size_t at = 0; at < bytes->size;) {
        size_t end = at;
        while (end < bytes->size) {
            const size_t step = bytes->size - end < PAGE ? bytes->size - end : PAGE;
            if (memcmp(bytes->data + end, zeros, step) == 0)
                break;
            end += step;
        }
        if (end > at && pwrite(fd, bytes->data + at, end - at, (off_t)at) != (ssize_t)(end - at))
            die(name);
        at = end > at ? end : end + PAGE;
    }
    close(fd);
}

/* Closes DIR. */
static void write_directory(struct cut *cut, const struct object *object, int dir)
{
    struct names names = {0};
    cut_names(cut, object, &names);
    for (size_t i = 0; i < names.count; i++) {
        const char *const text = names.list[i].text;
        const struct object *const below = object_of(cut->disk, names.list[i].object);
        if (below->directory) {
            const int made = mkdirat(dir, text, 0700);
            const int fd = openat(dir, text, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
            if (made < 0 || fd < 0)
                die(text);
            write_directory(cut, below, fd);
            continue;
        }
        struct bytes bytes = {0};
        cut_file(cut, below, &bytes);
        if (below->lock_file && cut->noise) { /* it is written through a mapping, never synced */
            resize(&bytes, 2 * PAGE);
            powercut_fill(bytes.data, bytes.size, POWERCUT_NOISE, cut->random);
        }
        write_file(dir, text, &bytes);
        free(bytes.data);
    }
    free(names.list);
    close(dir);
}

void disk_cut(const struct disk *disk, uint64_t seed, unsigned variant, const char *directory,
              struct disk_fates *fates)
{
    struct cut cut = choose(disk, seed, variant);
    cut.fates = fates;
    const int dir = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (dir < 0)
        die(directory);
    write_directory(&cut, &disk->objects[RECORD_TOP], dir);
}
