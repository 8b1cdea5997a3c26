/* SPDX-License-Identifier: BSD-2-Clause
 *
 * world_names.c - see world.h: names, links and attributes, each a transaction as the mount makes it.
 */
#include "world_names.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

/* Begins a transaction that adds something. */
static int begin(struct world *w, bool adds, struct index_txn **txn)
{
    int error = adds ? index_reserve(w->index, 0) : 0;
    if (error == 0)
        error = index_begin(w->index, INDEX_WRITE, txn);
    return error;
}

void world_create(struct world *w, unsigned file)
{
    struct world_file *const f = &w->files[file];
    struct index_inode record = {
        .parent = INDEX_ROOT_INO, .mode = S_IFREG | 0644, .nlink = 1, .generation = 1};
    struct index_txn *txn;
    memset(f, 0, offsetof(struct world_file, past));
    f->past[0].size = 0;
    snprintf(f->name, sizeof f->name, "file%u", file);
    f->used = f->sure = true;
    f->may_not_be = true;
    f->count = 1;
    clock_gettime(CLOCK_REALTIME, &record.mtime);
    record.atime = record.ctime = record.btime = record.mtime;
    int error = begin(w, true, &txn);
    if (error == 0) {
        f->may_be = true;
        record.ino = f->ino = index_inode_new(txn);
        error = index_inode_put(txn, &record);
        if (error == 0)
            error = index_dirent_add(txn, INDEX_ROOT_INO, f->name, record.ino, DT_REG);
        index_end(txn);
    }
    if (world_result(w, error, "create") != 0)
        return;
    f->there = true;
    if (world_result(w, fs_inode_open(&w->fs, f->ino, &f->inode), "open") != 0)
        f->inode = NULL;
}

static int drop_link(struct world *w, struct index_txn *txn, uint64_t ino)
{
    struct index_inode attr;
    int error = fs_attr_get(&w->fs, txn, ino, &attr);
    if (error != 0)
        return error;
    attr.nlink--;
    return attr.nlink > 0 ? fs_attr_put(&w->fs, txn, &attr) : fs_inode_unlinked(&w->fs, txn, &attr);
}

static void close_file(struct world *w, struct world_file *f)
{
    if (f->inode != NULL)
        fs_inode_close(&w->fs, f->inode);
    f->inode = NULL;
}

void world_unlink(struct world *w, unsigned file, bool open)
{
    struct world_file *const f = &w->files[file];
    struct index_txn *txn;
    if (!f->there || f->inode == NULL)
        return;
    if (!open)
        close_file(w, f);
    int error = begin(w, false, &txn);
    if (error == 0) {
        f->may_not_be = true;
        error = index_dirent_remove(txn, INDEX_ROOT_INO, f->name);
        if (error == 0)
            error = drop_link(w, txn, f->ino);
        index_end(txn);
    }
    if (world_result(w, error, "unlink") == 0)
        f->there = false;
    close_file(w, f);
}

/* The contents of both files stay with their slots' names: TO's file is FROM's from now on. */
void world_rename(struct world *w, unsigned from, unsigned to)
{
    struct world_file *const f = &w->files[from], *const t = &w->files[to];
    struct index_txn *txn;
    if (!f->there || !t->there || f->inode == NULL || t->inode == NULL || f->count != 1 || !f->sure)
        return;
    const uint64_t replaced = t->ino;
    close_file(w, t);
    int error = world_result(w, fs_file_write_back(&w->fs, f->inode), "write back");
    if (error == 0)
        error = begin(w, false, &txn);
    if (error == 0) {
        error = index_dirent_replace(txn, INDEX_ROOT_INO, t->name, f->ino, DT_REG);
        if (error == 0)
            error = index_dirent_remove(txn, INDEX_ROOT_INO, f->name);
        if (error == 0)
            error = drop_link(w, txn, replaced);
        index_end(txn);
        f->may_not_be = true;
        /* Old or new: the name has either file's contents, and no mixture; world_verify asks for a
         * byte of some version, and the sizes differ. */
        world_must(t->count < WORLD_PAST, "too many versions");
        t->past[t->count++] = f->past[f->count - 1];
        t->sure = error == 0;
    }
    if (world_result(w, error, "rename") != 0) {
        t->inode = NULL;
        return;
    }
    t->ino = f->ino;
    t->inode = f->inode;
    f->inode = NULL;
    f->there = false;
}

void world_link(struct world *w, unsigned file, const char *name)
{
    struct world_file *const f = &w->files[file];
    struct index_inode attr;
    struct index_txn *txn;
    if (!f->there || f->inode == NULL)
        return;
    int error = begin(w, true, &txn);
    if (error == 0) {
        snprintf(f->other, sizeof f->other, "%s", name);
        f->other_may_be = f->other_may_not_be = true;
        error = index_dirent_add(txn, INDEX_ROOT_INO, name, f->ino, DT_REG);
        if (error == 0)
            error = fs_attr_get(&w->fs, txn, f->ino, &attr);
        if (error == 0) {
            attr.nlink++;
            error = fs_attr_put(&w->fs, txn, &attr);
        }
        index_end(txn);
    }
    if (world_result(w, error, "link") != 0)
        f->sure = false;
}

void world_attribute(struct world *w, unsigned file, unsigned size)
{
    static const uint8_t value[60000];
    struct world_file *const f = &w->files[file];
    struct index_txn *txn;
    if (!f->there)
        return;
    int error = begin(w, size > 0, &txn);
    if (error == 0) {
        if (size > 0)
            error = index_xattr_set(txn, f->ino, "user.ballast", value, size, 0);
        else
            error = index_xattr_remove(txn, f->ino, "user.ballast");
        index_end(txn);
    }
    world_result(w, error == -ENODATA && w->injected != 0 ? 0 : error, "attribute");
}

/* ---- what must be there ----------------------------------------------------------------------------- */

void world_names_acknowledged(struct world *w)
{
    for (unsigned i = 0; i < WORLD_FILES; i++) {
        struct world_file *const f = &w->files[i];
        if (f->used && f->sure) {
            f->may_be = f->there;
            f->may_not_be = !f->there;
            if (f->other[0] != '\0')
                f->other_may_not_be = false;
        }
    }
}

static bool look(struct index *index, const char *name, uint64_t *ino)
{
    struct index_txn *txn;
    struct index_dirent entry;
    world_must(index_begin(index, INDEX_READ, &txn) == 0, "no transaction");
    const int error = index_dirent_lookup(txn, INDEX_ROOT_INO, name, &entry);
    index_end(txn);
    world_must(error == 0 || error == -ENOENT, "%s: %s", name, strerror(-error));
    *ino = error == 0 ? entry.ino : 0;
    return error == 0;
}

void world_names_find(struct world *w)
{
    const struct index_options options = {.flags = INDEX_OPEN_READONLY};
    struct index *index;
    char error[256] = "";
    for (unsigned i = 0; i < WORLD_FILES; i++)
        w->files[i].there = false;
    const int result = index_open(w->store, &options, &index, error, sizeof error);
    if (result == -ENOENT) { /* not yet a store: a creation that failed */
        for (unsigned i = 0; i < WORLD_FILES; i++)
            world_must(!w->files[i].used || w->files[i].may_not_be, "the store is gone");
        return;
    }
    world_must(result == 0, "read-only: %s", error);
    for (unsigned i = 0; i < WORLD_FILES; i++) {
        struct world_file *const f = &w->files[i];
        f->there = f->used && look(index, f->name, &f->ino);
    }
    world_must(index_close(index) == 0, "a read-only index does not close");
}

void world_names_judge(struct world *w)
{
    uint64_t ino;
    for (unsigned i = 0; i < WORLD_FILES; i++) {
        struct world_file *const f = &w->files[i];
        if (!f->used)
            continue;
        const bool found = look(w->index, f->name, &ino);
        world_must(found ? f->may_be : f->may_not_be, "%s: is %s", f->name,
                   found ? "there" : "not there");
        if (f->other[0] != '\0') {
            const bool other = look(w->index, f->other, &ino);
            world_must(other ? f->other_may_be : f->other_may_not_be, "%s: is %s", f->other,
                       other ? "there" : "not there");
        }
    }
}
