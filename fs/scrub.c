/* SPDX-License-Identifier: BSD-2-Clause
 *
 * scrub.c - the background scrub: every record that a block lies in is read once a period and held
 * to its checksum and to the index. It writes nothing but its position, which goes into the index
 * every SAVE_MS and at the end, so that the next mount goes on where this one was.
 *
 * Two threads. The reader reads and sums under SCHED_IDLE and in the idle I/O class, and takes no
 * lock: a thread of that kind may stand still for seconds on a busy machine, and nobody must wait
 * for what it holds. The keeper, at normal priority, looks blocks up, opens packs, judges and
 * sleeps; that is a few microseconds a block.
 *
 * How fast: a round of the timer is to fill half of its period, at MIN_RATE at least. While other
 * operations or the compactor are at work it waits, as long as it is not behind the schedule that
 * ends it with the period; so a store that is busy for ever is checked all the same. A round that
 * was asked for neither waits nor holds a rate, but reads at idle priority too.
 */
#include "scrub.h"

#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <syslog.h>
#include <time.h>
#include <unistd.h>

#include "compactor.h"

#define MIN_RATE        ((uint64_t)8 << 20) /* bytes a second */
#define SAVE_MS         10000u
#define NAP_MS          200u
#define BUSY_OPERATIONS 20u     /* in NAP_MS: more are foreground load (100 a second) */
#define SLEEP_MAX_MS    60000u  /* the clock may be set */
#define RETRY_MS        600000u /* after an error of the store, not of a record */

/* linux/ioprio.h is missing from older kernel headers. */
#define IO_WHO_PROCESS 1
#define IO_CLASS_IDLE  (3 << 13)

struct fs_scrub {
    struct fs *fs;
    pthread_t keeper, reader;
    bool reader_runs; /* the keeper's own */
    sem_t work, done; /* a batch for the reader; the batch is read */
    bool reader_ends; /* set before a last post of work */
    struct index_scrub_batch batch;

    pthread_mutex_t mutex; /* guards what follows */
    pthread_cond_t changed;
    bool stop;
    atomic_bool interrupt; /* stop or halt: polled by the reader within a batch */
    bool halted;
    bool asked; /* the round under way, or the next one, was asked for */
    enum fs_scrub_state state;
    struct index_scrub progress;
    uint64_t live_bytes;

    /* the keeper's own */
    uint64_t saved_ms, retry_ms;
    uint64_t foreground; /* operations seen at the last look */
};

static uint64_t now_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000u + (uint64_t)now.tv_nsec / 1000000u;
}

/* ---- the reader ------------------------------------------------------------------------------ */

static void *reader(void *arg)
{
    struct fs_scrub *scrub = arg;
    const struct sched_param param = {0};

    (void)prctl(PR_SET_NAME, "sepfs-scrub-io");
    /* Either may be refused: it then competes as an ordinary thread, at its rate. */
    (void)pthread_setschedparam(pthread_self(), SCHED_IDLE, &param);
    (void)syscall(SYS_ioprio_set, IO_WHO_PROCESS, 0, IO_CLASS_IDLE);
    for (;;) {
        while (sem_wait(&scrub->work) != 0)
            ;
        if (scrub->reader_ends)
            return NULL;
        index_scrub_read(scrub->fs->index, &scrub->batch, &scrub->interrupt);
        sem_post(&scrub->done);
    }
}

static int start_reader(struct fs_scrub *scrub)
{
    int error;

    if (scrub->reader_runs)
        return 0;
    error = -pthread_create(&scrub->reader, NULL, reader, scrub); /* inherits the signal mask */
    scrub->reader_runs = error == 0;
    return error;
}

/* ---- waiting; the mutex is held -------------------------------------------------------------- */

static void wait_ms(struct fs_scrub *scrub, uint64_t ms)
{
    const uint64_t end = now_ms() + ms;
    const struct timespec until = {.tv_sec = (time_t)(end / 1000),
                                   .tv_nsec = (long)(end % 1000) * 1000000};

    (void)pthread_cond_timedwait(&scrub->changed, &scrub->mutex, &until);
}

static bool resting(const struct fs_scrub *scrub)
{
    return scrub->stop || scrub->halted;
}

/* Whether others were at work during a nap. */
static bool busy(struct fs_scrub *scrub)
{
    struct fs_compact_status compaction = {0};
    uint64_t seen;

    scrub->foreground = atomic_load(&scrub->fs->counters.foreground);
    wait_ms(scrub, NAP_MS);
    seen = atomic_load(&scrub->fs->counters.foreground);
    if (scrub->fs->compactor != NULL)
        fs_compactor_status(scrub->fs, &compaction);
    return seen - scrub->foreground > BUSY_OPERATIONS || (compaction.running && !compaction.paused);
}

/* When the bytes checked so far are due by the schedule of the period: seconds since the epoch. */
static int64_t schedule(const struct fs_scrub *scrub)
{
    const struct index_scrub *progress = &scrub->progress;
    double share = scrub->live_bytes == 0 ? 1 : (double)progress->bytes / (double)scrub->live_bytes;

    if (share > 1)
        share = 1;
    return progress->started_at + (int64_t)(share * (double)scrub->fs->options.scrub);
}

/* Waits while others are at work and the schedule allows it. */
static void give_way(struct fs_scrub *scrub)
{
    while (!resting(scrub) && !scrub->asked && (int64_t)time(NULL) < schedule(scrub)) {
        scrub->state = FS_SCRUB_WAITING;
        if (!busy(scrub))
            break;
    }
}

/* Waits until BYTES, read since BEGIN, are no more than the rate allows. */
static void hold_rate(struct fs_scrub *scrub, uint64_t bytes, uint64_t begin)
{
    uint64_t rate = MIN_RATE;
    uint64_t end;

    if (scrub->fs->options.scrub > 0 && scrub->live_bytes * 2 / scrub->fs->options.scrub > rate)
        rate = scrub->live_bytes * 2 / scrub->fs->options.scrub;
    end = begin + bytes * 1000 / rate;
    scrub->state = FS_SCRUB_WAITING;
    while (!resting(scrub) && !scrub->asked && now_ms() < end)
        wait_ms(scrub, end - now_ms() + 1);
}

/* ---- the position ---------------------------------------------------------------------------- */

/* Puts the position into the index; durable with its next commit. */
static int save(struct fs_scrub *scrub, const struct index_scrub *progress)
{
    struct index_txn *txn;
    int error = index_begin(scrub->fs->index, INDEX_WRITE, &txn);

    if (error != 0)
        return error;
    error = index_scrub_put(txn, progress);
    index_end(txn);
    scrub->saved_ms = now_ms();
    return error;
}

static int load(struct fs_scrub *scrub)
{
    struct index *index = scrub->fs->index;
    struct index_space space;
    struct index_txn *txn;
    int error = index_space(index, &space);

    if (error == 0)
        error = index_begin(index, INDEX_READ, &txn);
    if (error != 0)
        return error;
    scrub->live_bytes = space.live_bytes;
    error = index_scrub_get(txn, &scrub->progress);
    index_end(txn);
    return error == -EUCLEAN ? 0 : error; /* logged; begins anew */
}

/* ---- a round --------------------------------------------------------------------------------- */

static void report(struct fs_scrub *scrub, const struct index_scrub_record *record)
{
    const struct index_block *block = &record->block;
    char path[512] = "a file that sepfs-fsck --scrub names";
    struct index_txn *txn;

    if (record->owner != 0 && index_begin(scrub->fs->index, INDEX_READ, &txn) == 0) {
        index_inode_path(txn, record->owner, path, sizeof(path));
        index_end(txn);
    }
    fs_log(LOG_ERR, "scrub: %s: block %llu in pack %u at offset %llu: %s", path,
           (unsigned long long)block->id, block->at.pack, (unsigned long long)block->at.offset,
           record->reason);
}

static int check_headers(struct fs_scrub *scrub, uint64_t *damaged)
{
    const char *problem;
    uint32_t id = 0;
    int error;

    *damaged = 0;
    while ((error = index_scrub_header(scrub->fs->index, id, &id, &problem)) == 0) {
        fs_log(LOG_ERR, "scrub: pack %u: %s", id, problem);
        ++*damaged;
        if (id++ == UINT32_MAX)
            break;
    }
    return error == -ENOENT ? 0 : error;
}

static int begin_round(struct fs_scrub *scrub)
{
    struct index_scrub *progress = &scrub->progress;
    uint64_t headers;
    int error = check_headers(scrub, &headers);

    if (error != 0)
        return error;
    pthread_mutex_lock(&scrub->mutex);
    progress->started_at = (int64_t)time(NULL);
    progress->next_block = 1;
    progress->end_block = index_scrub_end(scrub->fs->index);
    progress->blocks = progress->bytes = progress->damaged = 0;
    progress->damaged_packs = headers;
    pthread_mutex_unlock(&scrub->mutex);
    return save(scrub, progress);
}

/* Durable before anybody hears of it. */
static int end_round(struct fs_scrub *scrub)
{
    struct index_scrub done = scrub->progress;
    int error;

    done.finished_at = (int64_t)time(NULL);
    done.next_block = 0;
    done.rounds++;
    done.last_blocks = done.blocks;
    done.last_bytes = done.bytes;
    done.last_damaged = done.damaged;
    done.last_damaged_packs = done.damaged_packs;
    error = save(scrub, &done);
    if (error == 0)
        error = index_commit(scrub->fs->index);
    if (error != 0)
        return error;
    fs_log(done.damaged + done.damaged_packs > 0 ? LOG_ERR : LOG_INFO,
           "scrub: %llu blocks checked, %llu bytes; %llu blocks and %llu pack headers are damaged",
           (unsigned long long)done.blocks, (unsigned long long)done.bytes,
           (unsigned long long)done.damaged, (unsigned long long)done.damaged_packs);
    pthread_mutex_lock(&scrub->mutex);
    scrub->progress = done;
    scrub->asked = false;
    scrub->state = FS_SCRUB_IDLE;
    pthread_mutex_unlock(&scrub->mutex);
    return 0;
}

/* Checks the blocks of one batch. -ENOENT: none are left. */
static int step(struct fs_scrub *scrub)
{
    struct index_scrub_batch *batch = &scrub->batch;
    struct index_space space;
    int error = index_scrub_take(scrub->fs->index, scrub->progress.next_block,
                                 scrub->progress.end_block, batch);

    if (error != 0)
        return error;
    sem_post(&scrub->work);
    while (sem_wait(&scrub->done) != 0)
        ;
    error = index_scrub_settle(scrub->fs->index, batch);
    if (error != 0)
        return error;
    for (unsigned i = 0; i < batch->count; i++) {
        if (batch->records[i].kind != NULL)
            report(scrub, &batch->records[i]);
    }
    error = index_space(scrub->fs->index, &space);
    pthread_mutex_lock(&scrub->mutex);
    scrub->progress.next_block = batch->next;
    scrub->progress.blocks += batch->count;
    scrub->progress.bytes += batch->bytes;
    for (unsigned i = 0; i < batch->count; i++)
        scrub->progress.damaged += batch->records[i].kind != NULL;
    if (error == 0)
        scrub->live_bytes = space.live_bytes;
    pthread_mutex_unlock(&scrub->mutex);
    return error;
}

static int run_round(struct fs_scrub *scrub)
{
    int error = start_reader(scrub);

    if (error == 0 && scrub->progress.next_block == 0)
        error = begin_round(scrub);
    while (error == 0) {
        const uint64_t begin = now_ms();
        bool rest;

        pthread_mutex_lock(&scrub->mutex);
        give_way(scrub);
        rest = resting(scrub);
        if (!rest)
            scrub->state = FS_SCRUB_RUNNING;
        pthread_mutex_unlock(&scrub->mutex);
        if (rest)
            return save(scrub, &scrub->progress);
        error = step(scrub);
        if (error != 0)
            break;
        pthread_mutex_lock(&scrub->mutex);
        hold_rate(scrub, scrub->batch.bytes, begin);
        pthread_mutex_unlock(&scrub->mutex);
        if (now_ms() - scrub->saved_ms >= SAVE_MS)
            error = save(scrub, &scrub->progress);
    }
    return error == -ENOENT ? end_round(scrub) : error;
}

/* ---- the keeper ------------------------------------------------------------------------------ */

/* Milliseconds until a round is to run; 0 = now. Called with the mutex. */
static uint64_t until_due(const struct fs_scrub *scrub)
{
    const uint32_t period = scrub->fs->options.scrub;
    const struct index_scrub *progress = &scrub->progress;
    const int64_t now = (int64_t)time(NULL);
    int64_t due;

    if (scrub->halted)
        return SLEEP_MAX_MS;
    if (scrub->asked)
        return 0;
    if (now_ms() < scrub->retry_ms)
        return scrub->retry_ms - now_ms();
    if (period == 0)
        return SLEEP_MAX_MS;
    /* A round begins a period after the last one began; a clock that was set back makes it due. */
    due = progress->next_block != 0 || progress->rounds == 0 ? 0 : progress->started_at + period;
    if (due <= now || due > now + (int64_t)period)
        return 0;
    return (uint64_t)(due - now) * 1000 < SLEEP_MAX_MS ? (uint64_t)(due - now) * 1000
                                                       : SLEEP_MAX_MS;
}

static void *keeper(void *arg)
{
    struct fs_scrub *scrub = arg;

    (void)prctl(PR_SET_NAME, "sepfs-scrub");
    pthread_mutex_lock(&scrub->mutex);
    while (!scrub->stop) {
        const uint64_t ms = until_due(scrub);
        int error;

        if (ms > 0) {
            scrub->state = scrub->halted ? FS_SCRUB_STOPPED : FS_SCRUB_IDLE;
            wait_ms(scrub, ms);
            continue;
        }
        pthread_mutex_unlock(&scrub->mutex);
        error = run_round(scrub);
        if (error != 0)
            fs_log(LOG_ERR, "scrub: %s: %s; it goes on later", index_path(scrub->fs->index),
                   strerror(-error));
        pthread_mutex_lock(&scrub->mutex);
        if (error != 0) {
            scrub->asked = false;
            scrub->retry_ms = now_ms() + RETRY_MS;
        }
    }
    pthread_mutex_unlock(&scrub->mutex);
    return NULL;
}

/* ---- what others call ------------------------------------------------------------------------ */

static void free_scrub(struct fs_scrub *scrub)
{
    index_scrub_free(&scrub->batch);
    sem_destroy(&scrub->work);
    sem_destroy(&scrub->done);
    pthread_cond_destroy(&scrub->changed);
    pthread_mutex_destroy(&scrub->mutex);
    free(scrub);
}

int fs_scrub_start(struct fs *fs)
{
    struct fs_scrub *scrub;
    pthread_condattr_t attr;
    sigset_t all, old;
    int error;

    if (index_readonly(fs->index))
        return 0;
    scrub = calloc(1, sizeof(*scrub));
    if (scrub == NULL)
        return -ENOMEM;
    scrub->fs = fs;
    scrub->saved_ms = now_ms();
    sem_init(&scrub->work, 0, 0);
    sem_init(&scrub->done, 0, 0);
    pthread_mutex_init(&scrub->mutex, NULL);
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&scrub->changed, &attr);
    pthread_condattr_destroy(&attr);
    error = load(scrub);
    if (error == 0) {
        sigfillset(&all); /* signals are for the main thread */
        pthread_sigmask(SIG_SETMASK, &all, &old);
        error = -pthread_create(&scrub->keeper, NULL, keeper, scrub);
        pthread_sigmask(SIG_SETMASK, &old, NULL);
    }
    if (error != 0)
        free_scrub(scrub);
    else
        fs->scrub = scrub;
    return error;
}

void fs_scrub_stop(struct fs *fs)
{
    struct fs_scrub *scrub = fs->scrub;

    if (scrub == NULL)
        return;
    pthread_mutex_lock(&scrub->mutex);
    scrub->stop = true;
    atomic_store(&scrub->interrupt, true);
    pthread_cond_broadcast(&scrub->changed);
    pthread_mutex_unlock(&scrub->mutex);
    pthread_join(scrub->keeper, NULL);
    if (scrub->reader_runs) {
        scrub->reader_ends = true;
        sem_post(&scrub->work);
        pthread_join(scrub->reader, NULL);
    }
    fs->scrub = NULL;
    free_scrub(scrub);
}

int fs_scrub_begin(struct fs *fs, uint64_t *round)
{
    struct fs_scrub *scrub = fs->scrub;

    if (scrub == NULL)
        return -EOPNOTSUPP;
    pthread_mutex_lock(&scrub->mutex);
    scrub->halted = false;
    atomic_store(&scrub->interrupt, scrub->stop);
    scrub->asked = true;
    *round = scrub->progress.rounds + 1;
    pthread_cond_broadcast(&scrub->changed);
    pthread_mutex_unlock(&scrub->mutex);
    return 0;
}

int fs_scrub_halt(struct fs *fs)
{
    struct fs_scrub *scrub = fs->scrub;

    if (scrub == NULL)
        return -EOPNOTSUPP;
    pthread_mutex_lock(&scrub->mutex);
    scrub->halted = true;
    atomic_store(&scrub->interrupt, true);
    scrub->asked = false;
    pthread_cond_broadcast(&scrub->changed);
    pthread_mutex_unlock(&scrub->mutex);
    return 0;
}

int fs_scrub_status(struct fs *fs, struct fs_scrub_status *status)
{
    struct fs_scrub *scrub = fs->scrub;

    *status = (struct fs_scrub_status){0};
    if (scrub == NULL)
        return -EOPNOTSUPP;
    pthread_mutex_lock(&scrub->mutex);
    status->state = scrub->halted ? FS_SCRUB_STOPPED : scrub->state;
    if (!scrub->halted && scrub->asked) /* it does not wait for anything */
        status->state = FS_SCRUB_RUNNING;
    status->progress = scrub->progress;
    status->live_bytes = scrub->live_bytes;
    pthread_mutex_unlock(&scrub->mutex);
    return 0;
}

const char *fs_scrub_state_text(enum fs_scrub_state state)
{
    static const char *const texts[] = {[FS_SCRUB_IDLE] = "idle",
                                        [FS_SCRUB_RUNNING] = "running",
                                        [FS_SCRUB_WAITING] = "waiting",
                                        [FS_SCRUB_STOPPED] = "stopped"};

    return texts[state];
}
