/* SPDX-License-Identifier: BSD-2-Clause
 *
 * pack_append.c - appends records to the open packs and reads them back.
 *
 * A place is taken under packs->mutex, the bytes are written outside it, so appends run in
 * parallel. One that fails leaves a gap, which costs its bytes until the pack is rewritten; a scan
 * finds the next record by magic and checksum. Preallocation runs ahead of the tail, in steps.
 *
 * A full pack is replaced only once its successor exists and holds room for everything promised:
 * on a host without space for that, the old one grows beyond its limit instead, and a promise of
 * index_reserve stays good.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "internal.h"

/* ---- opening packs; packs->mutex held ----------------------------------------------------------- */

static void update_headroom(struct index_packs *packs)
{
    const struct index_pack_file *const hot = packs->open[INDEX_HOT];
    atomic_store(&packs->headroom, hot == NULL ? 0 : hot->allocated - hot->tail);
}

static int write_pack_header(struct index *index, int fd, uint32_t id, enum index_class class)
{
    uint8_t header[INDEX_PACK_HEADER];
    index_pack_header_put(header, id, class, index->uuid);
    struct iovec part = {.iov_base = header, .iov_len = sizeof header};
    return index_io_write(index->io, fd, &part, 1, 0);
}

/* Extends PACK's preallocation until NEED bytes fit behind its tail. */
static int extend(struct index *index, struct index_pack_file *pack, uint64_t need)
{
    const uint64_t have = pack->allocated - pack->tail;
    if (have >= need)
        return 0;
    uint64_t got;
    const int error = index_reserve_host(index, pack->fd, pack->allocated, need - have, &got);
    if (error == 0)
        pack->allocated += got;
    update_headroom(&index->packs);
    return error;
}

/* Creates a pack with room for NEED bytes and makes it the open one of its class. */
static int create_pack(struct index *index, enum index_class class, uint64_t need)
{
    struct index_packs *const packs = &index->packs;
    char name[16];
    int fd;
    uint32_t id;
    do {
        if (packs->next_id == UINT32_MAX)
            return -ENOSPC;
        id = packs->next_id++;
        index_pack_name(id, name);
        fd = index_io_open(index->io, index->packs_fd, name, O_RDWR | O_CREAT | O_EXCL, 0600);
    } while (fd == -EEXIST);
    if (fd < 0)
        return fd;
    uint64_t got = 0;
    int error = index_reserve_host(index, fd, 0, INDEX_PACK_HEADER + need, &got);
    if (error == 0)
        error = write_pack_header(index, fd, id, class);
    struct index_pack_file *const pack = error == 0 ? index_packs_add(packs, id) : NULL;
    if (error == 0 && pack == NULL)
        error = -ENOMEM;
    if (error != 0) {
        index->io->close(fd);
        index->io->unlinkat(index->packs_fd, name, 0);
        return error;
    }
    pack->class = class;
    pack->tail = pack->written = INDEX_PACK_HEADER;
    pack->allocated = got;
    pack->fd = fd;
    pack->users = 1;
    pack->used = ++packs->clock;
    atomic_store(&pack->unsynced, true);
    packs->directory_unsynced = true;
    packs->open_fds++;
    packs->open[class] = pack;
    update_headroom(packs);
    return 0;
}

static void seal(struct index *index, struct index_pack_file *pack)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    pack->sealed = true;
    pack->sealed_at = now.tv_sec;
    pack->users--;
    if (index->packs.open[pack->class] == pack)
        index->packs.open[pack->class] = NULL;
    update_headroom(&index->packs);
}

/* The pack of CLASS to append NEED bytes to: the open one while it is not full. */
static int open_pack(struct index *index, enum index_class class, uint64_t need,
                     struct index_pack_file **pack)
{
    struct index_packs *const packs = &index->packs;
    struct index_pack_file *const old = packs->open[class];
    if (old == NULL || old->tail >= index->pack_size) {
        const uint64_t promised = class == INDEX_HOT ? atomic_load(&index->promised) : 0;
        const int error = create_pack(index, class, promised > need ? promised : need);
        if (error == 0 && old != NULL)
            seal(index, old);
        if (error != 0 && old == NULL)
            return error;
    }
    *pack = packs->open[class];
    update_headroom(packs);
    return 0;
}

int index_packs_reserve(struct index *index, uint64_t bytes)
{
    struct index_pack_file *pack;
    pthread_mutex_lock(&index->packs.mutex);
    int error = 0;
    if (index->packs.open[INDEX_HOT] == NULL)
        error = open_pack(index, INDEX_HOT, bytes, &pack);
    if (error == 0)
        error = extend(index, index->packs.open[INDEX_HOT], bytes);
    pthread_mutex_unlock(&index->packs.mutex);
    return error;
}

int index_pack_seal(struct index *index, uint32_t id)
{
    int error = -ENOENT;
    pthread_mutex_lock(&index->packs.mutex);
    for (unsigned class = 0; class < 2; class ++) {
        struct index_pack_file *const pack = index->packs.open[class];
        if (pack != NULL && pack->id == id) {
            seal(index, pack);
            error = 0;
        }
    }
    pthread_mutex_unlock(&index->packs.mutex);
    return error;
}

/* ---- append --------------------------------------------------------------------------------- */

/* Takes SPAN bytes of a pack. A cold record goes to the hot pack when its own cannot grow. */
static int take_place(struct index *index, enum index_class class, uint64_t span,
                      struct index_pack_file **pack, uint64_t *offset)
{
    struct index_packs *const packs = &index->packs;
    pthread_mutex_lock(&packs->mutex);
    int error = open_pack(index, class, span, pack);
    if (error == 0)
        error = extend(index, *pack, span);
    struct index_pack_file *const hot = packs->open[INDEX_HOT];
    if (error != 0 && class == INDEX_COLD && hot != NULL && hot->allocated - hot->tail >= span) {
        *pack = hot;
        error = 0;
    }
    if (error == 0) {
        *offset = (*pack)->tail;
        (*pack)->tail += span;
        (*pack)->in_flight++;
        (*pack)->users++;
        (*pack)->used = ++packs->clock;
        update_headroom(packs);
    }
    pthread_mutex_unlock(&packs->mutex);
    return error;
}

static void leave_place(struct index *index, struct index_pack_file *pack, uint64_t offset,
                        uint64_t span, bool written)
{
    pthread_mutex_lock(&index->packs.mutex);
    pack->in_flight--;
    pack->users--;
    if (written) {
        if (pack->written < offset + span)
            pack->written = offset + span;
        pack->records_appended++;
        atomic_store(&pack->unsynced, true);
    } else if (pack->tail == offset + span && !pack->sealed) {
        pack->tail = offset; /* nothing was placed behind it: no gap */
    }
    update_headroom(&index->packs);
    pthread_mutex_unlock(&index->packs.mutex);
}

int index_pack_append(struct index *index, enum index_class class, struct index_block *block,
                      const void *payload, size_t payload_size)
{
    static const uint8_t zeros[INDEX_PACK_ALIGN];
    if (index_readonly(index))
        return -EROFS;
    if (payload_size == 0 || payload_size > INDEX_PAYLOAD_MAX || block->id == 0 ||
        block->plain_size == 0 || block->plain_size > INDEX_PLAIN_MAX || (unsigned)class > 1)
        return -EINVAL;
    block->at.payload_size = (uint32_t)payload_size;
    uint8_t header[INDEX_RECORD_HEADER];
    index_record_header_put(header, block, payload);
    const uint64_t span = index_record_span((uint32_t)payload_size);
    struct index_pack_file *pack;
    uint64_t offset = 0;
    int error = take_place(index, class, span, &pack, &offset);
    if (error != 0)
        return error;
    struct iovec parts[3] = {
        {.iov_base = header, .iov_len = sizeof header},
        {.iov_base = (void *)(uintptr_t)payload, .iov_len = payload_size},
        {.iov_base = (void *)(uintptr_t)zeros,
         .iov_len = (size_t)(span - sizeof header - payload_size)},
    };
    error = index_io_write(index->io, pack->fd, parts, 3, offset);
    block->at.pack = pack->id;
    block->at.offset = offset;
    leave_place(index, pack, offset, span, error == 0);
    return error;
}

/* ---- read ------------------------------------------------------------------------------------ */

static bool same(const struct index_block *a, const struct index_block *b)
{
    return a->id == b->id && a->plain_size == b->plain_size && a->codec == b->codec &&
           a->level == b->level && a->model == b->model && a->hash.low == b->hash.low &&
           a->hash.high == b->hash.high && a->at.payload_size == b->at.payload_size;
}

int index_pack_read(struct index *index, const struct index_block *block, void *buffer)
{
    const uint32_t size = block->at.payload_size;
    uint8_t header[INDEX_RECORD_HEADER];
    struct index_block stored = {.id = 0};
    struct index_pack_file *pack;
    int fd;
    if (size > INDEX_PAYLOAD_MAX || block->at.offset > INT64_MAX / 2)
        return -EIO;
    int error = index_pack_acquire(index, block->at.pack, &pack, &fd);
    if (error != 0)
        return error == -ESTALE || error == -ENOMEM || error == -EMFILE ? error : -EIO;
    const uint64_t offset = block->at.offset;
    if (index_io_read(index->io, fd, header, sizeof header, offset) != (ssize_t)sizeof header ||
        index_record_header_get(header, &stored) != 0 || !same(block, &stored) ||
        index_io_read(index->io, fd, buffer, size, offset + sizeof header) != (ssize_t)size ||
        !index_record_intact(header, buffer, size))
        error = -EIO;
    index_pack_release(index, pack);
    return error;
}
