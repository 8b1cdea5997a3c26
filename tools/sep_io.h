/* SPDX-License-Identifier: BSD-2-Clause
 *
 * sep_io.h - whole reads and writes for sep: short counts, EINTR and non-blocking descriptors are
 * dealt with here, and a signal that asks the program to stop ends a wait at once.
 *
 * Functions return 0 or a count, or a negative errno; -ECANCELED: *stop was set.
 */
#ifndef TOOLS_SEP_IO_H
#define TOOLS_SEP_IO_H

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* Set by a signal handler to the signal's number. */
typedef const volatile sig_atomic_t *io_stop;

/* Reads until SIZE bytes are there or the input ends; returns how many. */
ssize_t io_read(int fd, void *buffer, size_t size, io_stop stop);
/* The same at OFFSET of a seekable file. */
ssize_t io_pread(int fd, void *buffer, size_t size, uint64_t offset, io_stop stop);
int io_write(int fd, const void *buffer, size_t size, io_stop stop);

/* An input that is read once, front to back, with a window to look ahead. */
struct source {
    int fd;
    io_stop stop;
    uint8_t *buffer; /* capacity bytes; [begin, end) are read and not consumed */
    size_t capacity, begin, end;
    uint64_t position; /* in the file, of buffer[begin] */
    uint64_t limit;    /* position at which the input ends at the latest; UINT64_MAX: none */
    bool ended;        /* nothing is left to read behind the window */
};

/* POSITION: of fd now. Free with source_free, also after an error. */
int source_open(struct source *source, int fd, size_t capacity, uint64_t position, io_stop stop);
void source_free(struct source *source);

/* Makes at least SIZE <= capacity bytes visible, fewer only at the end of the input; returns how
 * many are visible, which may be more. */
ssize_t source_fill(struct source *source, size_t size);
/* The visible bytes. */
const uint8_t *source_bytes(const struct source *source);
/* Drops SIZE visible bytes. */
void source_skip(struct source *source, size_t size);
/* Reads SIZE bytes, past the window too; returns how many there were. */
ssize_t source_read(struct source *source, void *buffer, size_t size);

#endif
