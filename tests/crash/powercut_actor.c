/* SPDX-License-Identifier: BSD-2-Clause
 *
 * powercut_actor.c - see powercut_actor.h. A step is one operation on a name or a file, a promise
 * asked for, a habit of programs (to write a new file and rename it over the old one, to make many
 * at once), a collection of garbage or a request to the compactor.
 */
#include "powercut_actor.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/falloc.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "fs/compactor.h"
#include "fs/writeback.h"
#include "record.h"

#define BALLAST 8u /* attributes */

void give_up(const char *what, long error)
{
    fprintf(stderr, "workload: %s: %s\n", what, strerror((int)-error));
    _exit(1);
}

static uint64_t below(struct actor *a, uint64_t limit)
{
    return powercut_random(&a->random) % limit;
}

static void mark(const struct actor *a, struct mark m)
{
    m.actor = a->number;
    record_mark(&m, sizeof m);
}

static struct index_txn *begin(struct actor *a)
{
    struct index_txn *txn = NULL;
    MUST(index_begin(a->fs->index, INDEX_WRITE, &txn));
    return txn;
}

void actor_init(struct actor *a, struct fs *fs, uint32_t number, bool first, uint64_t random)
{
    memset(a, 0, sizeof *a);
    a->fs = fs;
    a->number = number;
    a->first = first;
    a->random = random;
    for (unsigned i = 0; i < POWERCUT_NAMES; i++)
        a->names[i] = POWERCUT_NO_FILE;
}

void actor_close(struct actor *a)
{
    for (uint32_t i = 0; i < a->file_count; i++) {
        if (a->files[i].inode != NULL)
            fs_inode_close(a->fs, a->files[i].inode);
    }
}

/* ---- names ----------------------------------------------------------------------------------------- */

static uint64_t make(struct actor *a, uint64_t parent, const char *name, uint32_t mode)
{
    struct index_inode record = {.parent = parent, .mode = mode, .generation = 1};
    clock_gettime(CLOCK_REALTIME, &record.mtime);
    record.nlink = S_ISDIR(mode) ? 2 : 1;
    record.atime = record.ctime = record.btime = record.mtime;
    MUST(index_reserve(a->fs->index, 0));
    struct index_txn *const txn = begin(a);
    record.ino = index_inode_new(txn);
    MUST(index_inode_put(txn, &record));
    MUST(index_dirent_add(txn, parent, name, record.ino, S_ISDIR(mode) ? DT_DIR : DT_REG));
    if (S_ISDIR(mode)) {
        struct index_inode up;
        MUST(index_inode_get(txn, parent, &up));
        up.nlink++;
        MUST(index_inode_put(txn, &up));
    }
    index_end(txn);
    return record.ino;
}

/* Some name that is taken, or free; POWERCUT_NAMES if there is none. */
static uint32_t some_name(struct actor *a, bool taken)
{
    const uint32_t first = (uint32_t)below(a, POWERCUT_NAMES);
    for (uint32_t i = 0; i < POWERCUT_NAMES; i++) {
        const uint32_t name = (first + i) % POWERCUT_NAMES;
        if ((a->names[name] != POWERCUT_NO_FILE) == taken)
            return name;
    }
    return POWERCUT_NAMES;
}

static uint32_t create(struct actor *a, uint32_t name)
{
    struct fs *const fs = a->fs;
    const uint32_t number = a->file_count++;
    struct actor_file *const file = &a->files[number];
    char text[16];
    powercut_file_name(name, text);
    mark(a, (struct mark){.kind = MARK_CREATE, .file = number, .name = name});
    const uint64_t ino = make(a, a->dir, text, S_IFREG | 0644);
    mark(a, (struct mark){.kind = MARK_INO, .file = number, .seed = ino});
    MUST(fs_inode_open(fs, ino, &file->inode));
    file->links = 1;
    a->names[name] = number;
    return number;
}

/* In a transaction: the file loses a name. */
static void drop_link(struct actor *a, struct index_txn *txn, struct actor_file *file)
{
    struct fs *const fs = a->fs;
    struct index_inode attr;
    MUST(fs_attr_get(fs, txn, file->inode->ino, &attr));
    attr.nlink--;
    file->links--;
    if (attr.nlink > 0)
        MUST(fs_attr_put(fs, txn, &attr));
    else
        MUST(fs_inode_unlinked(fs, txn, &attr));
}

/* Behind the transaction: closes the file if it has no name. It could also be closed before: then
 * the last name takes the inode along at once. */
static void close_gone(struct actor *a, struct actor_file *file)
{
    if (file->links == 0)
        fs_inode_close(a->fs, file->inode);
    if (file->links == 0)
        file->inode = NULL;
}

static void unlink_name(struct actor *a, uint32_t name)
{
    struct actor_file *const file = &a->files[a->names[name]];
    const bool early = file->links == 1 && below(a, 2) == 0;
    const uint64_t ino = file->inode->ino;
    char text[16];
    powercut_file_name(name, text);
    mark(a, (struct mark){.kind = MARK_UNLINK, .name = name});
    if (early)
        fs_inode_close(a->fs, file->inode);
    struct index_txn *const txn = begin(a);
    MUST(index_dirent_remove(txn, a->dir, text));
    if (early) {
        struct index_inode attr;
        MUST(fs_attr_get(a->fs, txn, ino, &attr));
        attr.nlink = 0;
        MUST(fs_inode_unlinked(a->fs, txn, &attr));
        file->links = 0;
    } else {
        drop_link(a, txn, file);
    }
    index_end(txn);
    if (early)
        file->inode = NULL;
    else
        close_gone(a, file);
    a->names[name] = POWERCUT_NO_FILE;
}

/* As the rename of the mount does it: what is to replace a file is written before. */
static void rename_name(struct actor *a, uint32_t name, uint32_t to)
{
    struct fs *const fs = a->fs;
    const uint32_t moved = a->names[name], replaced = a->names[to];
    char text[16], new_text[16];
    if (name == to || moved == replaced)
        return;
    powercut_file_name(name, text);
    powercut_file_name(to, new_text);
    const uint64_t ino = a->files[moved].inode->ino;
    if (replaced != POWERCUT_NO_FILE)
        MUST(fs_file_write_back(fs, a->files[moved].inode));
    else
        MUST(index_reserve(fs->index, 0));
    mark(a, (struct mark){.kind = MARK_RENAME, .name = name, .to = to});
    struct index_txn *const txn = begin(a);
    if (replaced != POWERCUT_NO_FILE)
        MUST(index_dirent_replace(txn, a->dir, new_text, ino, DT_REG));
    else
        MUST(index_dirent_add(txn, a->dir, new_text, ino, DT_REG));
    MUST(index_dirent_remove(txn, a->dir, text));
    if (replaced != POWERCUT_NO_FILE)
        drop_link(a, txn, &a->files[replaced]);
    index_end(txn);
    if (replaced != POWERCUT_NO_FILE)
        close_gone(a, &a->files[replaced]);
    a->names[to] = moved;
    a->names[name] = POWERCUT_NO_FILE;
}

static void exchange(struct actor *a, uint32_t name, uint32_t to)
{
    const uint32_t one = a->names[name], two = a->names[to];
    char text[16], new_text[16];
    powercut_file_name(name, text);
    powercut_file_name(to, new_text);
    mark(a, (struct mark){.kind = MARK_EXCHANGE, .name = name, .to = to});
    struct index_txn *const txn = begin(a);
    MUST(index_dirent_replace(txn, a->dir, text, a->files[two].inode->ino, DT_REG));
    MUST(index_dirent_replace(txn, a->dir, new_text, a->files[one].inode->ino, DT_REG));
    index_end(txn);
    a->names[name] = two;
    a->names[to] = one;
}

static void link_name(struct actor *a, uint32_t name, uint32_t to)
{
    struct fs *const fs = a->fs;
    struct actor_file *const file = &a->files[a->names[name]];
    struct index_inode attr;
    char text[16];
    powercut_file_name(to, text);
    MUST(index_reserve(fs->index, 0));
    mark(a, (struct mark){.kind = MARK_LINK, .name = name, .to = to});
    struct index_txn *const txn = begin(a);
    MUST(index_dirent_add(txn, a->dir, text, file->inode->ino, DT_REG));
    MUST(fs_attr_get(fs, txn, file->inode->ino, &attr));
    attr.nlink++;
    MUST(fs_attr_put(fs, txn, &attr));
    index_end(txn);
    file->links++;
    a->names[to] = a->names[name];
}

static void tag(struct actor *a, uint32_t number)
{
    const uint64_t value = below(a, 1000) + 1;
    MUST(index_reserve(a->fs->index, 0));
    mark(a, (struct mark){.kind = MARK_TAG, .file = number, .seed = value});
    struct index_txn *const txn = begin(a);
    MUST(index_xattr_set(txn, a->files[number].inode->ino, POWERCUT_TAG, &value, sizeof value, 0));
    index_end(txn);
}

/* ---- contents -------------------------------------------------------------------------------------- */

/* Whole blocks, ends of files, and anything. */
static uint64_t some_offset(struct actor *a, const struct actor_file *file)
{
    switch (below(a, 4)) {
    case 0:
        return file->size;
    case 1:
        return below(a, 300);
    case 2:
        return below(a, POWERCUT_FILE_MAX);
    default:
        return below(a, POWERCUT_FILE_MAX / POWERCUT_BLOCK) * POWERCUT_BLOCK;
    }
}

static uint64_t some_length(struct actor *a, uint64_t offset)
{
    static const uint64_t most[] = {200, 4000, POWERCUT_BLOCK, 4 * POWERCUT_BLOCK};
    uint64_t length = 1 + below(a, most[below(a, 4)]);
    if (below(a, 3) == 0)
        length = (length + POWERCUT_BLOCK - 1) / POWERCUT_BLOCK * POWERCUT_BLOCK;
    return length < POWERCUT_FILE_MAX - offset ? length : POWERCUT_FILE_MAX - offset;
}

static void write_some(struct actor *a, uint32_t number, uint64_t offset, uint64_t length)
{
    static const uint32_t kinds[] = {POWERCUT_TEXT, POWERCUT_TEXT, POWERCUT_TEXT, POWERCUT_NOISE,
                                     POWERCUT_ZEROS};
    struct actor_file *const file = &a->files[number];
    const struct mark m = {.kind = MARK_WRITE,
                           .file = number,
                           .content = kinds[below(a, 5)],
                           .offset = offset,
                           .length = length,
                           /* often the same: identical blocks are stored once */
                           .seed = below(a, 3) == 0 ? below(a, 4) : powercut_random(&a->random)};
    powercut_fill(a->buffer, length, m.content, m.seed);
    mark(a, m);
    for (uint64_t done = 0; done < length;) {
        const ssize_t put = fs_file_write(a->fs, file->inode, a->buffer + done, length - done,
                                          offset + done, false);
        MUST(put);
        done += (uint64_t)put;
    }
    file->size = offset + length > file->size ? offset + length : file->size;
}

static void truncate_some(struct actor *a, uint32_t number)
{
    struct actor_file *const file = &a->files[number];
    const uint64_t size = below(a, 3) == 0 ? 0 : some_offset(a, file);
    mark(a, (struct mark){.kind = MARK_TRUNCATE, .file = number, .offset = size});
    MUST(fs_file_truncate(a->fs, file->inode, size));
    file->size = size;
}

static void punch_some(struct actor *a, uint32_t number)
{
    struct actor_file *const file = &a->files[number];
    const uint64_t offset = some_offset(a, file) % POWERCUT_FILE_MAX;
    const uint64_t length = some_length(a, offset);
    mark(a, (struct mark){.kind = MARK_ZERO, .file = number, .offset = offset, .length = length});
    MUST(fs_file_allocate(a->fs, file->inode, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, offset,
                          length));
}

/* Whole blocks between two files: they are shared. */
static void copy_some(struct actor *a, uint32_t from, uint32_t number)
{
    struct actor_file *const file = &a->files[number];
    const uint64_t blocks = a->files[from].size / POWERCUT_BLOCK;
    if (from == number || blocks == 0)
        return;
    const uint64_t first = below(a, blocks), count = 1 + below(a, blocks - first);
    const uint64_t to = below(a, POWERCUT_FILE_MAX / POWERCUT_BLOCK - count + 1);
    const struct mark m = {.kind = MARK_COPY,
                           .file = number,
                           .to = from,
                           .offset = to * POWERCUT_BLOCK,
                           .length = count * POWERCUT_BLOCK,
                           .seed = first * POWERCUT_BLOCK};
    mark(a, m);
    for (uint64_t done = 0; done < m.length;) {
        const ssize_t put = fs_file_copy(a->fs, a->files[from].inode, m.seed + done, file->inode,
                                         m.offset + done, m.length - done);
        if (put == 0)
            give_up("copy", -EIO);
        MUST(put);
        done += (uint64_t)put;
    }
    file->size = m.offset + m.length > file->size ? m.offset + m.length : file->size;
}

/* ---- promises -------------------------------------------------------------------------------------- */

static void sync_file(struct actor *a, uint32_t number)
{
    MUST(fs_file_sync(a->fs, a->files[number].inode));
    mark(a, (struct mark){.kind = MARK_SYNCED, .file = number});
}

static void sync_all(struct actor *a)
{
    MUST(fs_writeback_all(a->fs));
    MUST(index_commit(a->fs->index));
    mark(a, (struct mark){.kind = MARK_ALL});
}

static void sync_names(struct actor *a)
{
    MUST(index_commit(a->fs->index));
    mark(a, (struct mark){.kind = MARK_NAMES});
}

/* What editors do: a new file, synced, takes the place of the old one. */
static void replace(struct actor *a)
{
    const uint32_t name = some_name(a, false);
    if (name == POWERCUT_NAMES || a->file_count == POWERCUT_FILES)
        return;
    const uint32_t number = create(a, name);
    write_some(a, number, 0, some_length(a, 0));
    if (below(a, 2) == 0)
        sync_file(a, number);
    rename_name(a, name, (uint32_t)below(a, POWERCUT_NAMES));
    if (below(a, 2) == 0)
        sync_names(a);
}

/* Many small files with the same fate, at once: what a checkout does. */
static void burst(struct actor *a)
{
    for (unsigned i = 0; i < 4; i++) {
        const uint32_t name = some_name(a, false);
        if (name == POWERCUT_NAMES || a->file_count == POWERCUT_FILES)
            break;
        const uint32_t number = create(a, name);
        write_some(a, number, 0, 1 + below(a, 5000));
    }
    if (below(a, 2) == 0)
        sync_all(a);
}

static void set_conf(struct actor *a)
{
    struct mark m = {.kind = MARK_CONF, .seed = powercut_random(&a->random) % 1000000};
    char text[32];
    if (!a->first)
        return;
    snprintf(text, sizeof text, "%ju", (uintmax_t)m.seed);
    mark(a, m);
    MUST(index_conf_set(a->fs->index, POWERCUT_CONF, text));
    m.kind = MARK_CONF_SET;
    mark(a, m);
}

static void collect(struct actor *a)
{
    struct index_gc_result result;
    if (!a->first)
        return;
    MUST(index_gc(a->fs->index, 50 + (unsigned)below(a, 50), NULL, &result));
}

static void compact(struct actor *a)
{
    static const char *const methods[] = {"sep:1", "zstd:9", "zstd:1", "lz4", "lz4:9", "zstd:5"};
    /* Most of them decode fast: what is coded is read again thousands of times. */
    struct fs_compact_request request = {.all = true, .has_method = true, .gc = below(a, 2) == 0};
    struct fs_compact_status status;
    uint64_t ticket;
    if (a->first)
        return;
    sep_method_parse(methods[below(a, 6)], &request.method);
    MUST(fs_compactor_request(a->fs, &request, &ticket));
    if (below(a, 2) == 0)
        MUST(fs_compactor_wait(a->fs, ticket, 10000, &status));
}

/* ---- steps ------------------------------------------------------------------------------------------ */

static void step_file(struct actor *a, uint64_t dice, uint32_t name)
{
    const uint32_t number = a->names[name], to = (uint32_t)below(a, POWERCUT_NAMES);
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
        unlink_name(a, name);
    } else if (dice < 54) {
        rename_name(a, name, to);
    } else if (dice < 56) {
        if (a->names[to] == POWERCUT_NO_FILE)
            link_name(a, name, to);
    } else if (dice < 58) {
        if (a->names[to] != POWERCUT_NO_FILE && a->names[to] != number)
            exchange(a, name, to);
    } else if (dice < 61) {
        tag(a, number);
    } else if (dice < 73) {
        sync_file(a, number);
    } else {
        MUST(fs_file_write_back(a->fs, file->inode));
    }
}

static void step(struct actor *a)
{
    const uint64_t dice = below(a, 100);
    const uint32_t name = some_name(a, true), free_name = some_name(a, false);
    if (dice < 76 && name != POWERCUT_NAMES)
        step_file(a, dice, name);
    else if (dice < 84 && free_name != POWERCUT_NAMES && a->file_count < POWERCUT_FILES)
        create(a, free_name);
    else if (dice < 91)
        replace(a);
    else if (dice < 93)
        burst(a);
    else if (dice < 95)
        sync_all(a);
    else if (dice < 96)
        sync_names(a);
    else if (dice < 97)
        set_conf(a);
    else if (dice < 98)
        collect(a);
    else
        compact(a);
}

void actor_run(struct actor *a, unsigned steps)
{
    char text[16];
    powercut_dir_name(a->number, text);
    mark(a, (struct mark){.kind = MARK_MKDIR});
    a->dir = make(a, INDEX_ROOT_INO, text, S_IFDIR | 0755);
    for (unsigned i = 0; i < steps; i++) {
        if (i == steps / 3)
            set_conf(a); /* rare among the steps, and of interest in each session */
        step(a);
    }
}

/* Makes the index large for a while, so that closing the store rewrites it. */
void actor_bloat(struct actor *a)
{
    static const uint8_t value[60000];
    const bool at_once = below(a, 2) == 0; /* pages that are free again are never written */
    char name[32];
    for (unsigned i = 0; i < 2 * BALLAST; i++) {
        struct index_txn *const txn = begin(a);
        snprintf(name, sizeof name, "user.ballast%u", i % BALLAST);
        if (i < BALLAST)
            MUST(index_xattr_set(txn, a->dir, name, value, sizeof value, 0));
        else
            MUST(index_xattr_remove(txn, a->dir, name));
        index_end(txn);
        if (i == 2 * BALLAST - 1 || (i == BALLAST - 1 && !at_once))
            sync_names(a);
    }
}
