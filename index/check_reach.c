/* SPDX-License-Identifier: BSD-2-Clause
 *
 * check_reach.c - pass 3: every inode hangs below the root or is marked for removal; link counts are
 * the names that exist (2 and the subdirectories for a directory); marks and attributes belong to
 * inodes.
 *
 * Repair gives what hangs nowhere a name "#INODE" in /lost+found. A ring of directories is opened at
 * its member of the lowest number, which then hangs nowhere.
 */
#include "check.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

static const char pass[] = "reachability";
static const char lost_found_name[] = "lost+found";

static int set_links(struct checker *c, struct check_inode *row, uint32_t links, bool mark)
{
    struct index_inode inode;
    int error = index_inode_get(c->txn, row->ino, &inode);
    if (error != 0)
        return error;
    /* with a name again it must not be removed as an orphan */
    if (inode.nlink == 0 && mark)
        error = index_orphan_clear(c->txn, row->ino);
    inode.nlink = row->nlink = links;
    return error != 0 ? error : index_inode_put(c->txn, &inode);
}

/* ---- lost+found ---------------------------------------------------------------------------- */

static int create_lost_found(struct checker *c)
{
    const uint64_t ino = index_inode_new(c->txn);
    const struct check_inode *const last = &c->inodes[c->inode_count - 1];
    if (ino <= last->ino) { /* the next number is damaged; pass 7 would set it right */
        c->index->next_ino = last->ino + 1;
        return create_lost_found(c);
    }
    int error = check_rebuild_inode(c, ino, S_IFDIR | 0700, INDEX_ROOT_INO);
    if (error == 0)
        error = index_dirent_add(c->txn, INDEX_ROOT_INO, lost_found_name, ino, DT_DIR);
    if (error != 0)
        return error;
    struct check_inode *const root = check_inode_find(c, INDEX_ROOT_INO);
    struct check_inode *const row = check_inode_find(c, ino);
    row->up = (uint32_t)(root - c->inodes);
    row->reaches = 2;
    root->names++;
    c->lost_found = ino;
    return set_links(c, root, root->nlink + 1, false);
}

static int find_lost_found(struct checker *c)
{
    struct index_dirent entry;
    if (c->lost_found != 0)
        return 0;
    const int error = index_dirent_lookup(c->txn, INDEX_ROOT_INO, lost_found_name, &entry);
    if (error == -ENOENT)
        return create_lost_found(c);
    if (error == 0)
        c->lost_found = entry.type == DT_DIR ? entry.ino : INDEX_ROOT_INO;
    return error;
}

int check_lost_found(struct checker *c, struct check_inode *inode)
{
    const size_t at = (size_t)(inode - c->inodes);
    char name[64];
    int error = find_lost_found(c); /* a new directory is the last row: none moves */
    if (error != 0)
        return error;
    inode = &c->inodes[at];
    for (unsigned i = 0;; i++) {
        if (i == 0)
            snprintf(name, sizeof name, "#%" PRIu64, inode->ino);
        else
            snprintf(name, sizeof name, "#%" PRIu64 ".%u", inode->ino, i);
        error = index_dirent_add(c->txn, c->lost_found, name, inode->ino,
                                 (uint8_t)IFTODT((uint32_t)inode->type));
        if (error != -EEXIST)
            break;
    }
    struct index_inode record;
    if (error == 0)
        error = index_inode_get(c->txn, inode->ino, &record);
    if (error != 0)
        return error;
    record.parent = inode->parent = c->lost_found;
    error = index_inode_put(c->txn, &record);
    if (inode->type == S_IFDIR) {
        struct check_inode *const up = check_inode_find(c, c->lost_found);
        inode->up = (uint32_t)(up - c->inodes);
        up->names++;
        if (error == 0)
            error = set_links(c, up, up->nlink + 1, false);
    } else {
        inode->names++;
    }
    return error;
}

/* ---- rings --------------------------------------------------------------------------------- */

/* Removes the name of a directory in the one above it. */
static int cut(struct checker *c, struct check_inode *row)
{
    struct check_inode *const up = &c->inodes[row->up];
    struct index_dirent entry;
    int error;
    for (uint64_t from = 0; (error = index_dirent_next(c->txn, up->ino, from, &entry)) == 0;
         from = entry.cookie + 1) {
        if (entry.ino == row->ino)
            break;
    }
    if (error == 0)
        error = index_dirent_remove(c->txn, up->ino, entry.name);
    up->names -= up->names > 0;
    row->up = CHECK_NO_PARENT;
    return error;
}

/* Follows a directory's way up. Each is looked at once: time is that of their number. */
static int follow(struct checker *c, uint32_t at)
{
    uint32_t i = at, ring = CHECK_NO_PARENT;
    while (c->inodes[i].reaches == 0 && c->inodes[i].up != CHECK_NO_PARENT) {
        c->inodes[i].reaches = 1;
        i = c->inodes[i].up;
    }
    if (c->inodes[i].reaches == 1) { /* came back to the way */
        ring = i;
        for (uint32_t j = c->inodes[i].up; j != i; j = c->inodes[j].up)
            ring = c->inodes[j].ino < c->inodes[ring].ino ? j : ring;
    }
    for (i = at; c->inodes[i].reaches == 1; i = c->inodes[i].up)
        c->inodes[i].reaches = 2;
    if (ring == CHECK_NO_PARENT)
        return 0;
    if (!check_problem(c, "directory-cycle", CHECK_LOSSY, c->inodes[ring].ino, 0, 0,
                       "directory with inode %ju lies below itself",
                       (uintmax_t)c->inodes[ring].ino))
        return 0;
    return cut(c, &c->inodes[ring]);
}

/* ---- links --------------------------------------------------------------------------------- */

static int marked(struct checker *c, uint64_t ino, bool *mark)
{
    struct index_key key;
    MDB_val value;
    index_key_one(&key, ino);
    const int error = index_db_get(c->txn, INDEX_DB_ORPHAN, &key, &value);
    *mark = error == 0;
    return error == -ENOENT ? 0 : error;
}

/* An inode without a name: an orphan with its mark, or lost. */
static int check_nameless(struct checker *c, struct check_inode *row, bool mark)
{
    if (row->nlink == 0 && mark)
        return 0;
    if (row->nlink == 0) {
        if (!check_problem(c, "unmarked-orphan", CHECK_DERIVABLE, row->ino, 0, 0,
                           "inode %ju has no links and no mark to remove it", (uintmax_t)row->ino))
            return 0;
        return index_orphan_set(c->txn, row->ino, 0);
    }
    if (row->rebuilt && !c->options->repair)
        return 0; /* reported by pass 2 */
    if (!row->rebuilt &&
        !check_problem(c, "unreachable-inode", CHECK_LOSSY, row->ino, 0, 0,
                       "inode %ju has %u links but no name", (uintmax_t)row->ino, row->nlink))
        return 0;
    return check_lost_found(c, row);
}

static int check_links(struct checker *c, struct check_inode *row, bool mark)
{
    const bool directory = row->type == S_IFDIR;
    const uint32_t links = directory ? row->names + 2 : row->names;
    if (row->nlink == links)
        return 0;
    if (directory ? row->ino != INDEX_ROOT_INO && row->up == CHECK_NO_PARENT : links == 0)
        return 0; /* nameless, and left so */
    if (row->rebuilt && !c->options->repair)
        return 0;
    if (!row->rebuilt && !check_problem(c, "link-count", CHECK_DERIVABLE, row->ino, 0, 0,
                                        "inode %ju: link count is %u, should be %u",
                                        (uintmax_t)row->ino, row->nlink, links))
        return 0;
    return set_links(c, row, links, mark);
}

/* ---- what belongs to inodes ---------------------------------------------------------------- */

static int check_orphans(struct checker *c)
{
    struct check_walk walk = {.db = INDEX_DB_ORPHAN};
    int error;
    while ((error = check_next(c, &walk)) == 0) {
        uint64_t ino;
        if (index_key_get_one(&walk.found, &ino) != 0 || check_inode_find(c, ino) != NULL)
            continue;
        if (check_problem(c, "dangling-orphan", CHECK_DERIVABLE, ino, 0, 0,
                          "mark to remove inode %ju, which does not exist", (uintmax_t)ino))
            error = check_delete(c, &walk);
        if (error != 0)
            return error;
    }
    return error == -ENOENT ? 0 : error;
}

static int check_xattrs(struct checker *c)
{
    struct check_walk walk = {.db = INDEX_DB_XATTR};
    char name[INDEX_NAME_MAX + 1];
    int error;
    while ((error = check_next(c, &walk)) == 0) {
        uint64_t ino;
        error = check_step(c, pass, 0);
        if (error != 0)
            return error;
        if (index_key_get_xattr(&walk.found, &ino, name) != 0 || check_inode_find(c, ino) != NULL)
            continue;
        if (check_problem(c, "dangling-xattr", CHECK_DERIVABLE, ino, 0, 0,
                          "attribute %s of inode %ju, which does not exist", name, (uintmax_t)ino))
            error = check_delete(c, &walk);
        if (error != 0)
            return error;
    }
    return error == -ENOENT ? 0 : error;
}

int check_reach(struct checker *c)
{
    struct check_inode *const root = check_inode_find(c, INDEX_ROOT_INO);
    int error = 0;
    root->reaches = 2;
    for (size_t i = 0; i < c->inode_count && error == 0; i++) {
        error = check_step(c, pass, c->inode_count);
        if (error == 0 && c->inodes[i].type == S_IFDIR)
            error = follow(c, (uint32_t)i);
    }
    /* lost+found may be added behind the last row: its links are counted with the others */
    for (size_t i = 0; i < c->inode_count && error == 0; i++) {
        struct check_inode *row = &c->inodes[i];
        const bool nameless = row->type == S_IFDIR
                                  ? row->up == CHECK_NO_PARENT && row->ino != INDEX_ROOT_INO
                                  : row->names == 0;
        bool mark;
        if (!nameless)
            continue;
        error = marked(c, row->ino, &mark);
        if (error == 0)
            error = check_nameless(c, row, mark);
    }
    for (size_t i = 0; i < c->inode_count && error == 0; i++) {
        bool mark = false;
        if (c->inodes[i].nlink == 0)
            error = marked(c, c->inodes[i].ino, &mark);
        if (error == 0)
            error = check_links(c, &c->inodes[i], mark);
    }
    if (error == 0)
        error = check_orphans(c);
    return error != 0 ? error : check_xattrs(c);
}
