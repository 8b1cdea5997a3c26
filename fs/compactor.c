/* SPDX-License-Identifier: BSD-2-Clause
 *
 * compactor.c - the thread that compacts: requests, the timer, pausing, stopping, status.
 *
 * Steps of a pass: plan (compact_plan.c), lay small pieces together (compact_share.c), encode and
 * verify in batches (gpu/), swap (compact_run.c, compact_move.c), collect garbage.
 *
 * It always ends. Whatever a pass looks at leaves the hot list: coded, declined or failed (and then
 * in the pending list, to be tried again only with another method), or young, and then the time at
 * which it will be old enough is known. Between passes the thread sleeps; each time it wakes it looks
 * at what entered the hot list since the last time and at nothing else.
 *
 * Passes of the timer give way to foreground work. Requests do not: somebody waits for them, and
 * their coding runs at idle priority anyway.
 *
 * A kill at any instant loses work, never data: see index.h on what a commit promises.
 */

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <syslog.h>
#include <time.h>

#include "compact.h"
#include "writeback.h"

#define TICKETS 64u /* requests waiting or remembered */

#define TIMER_MAX_S     60u
#define RETRY_S         600    /* after a pass that failed */
#define DAY_S           86400  /* between two walks over all files for half-empty shared blocks */
#define BUSY_WINDOW_MS  200u   /* foreground operations are counted over this long */
#define BUSY_OPERATIONS 20u    /* more of them than this: busy (100 a second) */
#define BUSY_WAIT_MS    30000u /* a timer's pass goes on after so long, busy or not */

/* Without a pass, garbage is collected when it is this much, and a quarter of all. */
#define GC_BYTES ((uint64_t)64 << 20)

struct ticket {
    uint64_t number; /* 0 = free */
    struct fs_compact_request request;
    struct fs_compact_status status;
    bool done;
};

struct fs_compactor {
    struct fs *fs;
    pthread_t thread;
    pthread_mutex_t mutex; /* guards what follows */
    pthread_cond_t changed;
    struct ticket tickets[TICKETS];
    uint64_t last_number;            /* handed out last */
    struct ticket *running;          /* being worked on */
    struct gpu_pipeline *pipeline;   /* of the pass, to be cancelled by fs_compactor_stop */
    struct fs_compact_status status; /* of the current or last pass */
    uint64_t started_ms;
    bool paused;
    volatile bool stop; /* written under the mutex; polled by passes and by index_gc */

    /* the thread's own */
    uint64_t next_block; /* hot entries from here on were not looked at */
    int64_t due;         /* a pass has something to do from then on; INT64_MAX = nothing */
    int64_t walked_at;   /* last search for shared blocks that are mostly dead */
    uint64_t garbage;    /* bytes that the last collection left */
    bool cold_now;       /* files with cold=now were seen */
};

uint64_t compact_now_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000u + (uint64_t)now.tv_nsec / 1000000u;
}

void compact_notify(struct fs *fs, uint64_t ino)
{
    if (ino != 0)
        fs_notify(fs, ino);
}

/* ---- what a pass asks ---------------------------------------------------------------------- */

struct fs_compact_status *compact_status_lock(struct compact_pass *pass)
{
    pthread_mutex_lock(&pass->compactor->mutex);
    return &pass->compactor->status;
}

void compact_status_unlock(struct compact_pass *pass)
{
    pthread_mutex_unlock(&pass->compactor->mutex);
}

const volatile bool *compact_stop_flag(const struct compact_pass *pass)
{
    return &pass->compactor->stop;
}

void compact_set_pipeline(struct compact_pass *pass, struct gpu_pipeline *pipeline)
{
    pthread_mutex_lock(&pass->compactor->mutex);
    pass->compactor->pipeline = pipeline;
    if (pass->compactor->stop && pipeline != NULL)
        gpu_cancel(pipeline);
    pthread_mutex_unlock(&pass->compactor->mutex);
}

static void wait_ms(struct fs_compactor *compactor, uint64_t ms)
{
    const uint64_t end = compact_now_ms() + ms;
    const struct timespec until = {.tv_sec = (time_t)(end / 1000),
                                   .tv_nsec = (long)(end % 1000) * 1000000};

    (void)pthread_cond_timedwait(&compactor->changed, &compactor->mutex, &until);
}

/* Foreground operations since the last look, as long as that is recent. */
static bool foreground_busy(struct compact_pass *pass)
{
    const uint64_t now = compact_now_ms();
    const uint64_t seen = atomic_load(&pass->fs->counters.foreground);
    const uint64_t elapsed = now - pass->foreground_at;
    bool busy;

    if (elapsed < BUSY_WINDOW_MS)
        return false;
    busy = (seen - pass->foreground) * BUSY_WINDOW_MS > BUSY_OPERATIONS * elapsed;
    pass->foreground = seen;
    pass->foreground_at = now;
    return busy;
}

bool compact_gate(struct compact_pass *pass)
{
    struct fs_compactor *compactor = pass->compactor;
    uint64_t begin;

    pthread_mutex_lock(&compactor->mutex);
    while (compactor->paused && !compactor->stop)
        pthread_cond_wait(&compactor->changed, &compactor->mutex);
    if (pass->kind != COMPACT_ASKED && foreground_busy(pass)) {
        begin = compact_now_ms();
        do {
            wait_ms(compactor, BUSY_WINDOW_MS);
        } while (!compactor->stop && foreground_busy(pass) &&
                 compact_now_ms() - begin < BUSY_WAIT_MS);
    }
    const bool go_on = !compactor->stop;
    pthread_mutex_unlock(&compactor->mutex);
    return go_on;
}

/* ---- passes -------------------------------------------------------------------------------- */

static void begin_status(struct fs_compactor *compactor)
{
    compactor->status = (struct fs_compact_status){.running = true};
    compactor->started_ms = compact_now_ms();
}

static void end_status(struct fs_compactor *compactor, int error)
{
    struct fs_compact_status *status = &compactor->status;

    status->running = false;
    status->error = error;
    status->elapsed_ms = compact_now_ms() - compactor->started_ms;
    if (error == 0) { /* races and pieces left over make the forecast inexact */
        status->blocks_total = status->blocks_done;
        status->bytes_total = status->bytes_done;
    }
}

static int execute(struct fs_compactor *compactor, const struct fs_compact_request *request,
                   enum compact_kind kind)
{
    struct compact_pass pass = {.fs = compactor->fs,
                                .compactor = compactor,
                                .request = *request,
                                .kind = kind,
                                .foreground_at = compact_now_ms()};
    int error;

    pass.foreground = atomic_load(&compactor->fs->counters.foreground);
    pass.cold_now = compactor->cold_now;
    error = compact_pass_whole(&pass);
    if (kind == COMPACT_TIMER)
        compactor->due = pass.due;
    if (pass.collected)
        compactor->garbage = pass.garbage;
    if (error != 0 && error != -ECANCELED)
        fs_log(LOG_WARNING, "compaction stopped: %s; what was done so far stays", strerror(-error));
    return error;
}

/* ---- the timer ----------------------------------------------------------------------------- */

static uint32_t interval_s(const struct fs *fs)
{
    const uint32_t quarter = fs->options.cold_after / 4;

    if (quarter < 1)
        return 1;
    return quarter < TIMER_MAX_S ? quarter : TIMER_MAX_S;
}

/* Deletions make garbage without a pass. */
static int collect_deleted(struct fs_compactor *compactor)
{
    struct index_gc_result result;
    struct index_space space;
    uint64_t garbage;
    int error = index_space(compactor->fs->index, &space);

    if (error != 0 || space.pack_bytes <= space.live_bytes)
        return error;
    garbage = space.pack_bytes - space.live_bytes;
    if (garbage < compactor->garbage)
        compactor->garbage = garbage;
    if (garbage - compactor->garbage < GC_BYTES || garbage < space.pack_bytes / 4)
        return 0;
    error = index_gc(compactor->fs->index, COMPACT_GC_PERCENT, &compactor->stop, &result);
    if (error == 0)
        error = index_space(compactor->fs->index, &space);
    if (error == 0)
        compactor->garbage =
            space.pack_bytes > space.live_bytes ? space.pack_bytes - space.live_bytes : 0;
    return error;
}

static int timed_pass(struct fs_compactor *compactor, enum compact_kind kind)
{
    static const struct fs_compact_request by_policy = {0};
    int error;

    pthread_mutex_lock(&compactor->mutex);
    begin_status(compactor);
    pthread_mutex_unlock(&compactor->mutex);
    error = execute(compactor, &by_policy, kind);
    pthread_mutex_lock(&compactor->mutex);
    end_status(compactor, error);
    pthread_mutex_unlock(&compactor->mutex);
    return error;
}

static void on_timer(struct fs_compactor *compactor)
{
    const int64_t now = (int64_t)time(NULL);
    int64_t due = INT64_MAX;
    int error = compact_plan_due(compactor->fs, &compactor->next_block, &due, &compactor->cold_now);

    if (error == 0 && due < compactor->due)
        compactor->due = due;
    if (error == 0 && compactor->due <= now)
        error = timed_pass(compactor, COMPACT_TIMER);
    if (error == 0 && fs_promote_ready(compactor->fs)) {
        error = timed_pass(compactor, COMPACT_PROMOTE);
        compactor->next_block = 0; /* what was promoted is on the hot list under its old id */
    }
    if (error == 0 && now - compactor->walked_at > DAY_S) {
        compactor->walked_at = now;
        error = timed_pass(compactor, COMPACT_REPACK);
    }
    if (error == 0)
        error = collect_deleted(compactor);
    if (error != 0)
        compactor->due = now + RETRY_S;
}

/* ---- the thread ---------------------------------------------------------------------------- */

static struct ticket *next_ticket(struct fs_compactor *compactor)
{
    struct ticket *next = NULL;

    for (unsigned i = 0; i < TICKETS; i++) {
        struct ticket *ticket = &compactor->tickets[i];

        if (ticket->number != 0 && !ticket->done && (next == NULL || ticket->number < next->number))
            next = ticket;
    }
    return next;
}

static void serve(struct fs_compactor *compactor, struct ticket *ticket)
{
    const struct fs_compact_request request = ticket->request;
    int error;

    compactor->running = ticket;
    begin_status(compactor);
    pthread_mutex_unlock(&compactor->mutex);
    error = execute(compactor, &request, COMPACT_ASKED);
    pthread_mutex_lock(&compactor->mutex);
    end_status(compactor, error);
    ticket->status = compactor->status;
    ticket->done = true;
    compactor->running = NULL;
    pthread_cond_broadcast(&compactor->changed);
}

static void *run(void *arg)
{
    struct fs_compactor *compactor = arg;
    const uint64_t interval = (uint64_t)interval_s(compactor->fs) * 1000;
    uint64_t tick = compact_now_ms() + interval;

    (void)prctl(PR_SET_NAME, "sepfs-compactor");
    pthread_mutex_lock(&compactor->mutex);
    while (!compactor->stop) {
        struct ticket *ticket = next_ticket(compactor);
        const uint64_t now = compact_now_ms();

        if (ticket != NULL) {
            serve(compactor, ticket);
        } else if (now >= tick && !compactor->paused) {
            pthread_mutex_unlock(&compactor->mutex);
            on_timer(compactor);
            pthread_mutex_lock(&compactor->mutex);
            tick = compact_now_ms() + interval;
        } else {
            wait_ms(compactor, now < tick ? tick - now : interval);
        }
    }
    pthread_mutex_unlock(&compactor->mutex);
    return NULL;
}

/* ---- what others call ---------------------------------------------------------------------- */

int fs_compactor_start(struct fs *fs)
{
    struct fs_compactor *compactor;
    pthread_condattr_t attr;
    sigset_t all;
    sigset_t old;
    int error;

    fs->compactor = NULL;
    if (fs->options.compact == FS_COMPACT_OFF || index_readonly(fs->index))
        return 0;
    compactor = calloc(1, sizeof *compactor);
    if (compactor == NULL)
        return -ENOMEM;
    compactor->fs = fs;
    compactor->due = INT64_MAX;
    compactor->walked_at = (int64_t)time(NULL);
    pthread_mutex_init(&compactor->mutex, NULL);
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&compactor->changed, &attr);
    pthread_condattr_destroy(&attr);
    /* Signals are for the main thread. */
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    error = -pthread_create(&compactor->thread, NULL, run, compactor);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    if (error != 0) {
        pthread_cond_destroy(&compactor->changed);
        pthread_mutex_destroy(&compactor->mutex);
        free(compactor);
        return error;
    }
    fs->compactor = compactor;
    return 0;
}

void fs_compactor_stop(struct fs *fs)
{
    struct fs_compactor *compactor = fs->compactor;

    if (compactor == NULL)
        return;
    pthread_mutex_lock(&compactor->mutex);
    compactor->stop = true;
    if (compactor->pipeline != NULL)
        gpu_cancel(compactor->pipeline);
    pthread_cond_broadcast(&compactor->changed);
    pthread_mutex_unlock(&compactor->mutex);
    pthread_join(compactor->thread, NULL);
    fs->compactor = NULL;
    pthread_cond_destroy(&compactor->changed);
    pthread_mutex_destroy(&compactor->mutex);
    free(compactor);
}

int fs_compactor_request(struct fs *fs, const struct fs_compact_request *request, uint64_t *number)
{
    struct fs_compactor *compactor = fs->compactor;
    struct ticket *slot = NULL;

    if (compactor == NULL)
        return -EOPNOTSUPP;
    pthread_mutex_lock(&compactor->mutex);
    /* A free slot, else the oldest request that has ended. */
    for (unsigned i = 0; i < TICKETS; i++) {
        struct ticket *ticket = &compactor->tickets[i];

        if (ticket->number != 0 && !ticket->done)
            continue;
        if (slot == NULL || ticket->number < slot->number)
            slot = ticket;
    }
    if (slot != NULL) {
        *slot = (struct ticket){.number = ++compactor->last_number, .request = *request};
        *number = slot->number;
        pthread_cond_broadcast(&compactor->changed);
    }
    pthread_mutex_unlock(&compactor->mutex);
    return slot != NULL ? 0 : -EBUSY;
}

static void present_status(struct fs_compactor *compactor, struct fs_compact_status *status)
{
    *status = compactor->status;
    status->paused = compactor->paused;
    if (status->running)
        status->elapsed_ms = compact_now_ms() - compactor->started_ms;
}

int fs_compactor_wait(struct fs *fs, uint64_t number, unsigned timeout_ms,
                      struct fs_compact_status *status)
{
    const uint64_t end = compact_now_ms() + timeout_ms;
    struct fs_compactor *compactor = fs->compactor;
    struct ticket *ticket = NULL;
    int result = 0;

    if (compactor == NULL)
        return -EOPNOTSUPP;
    pthread_mutex_lock(&compactor->mutex);
    for (;;) {
        const uint64_t now = compact_now_ms();

        ticket = NULL;
        for (unsigned i = 0; i < TICKETS && number != 0; i++) {
            if (compactor->tickets[i].number == number)
                ticket = &compactor->tickets[i];
        }
        if (ticket == NULL || ticket->done || compactor->stop || now >= end)
            break;
        wait_ms(compactor, end - now);
    }
    if (ticket == NULL) {
        result = -ENOENT;
    } else if (ticket->done) {
        *status = ticket->status;
        result = 1;
    } else if (compactor->running == ticket) {
        present_status(compactor, status);
    } else { /* its turn has not come */
        *status = (struct fs_compact_status){.paused = compactor->paused};
    }
    pthread_mutex_unlock(&compactor->mutex);
    return result;
}

void fs_compactor_pause(struct fs *fs, bool pause)
{
    struct fs_compactor *compactor = fs->compactor;

    if (compactor == NULL)
        return;
    pthread_mutex_lock(&compactor->mutex);
    compactor->paused = pause;
    pthread_cond_broadcast(&compactor->changed);
    pthread_mutex_unlock(&compactor->mutex);
}

void fs_compactor_status(struct fs *fs, struct fs_compact_status *status)
{
    struct fs_compactor *compactor = fs->compactor;

    *status = (struct fs_compact_status){0};
    if (compactor == NULL)
        return;
    pthread_mutex_lock(&compactor->mutex);
    present_status(compactor, status);
    pthread_mutex_unlock(&compactor->mutex);
}
