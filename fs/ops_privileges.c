/* SPDX-License-Identifier: BSD-2-Clause
 *
 * ops_privileges.c - set-id bits and file capabilities, which a write, a truncation or a change of
 * owner takes away.
 *
 * By default the kernel does this itself, and to know whether there is something to do it asks for
 * security.capability before every write: a second request for each, as costly as the write itself
 * when writes are small (4 KiB: 84 us, where passthrough_ll, which refuses attributes, took 54; with
 * what follows 37 to its 27). With FUSE_HANDLE_KILLPRIV_V2 the duty is ours and the kernel asks once
 * for each file. libfuse before 3.17 cannot agree to that, so the one bit is set in its answer to
 * FUSE_INIT, on the way out; on libfuse's own read and writev nothing else is changed.
 *
 * Which inodes have nothing to lose is remembered in a table, so that a write costs one comparison.
 */
#include <errno.h>
#include <linux/fuse.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include "inode.h"
#include "ops.h"

#define SET_ID (S_ISUID | S_ISGID)

/* ---- the agreement --------------------------------------------------------------------------- */

static ssize_t read_request(int fd, void *buffer, size_t size, void *userdata)
{
    struct ops *ops = userdata;
    const ssize_t count = read(fd, buffer, size);
    struct fuse_in_header header;
    struct fuse_init_in init;

    /* Requests come before the answer to FUSE_INIT only from the one thread that then exists. */
    if (ops->init_state == OPS_INIT_BEFORE &&
        count >= (ssize_t)(sizeof header + offsetof(struct fuse_init_in, flags2))) {
        memcpy(&header, buffer, sizeof header);
        if (header.opcode == FUSE_INIT) {
            memcpy(&init, (const char *)buffer + sizeof header,
                   offsetof(struct fuse_init_in, flags2));
            ops->init_unique = header.unique;
            ops->init_state =
                (init.flags & FUSE_HANDLE_KILLPRIV_V2) != 0 ? OPS_INIT_OFFERED : OPS_INIT_DONE;
        }
    }
    return count;
}

static ssize_t write_answer(int fd, struct iovec *parts, int count, void *userdata)
{
    struct ops *ops = userdata;
    struct fuse_out_header header;
    struct fuse_init_out init;
    const size_t used = offsetof(struct fuse_init_out, flags) + sizeof init.flags;

    if (ops->init_state == OPS_INIT_OFFERED && count == 2 && parts[0].iov_len == sizeof header &&
        parts[1].iov_len >= used) {
        memcpy(&header, parts[0].iov_base, sizeof header);
        if (header.unique == ops->init_unique && header.error == 0) {
            memcpy(&init, parts[1].iov_base, used);
            init.flags |= FUSE_HANDLE_KILLPRIV_V2;
            memcpy(parts[1].iov_base, &init, used);
            ops->kill_privileges = true;
            ops->init_state = OPS_INIT_DONE;
        }
    }
    return writev(fd, parts, count);
}

int ops_offer_kill_privileges(struct fuse_session *session)
{
    static const struct fuse_custom_io io = {.read = read_request, .writev = write_answer};

    return fuse_session_custom_io(session, &io, fuse_session_fd(session));
}

/* ---- what is known --------------------------------------------------------------------------- */

static _Atomic uint64_t *slot_of(struct ops *ops, uint64_t ino)
{
    return &ops->unprivileged[ino % OPS_UNPRIVILEGED];
}

void ops_note_unprivileged(struct ops *ops, uint64_t ino, uint32_t mode)
{
    if ((mode & SET_ID) == 0)
        atomic_store_explicit(slot_of(ops, ino), ino, memory_order_release);
}

void ops_forget_unprivileged(struct ops *ops, uint64_t ino)
{
    uint64_t known = ino;

    atomic_compare_exchange_strong(slot_of(ops, ino), &known, 0);
}

bool ops_known_unprivileged(struct ops *ops, uint64_t ino)
{
    return atomic_load_explicit(slot_of(ops, ino), memory_order_acquire) == ino;
}

/* ---- the duty -------------------------------------------------------------------------------- */

int ops_strip(struct index_txn *txn, uint64_t ino, uint32_t *mode)
{
    const int error = index_xattr_remove(txn, ino, OPS_CAPABILITY);

    *mode &= ~(uint32_t)S_ISUID;
    if (*mode & S_IXGRP) /* without it the bit once meant mandatory locking */
        *mode &= ~(uint32_t)S_ISGID;
    return error == -ENODATA ? 0 : error;
}

static int strip_in(struct ops *ops, struct index_txn *txn, uint64_t ino, bool trusted)
{
    const void *value;
    size_t size;
    struct index_inode attr;
    uint32_t mode;
    int error = fs_attr_get(ops->fs, txn, ino, &attr);

    if (error != 0)
        return error;
    mode = attr.mode;
    error = index_xattr_get(txn, ino, OPS_CAPABILITY, &value, &size);
    if (error != 0 && error != -ENODATA)
        return error;
    if (error == 0 || (!trusted && (mode & SET_ID) != 0)) {
        uint32_t stripped = mode;

        error = ops_strip(txn, ino, &stripped);
        if (error == 0)
            error = fs_attr_get(ops->fs, txn, ino, &attr);
        if (error != 0)
            return error;
        if (!trusted)
            mode = stripped;
        attr.mode = mode;
        attr.ctime = ops_now();
        error = fs_attr_put(ops->fs, txn, &attr);
        if (error != 0)
            return error;
    }
    ops_note_unprivileged(ops, ino, mode);
    return 0;
}

int ops_drop_privileges(struct ops *ops, fuse_req_t req, uint64_t ino)
{
    struct index_txn *txn;
    int error;

    if (ops_known_unprivileged(ops, ino))
        return 0;
    error = index_begin(ops->fs->index, INDEX_WRITE, &txn);
    if (error != 0)
        return error;
    /* CAP_FSETID keeps the bits; that root has it is all a request says */
    error = strip_in(ops, txn, ino, fuse_req_ctx(req)->uid == 0);
    index_end(txn);
    return error;
}
