/* SPDX-License-Identifier: BSD-2-Clause
 *
 * powercut_actor.c - see powercut_actor.h. Each operation does to the store what the mount does for
 * the call of that name, without FUSE, and marks it.
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

uint64_t actor_below(struct actor *a, uint64_t limit)
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

uint32_t actor_create(struct actor *a, uint32_t name)
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

void actor_unlink(struct actor *a, uint32_t name, bool early)
{
    struct actor_file *const file = &a->files[a->names[name]];
    const uint64_t ino = file->inode->ino;
    char text[16];
    early = early && file->links == 1;
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
void actor_rename(struct actor *a, uint32_t name, uint32_t to)
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

void actor_exchange(struct actor *a, uint32_t name, uint32_t to)
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

void actor_link(struct actor *a, uint32_t name, uint32_t to)
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

void actor_tag(struct actor *a, uint32_t number, uint64_t value)
{
    MUST(index_reserve(a->fs->index, 0));
    mark(a, (struct mark){.kind = MARK_TAG, .file = number, .seed = value});
    struct index_txn *const txn = begin(a);
    MUST(index_xattr_set(txn, a->files[number].inode->ino, POWERCUT_TAG, &value, sizeof value, 0));
    index_end(txn);
}

/* ---- contents -------------------------------------------------------------------------------------- */

void actor_write(struct actor *a, uint32_t number, uint64_t offset, uint64_t length,
                 uint32_t content, uint64_t seed)
{
    struct actor_file *const file = &a->files[number];
    powercut_fill(a->buffer, length, content, seed);
    mark(a, (struct mark){.kind = MARK_WRITE,
                          .file = number,
                          .content = content,
                          .offset = offset,
                          .length = length,
                          .seed = seed});
    for (uint64_t done = 0; done < length;) {
        const ssize_t put = fs_file_write(a->fs, file->inode, a->buffer + done, length - done,
                                          offset + done, false);
        MUST(put);
        done += (uint64_t)put;
    }
    file->size = offset + length > file->size ? offset + length : file->size;
}

void actor_write_back(struct actor *a, uint32_t number)
{
    MUST(fs_file_write_back(a->fs, a->files[number].inode));
}

void actor_truncate(struct actor *a, uint32_t number, uint64_t size)
{
    struct actor_file *const file = &a->files[number];
    mark(a, (struct mark){.kind = MARK_TRUNCATE, .file = number, .offset = size});
    MUST(fs_file_truncate(a->fs, file->inode, size));
    file->size = size;
}

void actor_punch(struct actor *a, uint32_t number, uint64_t offset, uint64_t length)
{
    struct actor_file *const file = &a->files[number];
    mark(a, (struct mark){.kind = MARK_ZERO, .file = number, .offset = offset, .length = length});
    MUST(fs_file_allocate(a->fs, file->inode, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, offset,
                          length));
}

void actor_copy(struct actor *a, uint32_t from, uint64_t first, uint32_t number, uint64_t to,
                uint64_t count)
{
    struct actor_file *const file = &a->files[number];
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

void actor_sync_file(struct actor *a, uint32_t number)
{
    MUST(fs_file_sync(a->fs, a->files[number].inode));
    mark(a, (struct mark){.kind = MARK_SYNCED, .file = number});
}

void actor_sync_all(struct actor *a)
{
    MUST(fs_writeback_all(a->fs));
    MUST(index_commit(a->fs->index));
    mark(a, (struct mark){.kind = MARK_ALL});
}

void actor_sync_names(struct actor *a)
{
    MUST(index_commit(a->fs->index));
    mark(a, (struct mark){.kind = MARK_NAMES});
}

/* ---- the store ------------------------------------------------------------------------------------- */

void actor_conf(struct actor *a, uint64_t value)
{
    char text[32];
    snprintf(text, sizeof text, "%ju", (uintmax_t)value);
    mark(a, (struct mark){.kind = MARK_CONF, .seed = value});
    MUST(index_conf_set(a->fs->index, POWERCUT_CONF, text));
    mark(a, (struct mark){.kind = MARK_CONF_SET, .seed = value});
}

void actor_model(struct actor *a, uint32_t number, uint64_t size, uint64_t seed)
{
    powercut_fill(a->buffer, size, POWERCUT_NOISE, seed);
    mark(a, (struct mark){.kind = MARK_MODEL,
                          .file = number,
                          .content = POWERCUT_NOISE,
                          .length = size,
                          .seed = seed});
    MUST(index_model_add(a->fs->index, POWERCUT_HASH + number, a->buffer, size));
    mark(a, (struct mark){.kind = MARK_MODEL_SET, .file = number});
}

void actor_drop_model(struct actor *a, uint32_t number)
{
    mark(a, (struct mark){.kind = MARK_MODEL_DROP, .file = number});
    MUST(index_model_remove(a->fs->index, POWERCUT_HASH + number));
}

struct index_gc_result actor_collect(struct actor *a, unsigned percent)
{
    struct index_gc_result result;
    MUST(index_gc(a->fs->index, percent, NULL, &result));
    return result;
}

void actor_compact(struct actor *a, uint64_t ino, const char *method, bool gc, bool wait)
{
    struct fs_compact_request request = {.ino = ino, .all = true, .has_method = true, .gc = gc};
    struct fs_compact_status status;
    uint64_t ticket;
    if (sep_method_parse(method, &request.method) != SEP_OK)
        give_up(method, -EINVAL);
    MUST(fs_compactor_request(a->fs, &request, &ticket));
    while (wait && fs_compactor_wait(a->fs, ticket, 10000, &status) == 0)
        continue;
}

void actor_directory(struct actor *a)
{
    char text[16];
    powercut_dir_name(a->number, text);
    mark(a, (struct mark){.kind = MARK_MKDIR});
    a->dir = make(a, INDEX_ROOT_INO, text, S_IFDIR | 0755);
}

void actor_bloat(struct actor *a, bool at_once)
{
    static const uint8_t value[60000];
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
            actor_sync_names(a);
    }
}
