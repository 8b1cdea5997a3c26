/* SPDX-License-Identifier: BSD-2-Clause
 *
 * buffers.c - a free list of whole-block buffers behind one mutex. Anything of at most half a block
 * is an ordinary allocation, so that a thousand dirty small files do not cost a thousand blocks.
 */
#include "buffers.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>

#include "core.h"

struct fs_buffers {
    pthread_mutex_t mutex;
    size_t size;
    unsigned keep;
    unsigned count; /* free buffers in kept[] */
    void *kept[];
};

int fs_buffers_new(size_t size, unsigned keep, struct fs_buffers **buffers)
{
    struct fs_buffers *made = malloc(sizeof(*made) + keep * sizeof(made->kept[0]));

    if (made == NULL)
        return -ENOMEM;
    pthread_mutex_init(&made->mutex, NULL);
    made->size = size;
    made->keep = keep;
    made->count = 0;
    *buffers = made;
    return 0;
}

void fs_buffers_free(struct fs_buffers *buffers)
{
    if (buffers == NULL)
        return;
    while (buffers->count > 0)
        free(buffers->kept[--buffers->count]);
    pthread_mutex_destroy(&buffers->mutex);
    free(buffers);
}

size_t fs_buffer_whole(const struct fs *fs)
{
    return fs->buffers->size;
}

void *fs_buffer_get(struct fs *fs, size_t size, uint32_t *capacity)
{
    struct fs_buffers *buffers = fs->buffers;
    void *memory = NULL;

    if (size <= buffers->size / 2) {
        *capacity = (uint32_t)size;
        return malloc(size > 0 ? size : 1);
    }
    pthread_mutex_lock(&buffers->mutex);
    if (buffers->count > 0)
        memory = buffers->kept[--buffers->count];
    pthread_mutex_unlock(&buffers->mutex);
    *capacity = (uint32_t)buffers->size;
    return memory != NULL ? memory : malloc(buffers->size);
}

void fs_buffer_put(struct fs *fs, void *memory, uint32_t capacity)
{
    struct fs_buffers *buffers = fs->buffers;

    if (memory != NULL && capacity == buffers->size) {
        pthread_mutex_lock(&buffers->mutex);
        if (buffers->count < buffers->keep) {
            buffers->kept[buffers->count++] = memory;
            memory = NULL;
        }
        pthread_mutex_unlock(&buffers->mutex);
    }
    free(memory);
}
