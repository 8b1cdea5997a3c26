/* SPDX-License-Identifier: BSD-2-Clause
 *
 * treecheck_data.c - operations on open files and on contents. Slots 0 and 1 of a process hold files
 * of its own tree, slots 2 and 3 files of the common one. An operation on a closed slot is nothing.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "treecheck.h"

void tc_fill(unsigned char *bytes, size_t length, uint32_t seed)
{
    const unsigned kind = seed % 8;
    if (kind < 2) {
        memset(bytes, kind == 0 ? 0 : (int)(seed >> 8 & 255), length);
        return;
    }
    uint64_t state = seed * UINT64_C(0x9e3779b97f4a7c15) + 1;
    char line[48];
    for (size_t i = 0; i < length;) {
        state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        size_t part = 4;
        if (kind < 5)
            memcpy(line, (const char *)&state + 4, 4);
        else
            part = (size_t)snprintf(line, sizeof line, "seed %u, value %u\n", seed,
                                    (unsigned)(state >> 54));
        part = part < length - i ? part : length - i;
        memcpy(bytes + i, line, part);
        i += part;
    }
}

/* ---- slots -------------------------------------------------------------------------------------- */

static struct tc_slot *slot_of(const struct tc_call *call, unsigned number)
{
    return &call->worker->slot[(call->op->common ? 2 : 0) + number % 2];
}

static struct tc_node *node_of(const struct tc_call *call, const struct tc_slot *slot)
{
    return &call->tree->node[slot->node];
}

static void close_slot(const struct tc_call *call, struct tc_slot *slot)
{
    if (slot->fd < 0)
        return;
    const int result = close(slot->fd);
    slot->fd = -1;
    tc_expect(call, result, 0);
    tc_model_close(call->tree, slot->node);
}

bool tc_do_close(const struct tc_call *call)
{
    close_slot(call, slot_of(call, call->op->slot));
    return true;
}

void tc_close_all(struct tc_worker *worker)
{
    static const struct tc_op closing;
    for (unsigned i = 0; i < TC_SLOTS; i++) {
        const bool common = i >= 2;
        struct tc_tree *tree =
            common ? &worker->board->common : &worker->board->own[worker->number];
        const struct tc_call call = {.worker = worker, .tree = tree, .op = &closing, .top = -1};
        close_slot(&call, &worker->slot[i]);
    }
}

/* What open says of a node that is there. */
static int check_open(const struct tc_node *node, int flags)
{
    const bool writes = (flags & O_ACCMODE) != O_RDONLY;
    if ((flags & O_CREAT) && (flags & O_EXCL))
        return -EEXIST;
    if (node->kind == TC_DIRECTORY && (writes || (flags & O_CREAT)))
        return -EISDIR;
    if (node->kind == TC_FIFO && (flags & O_ACCMODE) == O_WRONLY)
        return -ENXIO;
    return 0;
}

static int flags_of(uint32_t bits)
{
    static const int modes[] = {O_RDWR, O_RDWR, O_RDWR, O_RDWR, O_RDWR, O_WRONLY, O_RDONLY, O_RDWR};
    const int mode = modes[bits & 7];
    return mode | O_NONBLOCK | (bits & 0x8 ? 0 : O_CREAT) | ((bits & 0x30) == 0x30 ? O_EXCL : 0) |
           ((bits & 0xc0) == 0xc0 && mode == O_RDWR ? O_TRUNC : 0) |
           ((bits & 0x300) == 0x300 ? O_APPEND : 0) | ((bits & 0x3c00) == 0x3c00 ? O_SYNC : 0);
}

bool tc_do_open(const struct tc_call *call)
{
    char text[TC_TEXT];
    struct tc_tree *tree = call->tree;
    struct tc_slot *slot = slot_of(call, call->op->slot);
    const int flags = flags_of(call->op->flags);
    const bool exclusive = (flags & O_CREAT) && (flags & O_EXCL);
    struct tc_place place;
    close_slot(call, slot);
    int error = tc_resolve(tree, &call->op->path, !exclusive, &place);
    if (!error && place.node >= 0)
        error = check_open(&tree->node[place.node], flags);
    else if (!error)
        error = flags & O_CREAT ? 0 : -ENOENT;
    if (!error && place.node < 0 && tc_model_full(tree))
        return true;
    tc_text(call, &call->op->path, text);
    const int fd = openat(call->top, text, flags, 0644);
    tc_expect(call, fd < 0 ? -1 : 0, error);
    if (error)
        return true;
    if (place.node < 0)
        place.node = tc_model_make(tree, &place, TC_FILE, 0644);
    struct tc_node *node = &tree->node[place.node];
    if (node->kind != TC_FILE) {
        close(fd);
        return true;
    }
    if (flags & O_TRUNC) {
        tc_model_resize(tree, place.node, 0);
        node->time_known = false;
    }
    node->opens++;
    *slot =
        (struct tc_slot){.fd = fd, .node = place.node, .flags = flags, .common = call->op->common};
    return true;
}

static bool readable(const struct tc_slot *slot)
{
    return (slot->flags & O_ACCMODE) != O_WRONLY;
}

static bool writable(const struct tc_slot *slot)
{
    return (slot->flags & O_ACCMODE) != O_RDONLY;
}

/* ---- ranges ------------------------------------------------------------------------------------- */

/* The operation's range, cut so that the file stays within the limit. */
static size_t cut(uint32_t *offset, uint32_t length)
{
    *offset %= TC_LIMIT;
    return length < TC_LIMIT - *offset ? length : TC_LIMIT - *offset;
}

static void wrote(const struct tc_call *call, const struct tc_slot *slot, size_t end)
{
    struct tc_node *node = node_of(call, slot);
    node->time_known = false;
    if (end > node->size)
        node->size = end;
}

/* ---- reading and writing ------------------------------------------------------------------------ */

bool tc_do_read(const struct tc_call *call)
{
    struct tc_slot *slot = slot_of(call, call->op->slot);
    uint32_t offset = call->op->offset;
    const size_t length = cut(&offset, call->op->length);
    if (slot->fd < 0)
        return true;
    const struct tc_node *node = node_of(call, slot);
    const size_t there = offset < node->size ? node->size - offset : 0;
    const size_t expected = length < there ? length : there;
    unsigned char *buffer = call->worker->buffer;
    const ssize_t got = pread(slot->fd, buffer, length, offset);
    tc_expect(call, got, readable(slot) ? (long)expected : -EBADF);
    if (got > 0)
        tc_compare_bytes(call, slot->node, buffer, offset, expected, "pread");
    return true;
}

bool tc_do_write(const struct tc_call *call)
{
    struct tc_slot *slot = slot_of(call, call->op->slot);
    uint32_t offset = call->op->offset;
    if (slot->fd < 0)
        return true;
    if (slot->flags & O_APPEND) /* Linux: pwrite, too */
        offset = (uint32_t)node_of(call, slot)->size;
    if (offset == TC_LIMIT)
        return true;
    const size_t length = cut(&offset, call->op->length);
    unsigned char *buffer = call->worker->buffer;
    tc_fill(buffer, length, call->op->seed);
    tc_expect(call, pwrite(slot->fd, buffer, length, call->op->offset % TC_LIMIT),
              writable(slot) ? (long)length : -EBADF);
    if (writable(slot) && length) {
        memcpy(call->tree->data[slot->node] + offset, buffer, length);
        wrote(call, slot, offset + length);
    }
    return true;
}

bool tc_do_ftruncate(const struct tc_call *call)
{
    struct tc_slot *slot = slot_of(call, call->op->slot);
    const uint32_t size = call->op->offset % TC_LIMIT;
    if (slot->fd < 0)
        return true;
    tc_expect(call, ftruncate(slot->fd, size), writable(slot) ? 0 : -EINVAL);
    if (writable(slot)) {
        tc_model_resize(call->tree, slot->node, size);
        wrote(call, slot, 0);
    }
    return true;
}

bool tc_do_truncate(const struct tc_call *call)
{
    char text[TC_TEXT];
    struct tc_place place;
    const uint32_t size = call->op->offset % TC_LIMIT;
    int error = tc_resolve(call->tree, &call->op->path, true, &place);
    if (!error && place.node < 0)
        error = -ENOENT;
    struct tc_node *node = error ? NULL : &call->tree->node[place.node];
    if (node && node->kind != TC_FILE)
        error = node->kind == TC_DIRECTORY ? -EISDIR : -EINVAL;
    tc_text(call, &call->op->path, text);
    /* there is no truncateat; the path through the descriptor is as good */
    if (fchdir(call->top))
        tc_fail(call, "fchdir: %s", strerror(errno));
    const int result = truncate(text, size), code = errno;
    if (chdir("/"))
        tc_fail(call, "chdir: %s", strerror(errno));
    errno = code;
    tc_expect(call, result, error);
    if (!error) {
        tc_model_resize(call->tree, place.node, size);
        node->time_known = false;
    }
    return true;
}

static bool allocate(const struct tc_call *call, int mode, bool zeros)
{
    struct tc_slot *slot = slot_of(call, call->op->slot);
    uint32_t offset = call->op->offset;
    const size_t length = cut(&offset, call->op->length);
    if (slot->fd < 0)
        return true;
    size_t done = length;
    const char *plant = call->worker->plant; /* a planted fault: a hole that is a byte too long */
    if (plant && strcmp(plant, "punch") == 0 && (mode & FALLOC_FL_PUNCH_HOLE) &&
        node_of(call, slot)->size > 100000)
        done++;
    const int result = fallocate(slot->fd, mode, offset, (off_t)done);
    if (result == -1 && errno == EOPNOTSUPP)
        return false;
    tc_expect(call, result, !length ? -EINVAL : writable(slot) ? 0 : -EBADF);
    if (result == -1)
        return true;
    struct tc_node *node = node_of(call, slot);
    const size_t end = offset + length, stop = end < node->size ? end : node->size;
    if (zeros && offset < stop)
        memset(call->tree->data[slot->node] + offset, 0, stop - offset);
    wrote(call, slot, mode & FALLOC_FL_KEEP_SIZE ? 0 : end);
    return true;
}

bool tc_do_punch(const struct tc_call *call)
{
    return allocate(call, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, true);
}

bool tc_do_zero(const struct tc_call *call)
{
    return allocate(call, FALLOC_FL_ZERO_RANGE | (call->op->flags & 1 ? FALLOC_FL_KEEP_SIZE : 0),
                    true);
}

bool tc_do_allocate(const struct tc_call *call)
{
    return allocate(call, call->op->flags & 1 ? FALLOC_FL_KEEP_SIZE : 0, false);
}

/* ---- mappings ----------------------------------------------------------------------------------- */

/* Maps the part of the operation's range that lies inside the file; NULL: there is none, or the
 * descriptor does not allow it, which was checked. */
static unsigned char *map(const struct tc_call *call, const struct tc_slot *slot, int protection,
                          uint32_t *offset, size_t *length)
{
    const struct tc_node *node = node_of(call, slot);
    *offset = call->op->offset % TC_LIMIT;
    if (*offset >= node->size || !call->op->length)
        return NULL;
    *length = call->op->length < node->size - *offset ? call->op->length : node->size - *offset;
    const size_t page = *offset / 4096 * 4096;
    void *base =
        mmap(NULL, *offset + *length - page, protection, MAP_SHARED, slot->fd, (off_t)page);
    const bool allowed = readable(slot) && (!(protection & PROT_WRITE) || writable(slot));
    tc_expect(call, base == MAP_FAILED ? -1 : 0, allowed ? 0 : -EACCES);
    return base == MAP_FAILED ? NULL : (unsigned char *)base + (*offset - page);
}

static void unmap(const struct tc_call *call, unsigned char *at, size_t length, bool sync)
{
    void *base = (void *)((uintptr_t)at / 4096 * 4096);
    const size_t size = (uintptr_t)at - (uintptr_t)base + length;
    if (sync)
        tc_expect(call, msync(base, size, MS_SYNC), 0);
    tc_expect(call, munmap(base, size), 0);
}

bool tc_do_map_read(const struct tc_call *call)
{
    struct tc_slot *slot = slot_of(call, call->op->slot);
    uint32_t offset;
    size_t length;
    if (slot->fd < 0)
        return true;
    unsigned char *at = map(call, slot, PROT_READ, &offset, &length);
    if (at) {
        tc_compare_bytes(call, slot->node, at, offset, length, "mapping");
        unmap(call, at, length, false);
    }
    return true;
}

bool tc_do_map_write(const struct tc_call *call)
{
    struct tc_slot *slot = slot_of(call, call->op->slot);
    uint32_t offset;
    size_t length;
    if (slot->fd < 0)
        return true;
    unsigned char *at = map(call, slot, PROT_READ | PROT_WRITE, &offset, &length);
    if (at) {
        tc_fill(call->worker->buffer, length, call->op->seed);
        memcpy(at, call->worker->buffer, length);
        memcpy(call->tree->data[slot->node] + offset, call->worker->buffer, length);
        wrote(call, slot, 0);
        unmap(call, at, length, call->op->flags & 1);
    }
    return true;
}

/* ---- others ------------------------------------------------------------------------------------- */

/* From slot2 at seed to slot at offset. */
bool tc_do_copy(const struct tc_call *call)
{
    struct tc_slot *to = slot_of(call, call->op->slot), *from = slot_of(call, call->op->slot2);
    uint32_t offset = call->op->offset, source = call->op->seed;
    size_t length = cut(&offset, call->op->length);
    if (to->fd < 0 || from->fd < 0)
        return true;
    const struct tc_node *node = node_of(call, from);
    source %= TC_LIMIT;
    const size_t there = source < node->size ? node->size - source : 0;
    length = length < there ? length : there;
    const size_t apart = source > offset ? source - offset : offset - source;
    if (!length || !readable(from) || !writable(to) || (to->flags & O_APPEND) ||
        (from->node == to->node && apart < length))
        return true; /* the errors are the conformance suite's */
    off64_t in = source, out = offset;
    for (size_t left = length; left;) {
        const ssize_t part = copy_file_range(from->fd, &in, to->fd, &out, left, 0);
        if (part < 0 && left == length && (errno == EOPNOTSUPP || errno == EXDEV))
            return false;
        if (part <= 0)
            tc_fail(call, "copy_file_range returned %zd (%s), %zu bytes left", part,
                    part < 0 ? strerror(errno) : "end of file", left);
        left -= (size_t)part;
    }
    memmove(call->tree->data[to->node] + offset, call->tree->data[from->node] + source, length);
    wrote(call, to, offset + length);
    return true;
}

/* Holes that are reported must be zeros; data must begin inside the file. */
bool tc_do_seek(const struct tc_call *call)
{
    struct tc_slot *slot = slot_of(call, call->op->slot);
    const off_t start = call->op->offset % TC_LIMIT;
    if (slot->fd < 0)
        return true;
    const off_t size = (off_t)node_of(call, slot)->size;
    const off_t found = lseek(slot->fd, start, SEEK_DATA);
    if (start >= size) {
        tc_expect(call, found, -ENXIO);
        tc_expect(call, lseek(slot->fd, start, SEEK_HOLE), -ENXIO);
        return true;
    }
    if (found < 0 && errno != ENXIO)
        tc_expect(call, found, 0);
    const off_t data = found < 0 ? size : found;
    if (data < start || data > size)
        tc_fail(call, "SEEK_DATA from %jd leads to %jd", (intmax_t)start, (intmax_t)data);
    for (off_t i = start; i < data; i++) {
        if (call->tree->data[slot->node][i])
            tc_fail(call, "SEEK_DATA from %jd skips data at %jd", (intmax_t)start, (intmax_t)i);
    }
    const off_t hole = lseek(slot->fd, start, SEEK_HOLE);
    if (hole < start || hole > size || (data > start && hole != start))
        tc_fail(call, "SEEK_HOLE from %jd leads to %jd, SEEK_DATA to %jd", (intmax_t)start,
                (intmax_t)hole, (intmax_t)data);
    return true;
}

bool tc_do_sync(const struct tc_call *call)
{
    struct tc_slot *slot = slot_of(call, call->op->slot);
    if (slot->fd >= 0)
        tc_expect(call, call->op->flags & 1 ? fdatasync(slot->fd) : fsync(slot->fd), 0);
    return true;
}

/* The pages go, so that the next reads come from the file system. */
bool tc_do_forget(const struct tc_call *call)
{
    struct tc_slot *slot = slot_of(call, call->op->slot);
    if (slot->fd < 0)
        return true;
    tc_expect(call, fsync(slot->fd), 0);
    tc_expect(call, posix_fadvise(slot->fd, 0, 0, POSIX_FADV_DONTNEED), 0);
    return true;
}
