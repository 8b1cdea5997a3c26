/* SPDX-License-Identifier: BSD-2-Clause
 *
 * ops_dir.c - open directories. fi->fh is the held inode, so that a directory removed while it is
 * open keeps its attributes until it is closed.
 *
 * Offsets: 1 is after ".", 2 after "..", then the cookies of the index (16 and up), which belong to
 * an entry for its whole life: changes elsewhere in the directory never make a reader miss it or
 * see it twice. Each request is one read transaction over at most BATCH_MAX bytes of answer.
 */
#include <dirent.h>
#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "inode.h"
#include "ops.h"

#define BATCH_MAX (64u << 10) /* bytes; about 1,500 names or 400 with attributes */

struct listing {
    fuse_req_t req;
    char *buffer;
    size_t size, used;
    bool plus;
};

void ops_opendir(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
    struct fs *fs = ops_of(req)->fs;
    struct fs_inode *inode;
    const int error = fs_inode_open(fs, ino, &inode);

    if (error != 0) {
        ops_reply_error(req, ops_stale(error));
        return;
    }
    fi->fh = (uintptr_t)inode;
    if (fuse_reply_open(req, fi) == -ENOENT) /* interrupted: no releasedir will come */
        fs_inode_close(fs, inode);
}

void ops_releasedir(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
    (void)ino;
    fs_inode_close(ops_of(req)->fs, (struct fs_inode *)(uintptr_t)fi->fh);
    ops_reply_error(req, 0);
}

void ops_fsyncdir(fuse_req_t req, fuse_ino_t ino, int datasync, struct fuse_file_info *fi)
{
    (void)ino;
    (void)datasync;
    (void)fi;
    ops_reply_error(req, index_commit(ops_of(req)->fs->index));
}

/* Adds an entry; false when it does not fit. entry: with attributes, or ino 0 and st_ino, st_mode
 * alone, which tells the kernel nothing but the name. */
static bool add(struct listing *listing, const char *name, const struct fuse_entry_param *entry,
                uint64_t offset)
{
    char *const at = listing->buffer + listing->used;
    const size_t room = listing->size - listing->used;
    size_t needed;

    if (listing->plus)
        needed = fuse_add_direntry_plus(listing->req, at, room, name, entry, (off_t)offset);
    else
        needed = fuse_add_direntry(listing->req, at, room, name, &entry->attr, (off_t)offset);
    if (needed > room)
        return false;
    listing->used += needed;
    return true;
}

static void bare(struct fuse_entry_param *entry, uint64_t ino, uint8_t type)
{
    *entry = (struct fuse_entry_param){.attr = {.st_ino = ino, .st_mode = (mode_t)type << 12}};
}

static int add_dots(struct listing *listing, struct index_txn *txn, uint64_t ino, uint64_t *offset)
{
    struct fuse_entry_param entry;
    struct index_inode dir;
    int error;

    if (*offset == 0) {
        bare(&entry, ino, DT_DIR);
        if (!add(listing, ".", &entry, 1))
            return 0;
        *offset = 1;
    }
    if (*offset == 1) {
        error = index_inode_get(txn, ino, &dir);
        if (error != 0)
            return error;
        bare(&entry, dir.parent, DT_DIR);
        if (!add(listing, "..", &entry, 2))
            return 0;
        *offset = 2;
    }
    return 0;
}

static int list(struct ops *ops, struct listing *listing, uint64_t ino, uint64_t offset)
{
    struct fs *fs = ops->fs;
    struct fuse_entry_param entry;
    struct index_dirent dirent;
    struct index_inode attr;
    struct index_txn *txn;
    int error = index_begin(fs->index, INDEX_READ, &txn);

    if (error != 0)
        return error;
    if (offset < 2)
        error = add_dots(listing, txn, ino, &offset);
    while (error == 0 && offset >= 2) {
        error = index_dirent_next(txn, ino, offset + 1, &dirent);
        if (error != 0)
            break;
        bare(&entry, dirent.ino, dirent.type);
        /* a name whose inode is damaged is still listed */
        if (listing->plus && fs_attr_get(fs, txn, dirent.ino, &attr) == 0)
            ops_entry(ops, &attr, &entry);
        if (!add(listing, dirent.name, &entry, dirent.cookie))
            break;
        offset = dirent.cookie;
    }
    index_end(txn);
    return error == -ENOENT || listing->used != 0 ? 0 : error;
}

static void reply_listing(fuse_req_t req, fuse_ino_t ino, size_t size, off_t offset, bool plus)
{
    struct ops *ops = ops_of(req);
    struct listing listing = {.req = req, .plus = plus};
    int error = -ENOMEM;

    listing.buffer = ops_buffer(ops);
    listing.size = size < BATCH_MAX ? size : BATCH_MAX;
    if (offset < 0)
        error = -EINVAL;
    else if (listing.buffer != NULL)
        error = list(ops, &listing, ino, (uint64_t)offset);
    if (error != 0)
        ops_reply_error(req, error);
    else
        fuse_reply_buf(req, listing.buffer, listing.used);
}

void ops_readdir(fuse_req_t req, fuse_ino_t ino, size_t size, off_t offset,
                 struct fuse_file_info *fi)
{
    (void)fi;
    reply_listing(req, ino, size, offset, false);
}

void ops_readdirplus(fuse_req_t req, fuse_ino_t ino, size_t size, off_t offset,
                     struct fuse_file_info *fi)
{
    (void)fi;
    reply_listing(req, ino, size, offset, true);
}
