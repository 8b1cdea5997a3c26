/* SPDX-License-Identifier: BSD-2-Clause
 *
 * buffers.h - recycled memory for whole blocks. A fresh 128 KiB allocation costs 32 page faults,
 * about as much as compressing it with LZ4; a recycled one costs nothing. Only whole-block buffers
 * are kept; smaller ones go through malloc.
 */
#ifndef FS_BUFFERS_H
#define FS_BUFFERS_H

#include <stddef.h>
#include <stdint.h>

struct fs;
struct fs_buffers;

/* size: bytes of a whole-block buffer. keep: free buffers kept for reuse at most. */
int fs_buffers_new(size_t size, unsigned keep, struct fs_buffers **buffers);
void fs_buffers_free(struct fs_buffers *buffers);

/* Capacity of a whole-block buffer: a block, or the payload of any codec for one. */
size_t fs_buffer_whole(const struct fs *fs);

/* Memory for at least SIZE bytes, contents unspecified; *capacity is what to hand back to
 * fs_buffer_put. NULL when memory is short. */
void *fs_buffer_get(struct fs *fs, size_t size, uint32_t *capacity);
void fs_buffer_put(struct fs *fs, void *memory, uint32_t capacity); /* NULL is allowed */

#endif
