/* SPDX-License-Identifier: BSD-2-Clause
 *
 * sep_io.c - whole reads and writes. A descriptor is waited for before it is used, with the stop
 * signals let in only during that wait: one that comes between the look at *stop and the wait is
 * not missed.
 */
#include "sep_io.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int wait_ready(int fd, short events, io_stop stop)
{
    struct pollfd poll = {.fd = fd, .events = events};
    sigset_t blocked, before;
    int result = 0;
    sigfillset(&blocked);
    pthread_sigmask(SIG_BLOCK, &blocked, &before);
    while (*stop == 0) {
        result = ppoll(&poll, 1, NULL, &before);
        if (result >= 0 || errno != EINTR)
            break;
    }
    const int error = result < 0 ? -errno : 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return *stop != 0 ? -ECANCELED : error;
}

/* Reads until LEAST bytes are there, and up to SIZE if they come with them. */
static ssize_t read_least(int fd, void *buffer, size_t least, size_t size, io_stop stop)
{
    uint8_t *const bytes = buffer;
    size_t done = 0;
    while (done < least) {
        const int error = wait_ready(fd, POLLIN, stop);
        if (error != 0)
            return error;
        const ssize_t got = read(fd, bytes + done, size - done);
        if (got == 0)
            break;
        if (got > 0)
            done += (size_t)got;
        else if (errno != EINTR && errno != EAGAIN)
            return -errno;
    }
    return (ssize_t)done;
}

ssize_t io_read(int fd, void *buffer, size_t size, io_stop stop)
{
    return read_least(fd, buffer, size, size, stop);
}

ssize_t io_pread(int fd, void *buffer, size_t size, uint64_t offset, io_stop stop)
{
    uint8_t *const bytes = buffer;
    size_t done = 0;
    if (offset > INT64_MAX - size)
        return -EOVERFLOW;
    while (done < size) {
        if (*stop != 0)
            return -ECANCELED;
        const ssize_t got = pread(fd, bytes + done, size - done, (off_t)(offset + done));
        if (got == 0)
            break;
        if (got > 0)
            done += (size_t)got;
        else if (errno != EINTR)
            return -errno;
    }
    return (ssize_t)done;
}

int io_write(int fd, const void *buffer, size_t size, io_stop stop)
{
    const uint8_t *bytes = buffer;
    while (size > 0) {
        const int error = wait_ready(fd, POLLOUT, stop);
        if (error != 0)
            return error;
        const ssize_t put = write(fd, bytes, size);
        if (put >= 0) {
            bytes += put;
            size -= (size_t)put;
        } else if (errno != EINTR && errno != EAGAIN) {
            return -errno;
        }
    }
    return 0;
}

/* ---- source -------------------------------------------------------------------------------------
 */

int source_open(struct source *source, int fd, size_t capacity, uint64_t position, io_stop stop)
{
    *source = (struct source){.fd = fd,
                              .stop = stop,
                              .buffer = malloc(capacity),
                              .capacity = capacity,
                              .position = position,
                              .limit = UINT64_MAX};
    return source->buffer != NULL ? 0 : -ENOMEM;
}

void source_free(struct source *source)
{
    free(source->buffer);
    source->buffer = NULL;
}

/* Reads at least LEAST bytes behind the window, up to SIZE; less at the end of the input. */
static ssize_t read_on(struct source *source, void *buffer, size_t least, size_t size)
{
    const uint64_t left = source->limit - source->position - (source->end - source->begin);
    if (size > left)
        size = (size_t)left;
    const size_t enough = least < size ? least : size;
    const ssize_t got = read_least(source->fd, buffer, enough, size, source->stop);
    if (got >= 0 && ((size_t)got < least || (uint64_t)got == left))
        source->ended = true;
    return got;
}

ssize_t source_fill(struct source *source, size_t size)
{
    size_t visible = source->end - source->begin;
    if (visible >= size || source->ended)
        return (ssize_t)visible;
    if (source->capacity - source->begin < size) {
        memmove(source->buffer, source->buffer + source->begin, visible);
        source->begin = 0;
        source->end = visible;
    }
    const ssize_t got = read_on(source, source->buffer + source->end, size - visible,
                                source->capacity - source->end);
    if (got < 0)
        return got;
    source->end += (size_t)got;
    return (ssize_t)(visible + (size_t)got);
}

const uint8_t *source_bytes(const struct source *source)
{
    return source->buffer + source->begin;
}

void source_skip(struct source *source, size_t size)
{
    source->begin += size;
    source->position += size;
}

ssize_t source_read(struct source *source, void *buffer, size_t size)
{
    const size_t visible = source->end - source->begin;
    const size_t copied = visible < size ? visible : size;
    ssize_t got = 0;
    memcpy(buffer, source_bytes(source), copied);
    source_skip(source, copied);
    if (size > copied && !source->ended) {
        got = read_on(source, (uint8_t *)buffer + copied, size - copied, size - copied);
        if (got < 0)
            return got;
        source->position += (uint64_t)got;
    }
    return (ssize_t)copied + got;
}
