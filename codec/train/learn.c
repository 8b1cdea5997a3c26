/* SPDX-License-Identifier: BSD-2-Clause
 *
 * learn.c - the threads that take the network through a sample once. net.h says what a batch is.
 *
 * One pass: several over little data overfit. Batches grow over the first ones: rows that are
 * common get many steps from one batch, which is too much while their sums of squares are small.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "kind.h"
#include "learn.h"
#include "random.h"
#include "train.h"

#include "codec/block.h"
#include "codec/net.h"
#include "codec/transform.h"

#define RATE_DEFAULT    0.06F
#define PENALTY_DEFAULT 0.0015F
#define SAVE_EVERY      60.0 /* seconds */
#define STEPS_START     4u
#define STEPS_RAMP      64u /* batches for each further step */
#define LOSS_MEMORY     0.998

/* Bytes 1 to 4 back, orders 2 to 6, sparse, words. */
static const uint8_t patches_text[TRAIN_FEATURES] = {
    SEP_PATCH_ORDER1,   SEP_PATCH_SPARSE2,    SEP_PATCH_SPARSE3, SEP_PATCH_SPARSE4,
    SEP_PATCH_ORDER2,   SEP_PATCH_ORDER3,     SEP_PATCH_ORDER4,  SEP_PATCH_ORDER5,
    SEP_PATCH_ORDER6,   SEP_PATCH_WORD,       SEP_PATCH_WORD2,   SEP_PATCH_WORD_SKIP,
    SEP_PATCH_SPARSE13, SEP_PATCH_LINE_ABOVE,
};

static const uint8_t patches_binary[TRAIN_FEATURES] = {
    SEP_PATCH_ORDER1,   SEP_PATCH_SPARSE2,    SEP_PATCH_SPARSE3,  SEP_PATCH_SPARSE4,
    SEP_PATCH_ORDER2,   SEP_PATCH_ORDER3,     SEP_PATCH_ORDER4,   SEP_PATCH_ORDER6,
    SEP_PATCH_SPARSE23, SEP_PATCH_SPARSE13,   SEP_PATCH_SPARSE24, SEP_PATCH_SPARSE34,
    SEP_PATCH_GRADIENT, SEP_PATCH_ABOVE_LAST,
};

static double now(void)
{
    struct timespec time;

    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

/* ---- lanes ---------------------------------------------------------------------------------- */

int train_course_seat(struct train_course *course, unsigned lane)
{
    const struct train_place place = course->place[lane];
    const struct train_lesson *lesson;
    const uint8_t *bytes;

    if (place.lesson == UINT32_MAX)
        return 0;
    lesson = &course->lessons[place.lesson];
    bytes = lesson->block->bytes;
    free(course->copy[lane]);
    course->copy[lane] = NULL;
    if (lesson->transform != SEP_TRANSFORM_NONE) {
        uint8_t *const copy = malloc(lesson->block->size);

        if (copy == NULL)
            return -ENOMEM;
        memcpy(copy, bytes, lesson->block->size);
        sep_transform_apply(lesson->transform, copy, lesson->block->size);
        bytes = course->copy[lane] = copy;
    }
    train_walk_begin(&course->walk[lane], bytes, lesson->block->size, lesson->stride);
    while (train_walk_at(&course->walk[lane]) < place.position)
        train_walk_next(&course->walk[lane]);
    return 0;
}

/* Lanes at the end of their block get the next one, in the order of lanes. */
static int seat_lanes(struct train_course *course)
{
    course->over = true;
    for (unsigned l = 0; l < TRAIN_LANES; l++) {
        struct train_place *const place = &course->place[l];

        if (place->lesson != UINT32_MAX && place->position == course->walk[l].size) {
            int error;

            *place = (struct train_place){.lesson = course->lesson_next < course->lesson_count
                                                        ? course->lesson_next++
                                                        : UINT32_MAX};
            error = train_course_seat(course, l);
            if (error != 0)
                return error;
        }
        course->over = course->over && place->lesson == UINT32_MAX;
    }
    return 0;
}

/* Contexts and bytes of a lane's part of this batch. */
static void read_lane(struct train_course *course, unsigned l)
{
    const uint64_t ramp = STEPS_START + course->batch / STEPS_RAMP;
    const uint32_t most = ramp < TRAIN_STEPS ? (uint32_t)ramp : TRAIN_STEPS;
    struct train_lane *const lane = &course->lanes[l];
    struct train_walk *const walk = &course->walk[l];
    const uint32_t rows_log = course->net->rows_log;

    lane->steps = 0;
    if (course->place[l].lesson == UINT32_MAX)
        return;
    while (lane->steps < most && train_walk_at(walk) < walk->size) {
        uint32_t *const index = lane->index[lane->steps];

        for (unsigned f = 0; f < TRAIN_FEATURES; f++) {
            const uint32_t patch = walk->profile.patch[f];

            index[f] = sep_net_row(walk->m->patch_value[patch], patch, rows_log);
        }
        lane->byte[lane->steps++] = walk->m->plain[train_walk_at(walk)];
        train_walk_next(walk);
    }
    course->place[l].position = train_walk_at(walk);
}

/* ---- threads -------------------------------------------------------------------------------- */

static void report(struct train_course *course)
{
    const double seconds = now() - course->began;
    const struct train_progress progress = {
        .done = course->done,
        .total = course->bytes,
        .loss = course->loss / 0.69314718056,
        .speed = seconds > 0 ? (double)course->learnt_here / seconds : 0,
    };

    if (course->settings.progress != NULL)
        course->settings.progress(course->watch->user, &progress);
}

static int save(struct train_course *course)
{
    course->saved = now();
    return course->settings.checkpoint != NULL
               ? train_checkpoint_save(course, course->settings.checkpoint)
               : 0;
}

/* Between two batches, on one thread, while the others wait. */
static void between(struct train_course *course)
{
    const struct train_settings *const settings = &course->settings;
    const double time = now();
    uint64_t steps = 0;
    double loss = 0;

    for (unsigned l = 0; l < TRAIN_LANES; l++) {
        steps += course->lanes[l].steps;
        loss += course->lanes[l].steps != 0 ? course->lanes[l].loss : 0;
    }
    if (steps != 0) {
        const double keep = course->batch < 100 ? 0.9 : LOSS_MEMORY;

        loss /= (double)steps;
        course->loss = course->batch == 0 ? loss : keep * course->loss + (1 - keep) * loss;
        course->batch++;
        course->done += steps;
        course->learnt_here += steps;
        train_net_transpose(course->net);
    }
    course->error = seat_lanes(course);
    if ((course->batch & 15) == 0 || course->over)
        report(course);
    if (course->error == 0 && *course->watch->stop != 0) {
        course->error = save(course);
        if (course->error == 0)
            course->error = -EINTR;
    } else if (course->error == 0 && time - course->saved >= SAVE_EVERY) {
        course->error = save(course);
    }
    if (settings->time_limit > 0 && time - course->began >= settings->time_limit)
        course->over = true;
}

struct worker {
    struct train_course *course;
    unsigned number;
    pthread_t thread;
};

static void work_on_batch(struct train_course *course, unsigned number)
{
    const struct train_settings *const settings = &course->settings;
    const unsigned threads = settings->threads;

    for (unsigned l = number; l < TRAIN_LANES; l += threads) {
        read_lane(course, l);
        course->math->examples(course->net, &course->lanes[l]);
    }
    pthread_barrier_wait(&course->barrier);
    for (unsigned f = number; f < TRAIN_FEATURES; f += threads)
        course->math->rows(course->net, course->lanes, f, settings->rate, settings->penalty);
    course->math->dense(course->net, course->lanes,
                        (unsigned)(TRAIN_DENSE_FLOATS * number / threads),
                        (unsigned)(TRAIN_DENSE_FLOATS * (number + 1) / threads), settings->rate);
}

static void *work(void *argument)
{
    const struct worker *const self = argument;
    struct train_course *const course = self->course;

    for (;;) {
        pthread_barrier_wait(&course->barrier);
        if (self->number == 0)
            between(course);
        pthread_barrier_wait(&course->barrier);
        if (course->over || course->error != 0)
            return NULL;
        work_on_batch(course, self->number);
    }
}

/* Waits until the number of threads is known: what cannot be started is done without. */
static void *start(void *argument)
{
    const struct worker *const self = argument;

    pthread_mutex_lock(&self->course->gate);
    pthread_mutex_unlock(&self->course->gate);
    return self->course->error == 0 ? work(argument) : NULL;
}

static int run_threads(struct train_course *course)
{
    struct worker workers[TRAIN_THREADS_MAX];
    unsigned started = 1;

    pthread_mutex_init(&course->gate, NULL);
    pthread_mutex_lock(&course->gate);
    workers[0] = (struct worker){.course = course, .number = 0};
    for (; started < course->settings.threads; started++) {
        workers[started] = (struct worker){.course = course, .number = started};
        if (pthread_create(&workers[started].thread, NULL, start, &workers[started]) != 0)
            break;
    }
    course->settings.threads = started;
    course->error = -pthread_barrier_init(&course->barrier, NULL, started);
    pthread_mutex_unlock(&course->gate);
    if (course->error == 0)
        work(&workers[0]);
    for (unsigned k = 1; k < started; k++)
        pthread_join(workers[k].thread, NULL);
    pthread_barrier_destroy(&course->barrier);
    pthread_mutex_destroy(&course->gate);
    return course->error;
}

/* ---- course --------------------------------------------------------------------------------- */

static int choose_lessons(struct train_course *course, const struct train_sample *sample)
{
    course->lessons = calloc(sample->count + 1, sizeof *course->lessons);
    if (course->lessons == NULL)
        return -ENOMEM;
    for (size_t k = 0; k < sample->count && course->lesson_count < UINT32_MAX - 1; k++) {
        const struct train_block *const block = &sample->blocks[k];

        if (block->held_out || (course->settings.kinds & TRAIN_KIND_BIT(block->kind)) == 0)
            continue;
        course->lessons[course->lesson_count++] = (struct train_lesson){
            .block = block,
            .stride = train_stride_of(block),
            .transform = block->kind == TRAIN_KIND_X86 ? SEP_TRANSFORM_X86 : SEP_TRANSFORM_NONE,
        };
        course->bytes += block->size;
        course->fingerprint = train_hash(course->fingerprint, &block->hash, sizeof block->hash);
    }
    return course->lesson_count != 0 ? 0 : -ENODATA;
}

static const uint8_t *patches_for(unsigned kinds)
{
    return (kinds & TRAIN_KINDS_TEXT) != 0 ? patches_text : patches_binary;
}

static int prepare(struct train_course *course, const struct train_sample *sample)
{
    const struct train_settings *const settings = &course->settings;
    const uint8_t *const patches = patches_for(settings->kinds);
    const uint32_t numbers[] = {settings->rows_log, settings->kinds, TRAIN_FEATURES, TRAIN_LANES};
    const float rates[] = {settings->rate, settings->penalty};
    int error;

    course->fingerprint = train_hash(settings->seed, numbers, sizeof numbers);
    course->fingerprint = train_hash(course->fingerprint, rates, sizeof rates);
    error = choose_lessons(course, sample);
    if (error != 0)
        return error;
    course->net = train_net_new(settings->seed, settings->rows_log);
    course->lanes = aligned_alloc(64, TRAIN_LANES * sizeof *course->lanes);
    if (course->net == NULL || course->lanes == NULL)
        return -ENOMEM;
    memset(course->lanes, 0, TRAIN_LANES * sizeof *course->lanes);
    memcpy(course->net->patch, patches, TRAIN_FEATURES);
    for (unsigned l = 0; l < TRAIN_LANES; l++) {
        course->place[l].lesson = UINT32_MAX;
        error = train_walk_init(&course->walk[l], patches, TRAIN_FEATURES);
        if (error != 0)
            return error;
    }
    return 0;
}

/* The first blocks, or where the checkpoint stands. */
static int begin(struct train_course *course)
{
    if (course->settings.resume) {
        const int error = train_checkpoint_load(course, course->settings.checkpoint);

        if (error != 0)
            return error;
        train_net_transpose(course->net);
    } else {
        for (unsigned l = 0; l < TRAIN_LANES && course->lesson_next < course->lesson_count; l++)
            course->place[l] = (struct train_place){.lesson = course->lesson_next++};
    }
    for (unsigned l = 0; l < TRAIN_LANES; l++) {
        const int error = train_course_seat(course, l);

        if (error != 0)
            return error;
    }
    return 0;
}

static void release(struct train_course *course)
{
    for (unsigned l = 0; l < TRAIN_LANES; l++) {
        train_walk_free(&course->walk[l]);
        free(course->copy[l]);
    }
    free(course->lanes);
    free(course->lessons);
    train_net_free(course->net);
}

int train_net_learn(const struct train_sample *sample, const struct train_settings *settings,
                    const struct train_watch *watch, struct train_net **net)
{
    struct train_course *const course = calloc(1, sizeof *course);
    int error = -ENOMEM;

    if (course == NULL)
        return error;
    course->settings = *settings;
    course->watch = watch;
    course->math = train_math_best();
    if (!(settings->rate > 0))
        course->settings.rate = RATE_DEFAULT;
    if (!(settings->penalty > 0))
        course->settings.penalty = PENALTY_DEFAULT;
    error = prepare(course, sample);
    if (error == 0)
        error = begin(course);
    course->began = course->saved = now();
    if (error == 0)
        error = run_threads(course);
    if (error == 0) {
        *net = course->net;
        course->net = NULL;
    }
    release(course);
    free(course);
    return error;
}
