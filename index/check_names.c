/* SPDX-License-Identifier: BSD-2-Clause
 *
 * check_names.c - pass 2: every name leads to an inode of its type and can be looked up; every
 * directory has one name, and its record names the directory that holds it. Fills names and up.
 *
 * Repair rebuilds an inode whose record is gone when something else proves what it was: names in it
 * (a directory), or extents (a file). Owner, mode and times are then the least that root can use.
 * A name that leads to nothing is removed.
 */
#include "check.h"

#include <dirent.h>
#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

static const char pass[] = "names";

static uint32_t type_mode(uint8_t type)
{
    return (uint32_t)DTTOIF(type);
}

/* Whether the table has a record whose key begins with INO. */
static int any_of(struct checker *c, enum index_db db, uint64_t ino, bool *any)
{
    struct index_key key;
    MDB_val found, value;
    uint64_t first, second;
    if (db == INDEX_DB_DIRENT)
        index_key_dirent(&key, ino, 0);
    else
        index_key_two(&key, ino, 0);
    const int error = index_db_seek(c->txn, db, &key, &found, &value);
    *any = error == 0 &&
           (db == INDEX_DB_DIRENT ? index_key_get_dirent(&found, &first, &second)
                                  : index_key_get_two(&found, &first, &second)) == 0 &&
           first == ino;
    return error == -ENOENT ? 0 : error;
}

/* End of the last extent: the size that a file must at least have had. */
static int size_from_extents(struct checker *c, uint64_t ino, uint64_t *size)
{
    struct index_extent extent;
    uint64_t from = 0;
    int error;
    *size = 0;
    while ((error = index_extent_next(c->txn, ino, from, &extent)) == 0) {
        const uint64_t block_size = index_block_size(c->index);
        if (extent.number <= ((uint64_t)INT64_MAX - extent.length) / block_size)
            *size = extent.number * block_size + extent.length;
        from = extent.number + 1;
    }
    return error == -ENOENT ? 0 : error;
}

static int put_rebuilt(struct checker *c, uint64_t ino, uint32_t mode, uint64_t parent)
{
    struct index_inode inode = {.ino = ino, .parent = parent, .mode = mode};
    clock_gettime(CLOCK_REALTIME, &inode.mtime);
    inode.atime = inode.ctime = inode.btime = inode.mtime;
    inode.nlink = S_ISDIR(mode) ? 2 : 1; /* pass 3 sets the right number */
    const int error = S_ISREG(mode) ? size_from_extents(c, ino, &inode.size) : 0;
    return error != 0 ? error : index_inode_put(c->txn, &inode);
}

int check_rebuild_inode(struct checker *c, uint64_t ino, uint32_t mode, uint64_t parent)
{
    const int error = c->options->repair ? put_rebuilt(c, ino, mode, parent) : 0;
    if (error != 0)
        return error;
    /* the table stays in order; rebuilding is rare enough to move the rows behind */
    struct check_inode *row =
        check_grow((void **)&c->inodes, &c->inode_count, &c->inode_room, sizeof *c->inodes);
    if (row == NULL)
        return -ENOMEM;
    for (; row > c->inodes && row[-1].ino > ino; row--)
        *row = row[-1];
    *row = (struct check_inode){.ino = ino,
                                .parent = parent,
                                .nlink = S_ISDIR(mode) ? 2 : 1,
                                .up = CHECK_NO_PARENT,
                                .type = (uint16_t)(mode & S_IFMT),
                                .rebuilt = true};
    const uint32_t at = (uint32_t)(row - c->inodes);
    for (size_t i = 0; i < c->inode_count; i++) {
        if (c->inodes[i].up != CHECK_NO_PARENT && c->inodes[i].up >= at)
            c->inodes[i].up++;
    }
    return 0;
}

/* The directory DIR that names lie in, rebuilt if need be. */
static int find_directory(struct checker *c, uint64_t dir, struct check_inode **row)
{
    *row = check_inode_find(c, dir);
    if (*row != NULL)
        return 0;
    check_problem(c, dir == INDEX_ROOT_INO ? "missing-root" : "missing-inode", CHECK_LOSSY, dir, 0,
                  0, "directory with inode %ju: names lie in it, but it has no record",
                  (uintmax_t)dir);
    const int error = check_rebuild_inode(c, dir, S_IFDIR | 0700, INDEX_ROOT_INO);
    *row = check_inode_find(c, dir);
    return error;
}

/* The inode that ENTRY leads to, rebuilt if something proves it. *row NULL: there is none; the
 * problem was reported, and the name removed if that is its repair. */
static int find_target(struct checker *c, struct check_walk *walk, uint64_t dir,
                       const struct index_dirent *entry, struct check_inode **row)
{
    const bool directory = entry->type == DT_DIR;
    bool proof = false;
    int error = 0;
    *row = check_inode_find(c, entry->ino);
    if (*row != NULL)
        return 0;
    if (directory || entry->type == DT_REG)
        error = any_of(c, directory ? INDEX_DB_DIRENT : INDEX_DB_EXTENT, entry->ino, &proof);
    if (error != 0)
        return error;
    if (!proof) {
        if (check_problem(c, "dangling-name", CHECK_LOSSY, entry->ino, 0, 0,
                          "\"%s\" in directory %ju leads to inode %ju, which does not exist",
                          entry->name, (uintmax_t)dir, (uintmax_t)entry->ino))
            error = check_delete(c, walk);
        return error;
    }
    check_problem(c, "missing-inode", CHECK_LOSSY, entry->ino, 0, 0,
                  "inode %ju of %s \"%s\" in directory %ju: no record, but %s",
                  (uintmax_t)entry->ino, directory ? "directory" : "file", entry->name,
                  (uintmax_t)dir, directory ? "names lie in it" : "it has extents");
    error = check_rebuild_inode(c, entry->ino, directory ? S_IFDIR | 0700 : S_IFREG | 0600, dir);
    *row = check_inode_find(c, entry->ino);
    return error;
}

/* The name must be found where it lies. *gone: it was removed. */
static int check_lookup(struct checker *c, struct check_walk *walk, uint64_t dir,
                        const struct index_dirent *entry, bool *gone)
{
    struct index_dirent found;
    *gone = false;
    int error = index_dirent_lookup(c->txn, dir, entry->name, &found);
    if (error == -EUCLEAN) /* a neighbour is malformed: pass 1 has said so */
        return 0;
    if (error == 0 && found.cookie == entry->cookie)
        return 0;
    if (error == 0) {
        *gone = true; /* also when it stays: the one that lookups find is the name */
        if (!check_problem(c, "duplicate-name", CHECK_LOSSY, entry->ino, 0, 0,
                           "\"%s\" is twice in directory %ju: for inode %ju and for inode %ju",
                           entry->name, (uintmax_t)dir, (uintmax_t)found.ino,
                           (uintmax_t)entry->ino))
            return 0;
        return check_delete(c, walk);
    }
    if (error != -ENOENT)
        return error;
    if (!check_problem(c, "misplaced-name", CHECK_DERIVABLE, entry->ino, 0, 0,
                       "\"%s\" in directory %ju lies at slot %ju, where no lookup finds it",
                       entry->name, (uintmax_t)dir, (uintmax_t)entry->cookie))
        return 0;
    *gone = true; /* the walk meets it again if its new place lies ahead; else it is counted now */
    error = check_delete(c, walk);
    if (error == 0)
        error = index_dirent_add(c->txn, dir, entry->name, entry->ino, entry->type);
    if (error == 0)
        error = index_dirent_lookup(c->txn, dir, entry->name, &found);
    if (error == 0)
        *gone = found.cookie > entry->cookie;
    return error;
}

static int fix_type(struct checker *c, uint64_t dir, const struct index_dirent *entry,
                    uint32_t mode)
{
    if (type_mode(entry->type) == mode)
        return 0;
    if (!check_problem(c, "dirent-type", CHECK_DERIVABLE, entry->ino, 0, 0,
                       "\"%s\" in directory %ju: type is %o in the directory, %o in inode %ju",
                       entry->name, (uintmax_t)dir, type_mode(entry->type), mode,
                       (uintmax_t)entry->ino))
        return 0;
    return index_dirent_replace(c->txn, dir, entry->name, entry->ino, (uint8_t)IFTODT(mode));
}

static int fix_parent(struct checker *c, struct check_inode *row, uint64_t dir)
{
    struct index_inode inode;
    if (row->parent == dir || (row->rebuilt && !c->options->repair))
        return 0;
    if (!row->rebuilt &&
        !check_problem(c, "directory-parent", CHECK_DERIVABLE, row->ino, 0, 0,
                       "directory with inode %ju: parent is %ju, but its name lies in %ju",
                       (uintmax_t)row->ino, (uintmax_t)row->parent, (uintmax_t)dir))
        return 0;
    const int error = index_inode_get(c->txn, row->ino, &inode);
    if (error != 0)
        return error;
    inode.parent = row->parent = dir;
    return index_inode_put(c->txn, &inode);
}

/* A name of a directory: the only one, and not the root's. */
static int check_directory(struct checker *c, uint64_t dir, const struct index_dirent *entry,
                           struct check_inode *row)
{
    if (row->ino != INDEX_ROOT_INO && row->up == CHECK_NO_PARENT && row->ino != dir) {
        struct check_inode *const up = check_inode_find(c, dir);
        row->up = (uint32_t)(up - c->inodes);
        up->names++;
        return fix_parent(c, row, dir);
    }
    const char *const why = row->ino == INDEX_ROOT_INO ? "is the root"
                            : row->ino == dir          ? "is that directory itself"
                                                       : "has another name already";
    if (!check_problem(c, "directory-link", CHECK_LOSSY, row->ino, 0, 0,
                       "\"%s\" in directory %ju: its inode %ju is a directory that %s", entry->name,
                       (uintmax_t)dir, (uintmax_t)row->ino, why))
        return 0;
    return index_dirent_remove(c->txn, dir, entry->name);
}

static int check_entry(struct checker *c, struct check_walk *walk, uint64_t dir,
                       const struct index_dirent *entry)
{
    struct check_inode *row;
    bool gone = false;
    int error = find_directory(c, dir, &row);
    if (error != 0)
        return error;
    if (row->type != S_IFDIR) {
        if (check_problem(c, "dangling-name", CHECK_LOSSY, entry->ino, 0, 0,
                          "\"%s\" lies in inode %ju, which is no directory", entry->name,
                          (uintmax_t)dir))
            return check_delete(c, walk);
        return 0;
    }
    error = find_target(c, walk, dir, entry, &row);
    if (error != 0 || row == NULL)
        return error;
    error = check_lookup(c, walk, dir, entry, &gone);
    if (error == 0 && !gone)
        error = fix_type(c, dir, entry, row->type);
    if (error == 0 && !gone && row->type == S_IFDIR)
        error = check_directory(c, dir, entry, row);
    else if (error == 0 && !gone)
        row->names++;
    return error;
}

/* Files that have extents and nothing else: their data is kept, in lost+found. */
static int check_ownerless(struct checker *c)
{
    struct index_key key;
    MDB_val found, value;
    uint64_t ino, number;
    int error;
    index_key_two(&key, 1, 0);
    while ((error = index_db_seek(c->txn, INDEX_DB_EXTENT, &key, &found, &value)) == 0) {
        error = check_step(c, pass, 0);
        if (error != 0)
            return error;
        if (index_key_get_two(&found, &ino, &number) != 0) {
            if (found.mv_size >= sizeof key.bytes) /* malformed: the next key there can be */
                return -EUCLEAN;
            key.size = found.mv_size + 1;
            memcpy(key.bytes, found.mv_data, found.mv_size);
            key.bytes[found.mv_size] = 0;
            continue;
        }
        if (ino != 0 && check_inode_find(c, ino) == NULL) {
            check_problem(c, "missing-inode", CHECK_LOSSY, ino, 0, 0,
                          "inode %ju: no record and no name, but it has extents", (uintmax_t)ino);
            error = check_rebuild_inode(c, ino, S_IFREG | 0600, INDEX_ROOT_INO);
        }
        if (error != 0 || ino == UINT64_MAX)
            return error;
        index_key_two(&key, ino + 1, 0);
    }
    return error == -ENOENT ? 0 : error;
}

int check_names(struct checker *c)
{
    const uint64_t total = index_db_entries(c->txn, INDEX_DB_DIRENT);
    struct check_walk walk = {.db = INDEX_DB_DIRENT, .shared = true};
    struct check_inode *root;
    int error = find_directory(c, INDEX_ROOT_INO, &root);
    while (error == 0 && (error = check_next(c, &walk)) == 0) {
        struct index_dirent entry;
        uint64_t dir;
        error = check_step(c, pass, total);
        if (error == 0 && index_record_get_dirent(&walk.found, &walk.value, &dir, &entry) == 0)
            error = check_entry(c, &walk, dir, &entry);
    }
    return error == -ENOENT ? check_ownerless(c) : error;
}
