/* SPDX-License-Identifier: BSD-2-Clause
 *
 * learn.h - one pass of training over a sample, and its checkpoints.
 */
#ifndef TRAIN_LEARN_H
#define TRAIN_LEARN_H

#include <pthread.h>

#include "net.h"
#include "sample.h"
#include "train.h"
#include "walk.h"

/* A block of the sample as the network is to see it. */
struct train_lesson {
    const struct train_block *block;
    uint16_t stride;
    uint8_t transform;
};

/* Where a lane stands. */
struct train_place {
    uint32_t lesson; /* index; UINT32_MAX: none left */
    uint32_t position;
};

struct train_course {
    struct train_settings settings;
    const struct train_watch *watch;
    const struct train_math *math;
    struct train_net *net;
    struct train_lesson *lessons;
    uint32_t lesson_count, lesson_next;
    uint64_t bytes, done; /* of all lessons; of examples learnt */
    uint64_t batch;
    uint64_t fingerprint; /* of everything that the result follows from */
    struct train_lane *lanes;
    struct train_place place[TRAIN_LANES];
    struct train_walk walk[TRAIN_LANES];
    uint8_t *copy[TRAIN_LANES]; /* a transformed block, or NULL */
    double loss;                /* nats an example, smoothed */
    uint64_t learnt_here;       /* bytes since this process began */
    double began, saved;        /* seconds, monotonic clock */
    bool over;
    int error;
    pthread_mutex_t gate;
    pthread_barrier_t barrier;
};

/* checkpoint.c. save: atomic, durable. load: -ENOENT without a file, -ESTALE when it belongs to
 * another sample or other settings, -EBADMSG when it is damaged. */
int train_checkpoint_save(const struct train_course *course, const char *path);
int train_checkpoint_load(struct train_course *course, const char *path);

/* Puts the lane at its place, which a checkpoint may have set. */
int train_course_seat(struct train_course *course, unsigned lane);

#endif
