/* SPDX-License-Identifier: BSD-2-Clause
 *
 * powercut_replay.c - see powercut_replay.h. Each process goes through the whole log and looks at
 * every n-th of the chosen points, so that a store that ends the process costs one share of them.
 * What is chosen, and what a cut leaves, follows from the seed, the point and the variant alone.
 */
#include "powercut_replay.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "powercut_disk.h"
#include "powercut_store.h"

#define CREATION_VARIANTS 4u   /* at each point before the store exists */
#define CHECK_SECONDS     120u /* before a look at a store counts as hung */
#define AGAIN             8u   /* one store in so many is opened twice */
#define NESTED_STEPS      12u
#define NESTED_SHARE      40u  /* of 1,000 points of a nested log */
#define RECOVERY_SHARE    500u /* of those at which the store is being opened */
#define JOBS_MAX          64u
#define PATH              512u

struct log {
    const uint8_t *data;
    size_t size;
};

struct job {
    const struct replay_options *options;
    struct replay_result *result;
    const char *log_path;
    char directory[PATH]; /* for the stores */
    char where[128];      /* of a nested log: the point of the outer one */
    struct disk *disk;
    struct promise *promise;
    uint64_t point;
    unsigned number, variant;
    bool nested;
    bool opened; /* in a nested log: the session has the store */
};

static void die(const char *what)
{
    fprintf(stderr, "powercut: %s: %s\n", what, strerror(errno));
    abort();
}

struct replay_result *replay_result_new(void)
{
    struct replay_result *const result =
        mmap(NULL, sizeof *result, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (result == MAP_FAILED)
        die("memory");
    return result;
}

static int remove_entry(const char *path, const struct stat *status, int type, struct FTW *ftw)
{
    (void)status;
    (void)type;
    (void)ftw;
    return remove(path);
}

void replay_remove(const char *path)
{
    nftw(path, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
}

/* ---- log ------------------------------------------------------------------------------------------- */

static struct log open_log(const char *path)
{
    struct stat status;
    struct log log = {.data = NULL};
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &status) < 0 || status.st_size == 0)
        die(path);
    log.size = (size_t)status.st_size;
    log.data = mmap(NULL, log.size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (log.data == MAP_FAILED)
        die(path);
    close(fd);
    return log;
}

static void close_log(struct log *log)
{
    munmap((void *)(uintptr_t)log->data, log->size);
}

/* The entry at *at, and moves behind it. False at the end. */
static bool next_entry(const struct log *log, size_t *at, struct record_entry *entry,
                       const uint8_t **payload)
{
    if (log->size - *at < sizeof *entry)
        return false;
    memcpy(entry, log->data + *at, sizeof *entry);
    *at += sizeof *entry;
    if (log->size - *at < entry->size)
        return false;
    *payload = log->data + *at;
    *at += entry->size;
    return true;
}

static bool read_mark(const struct record_entry *entry, const uint8_t *payload, struct mark *mark)
{
    if (entry->type != RECORD_MARK || entry->size != sizeof *mark)
        return false;
    memcpy(mark, payload, sizeof *mark);
    return true;
}

/* ---- points ---------------------------------------------------------------------------------------- */

static uint64_t hash(uint64_t seed, uint64_t point, uint64_t what)
{
    uint64_t state = seed * UINT64_C(0x100000001B3) ^ point * UINT64_C(0xC2B2AE3D27D4EB4F) ^ what;
    return powercut_random(&state);
}

static bool around_sync(const struct record_entry *entry, const struct mark *mark)
{
    return entry->type == RECORD_SYNC || entry->type == RECORD_SYNCED ||
           entry->type == RECORD_WRITTEN || (mark != NULL && mark->kind <= MARK_CONF_SET);
}

static bool chosen(const struct job *job, bool sync)
{
    const struct replay_options *const o = job->options;
    unsigned share = sync ? o->syncs : o->others;
    if (!promise_opened(job->promise)) /* creation is short, and happens once in a log */
        share = 1000;
    if (job->nested)
        share = !job->opened ? RECOVERY_SHARE : share < NESTED_SHARE ? share : NESTED_SHARE;
    return hash(o->seed, job->point, 1) % 1000 < share;
}

static void fail(struct job *job, const char *text)
{
    char line[512];
    snprintf(line, sizeof line, "seed %" PRIu64 "%s, point %" PRIu64 ", variant %u: %s",
             job->options->seed, job->where, job->point, job->variant, text);
    if (atomic_fetch_add(&job->result->failures, 1) == 0)
        memcpy(job->result->first, line, sizeof line);
    if (!job->options->quiet)
        fprintf(stderr,
                "%s\n  the store: powercut_check --log=%s --seed=%" PRIu64 " --point=%" PRIu64
                " --variant=%u --keep=DIRECTORY\n",
                line, job->log_path, job->options->seed, job->point, job->variant);
}

static bool ended(const struct job *job)
{
    return atomic_load(&job->result->failures) >= job->options->failures;
}

/* A cut, in a directory of its own. */
static void make_cut(const struct job *job)
{
    struct disk_fates fates = {0};
    replay_remove(job->directory);
    if (mkdir(job->directory, 0700) < 0)
        die(job->directory);
    disk_cut(job->disk, job->options->seed, job->variant, job->directory, &fates);
    atomic_fetch_add(&job->result->lost, fates.lost);
    atomic_fetch_add(&job->result->kept, fates.kept);
    atomic_fetch_add(&job->result->torn, fates.torn);
    atomic_fetch_add(&job->result->sectors, fates.sectors);
}

static void look(struct job *job, unsigned variant)
{
    char store[PATH + 16], text[256] = "";
    if (ended(job))
        return;
    job->variant = variant;
    make_cut(job);
    snprintf(store, sizeof store, "%s/store", job->directory);
    alarm(CHECK_SECONDS);
    const bool again = hash(job->options->seed, job->point, variant + 100) % AGAIN == 0;
    if (!store_holds(store, job->promise, again, text, sizeof text))
        fail(job, text);
    alarm(0);
    atomic_fetch_add(&job->result->cuts, 1);
    if (job->nested)
        atomic_fetch_add(&job->result->nested_cuts, 1);
    if (job->nested && !job->opened)
        atomic_fetch_add(&job->result->recoveries, 1);
}

static void go_through(struct job *job, const char *path);

/* Sessions go on from a cut, in a process that has the promises of before. */
static void look_nested(struct job *outer)
{
    const struct replay_options *const o = outer->options;
    struct job job = *outer;
    char log[PATH + 16];
    outer->variant = DISK_RANDOM + (unsigned)(hash(o->seed, outer->point, 2) % 1000);
    make_cut(outer);
    job.nested = true;
    job.opened = false;
    job.number = 0;
    snprintf(job.where, sizeof job.where, ", point %" PRIu64 ", variant %u, going on", outer->point,
             outer->variant);
    snprintf(log, sizeof log, "%s.log", outer->directory);
    alarm(CHECK_SECONDS);
    const int status = replay_work(o->workload, outer->directory, log,
                                   hash(o->seed, outer->point, 3), 1, NESTED_STEPS, o->sessions);
    alarm(0);
    if (status != 0) {
        fail(outer, "the store cannot be worked on");
    } else {
        job.disk = disk_new();
        go_through(&job, log);
        disk_free(job.disk);
    }
    atomic_fetch_add(&outer->result->nested, 1);
}

static void fork_nested(struct job *job)
{
    const unsigned long before = atomic_load(&job->result->failures);
    char log[PATH + 16], kept[PATH + 64];
    int status;
    const pid_t pid = fork();
    if (pid < 0)
        die("fork");
    if (pid == 0) {
        look_nested(job);
        _exit(0);
    }
    if (waitpid(pid, &status, 0) != pid)
        die("waitpid");
    if (status != 0)
        fail(job, "the process that went on from it died");
    snprintf(log, sizeof log, "%s.log", job->directory);
    snprintf(kept, sizeof kept, "%s.%" PRIu64, log, job->point);
    if (atomic_load(&job->result->failures) > before)
        rename(log, kept);
    else
        unlink(log);
}

/* A damaged store is not worked on. */
static bool goes_on(const struct job *job)
{
    return !job->nested && job->options->workload != NULL && !promise_damaged(job->promise) &&
           hash(job->options->seed, job->point, 5) % 1000 < job->options->nested && !ended(job);
}

static void look_at_point(struct job *job, bool sync)
{
    const struct replay_options *const o = job->options;
    look(job, DISK_NOTHING);
    if (hash(o->seed, job->point, 4) % 4 == 0)
        look(job, DISK_EVERYTHING);
    const unsigned variants = promise_opened(job->promise) ? o->variants : CREATION_VARIANTS;
    for (unsigned i = 0; i < variants; i++)
        look(job, DISK_RANDOM + i);
    atomic_fetch_add(sync ? &job->result->syncs : &job->result->others, 1);
    if (goes_on(job))
        fork_nested(job);
}

static void go_through(struct job *job, const char *path)
{
    const unsigned jobs = job->nested ? 1 : job->options->jobs;
    struct log log = open_log(path);
    struct record_entry entry;
    const uint8_t *payload;
    struct mark mark;
    uint64_t count = 0;
    bool started = false;
    job->log_path = path;
    job->point = 0;
    for (size_t at = 0; next_entry(&log, &at, &entry, &payload) && !ended(job); job->point++) {
        const bool marked = read_mark(&entry, payload, &mark);
        disk_apply(job->disk, &entry, payload);
        if (marked)
            promise_mark(job->promise, &mark);
        if (promise_opened(job->promise))
            disk_lose(job->disk, job->options->lose);
        started = started || entry.type == RECORD_BASE;
        job->opened = job->opened || (marked && mark.kind == MARK_OPENED);
        const bool sync = around_sync(&entry, marked ? &mark : NULL);
        if (started && chosen(job, sync) && count++ % jobs == job->number)
            look_at_point(job, sync);
    }
    close_log(&log);
}

/* ---- jobs ------------------------------------------------------------------------------------------ */

static void run_job(struct job *job, const char *path)
{
    job->disk = disk_new();
    job->promise = promise_new();
    go_through(job, path);
    replay_remove(job->directory);
    disk_free(job->disk);
    promise_free(job->promise);
}

void replay_log(const struct replay_options *options, const char *log, struct replay_result *result)
{
    struct job *const jobs = mmap(NULL, JOBS_MAX * sizeof *jobs, PROT_READ | PROT_WRITE,
                                  MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    pid_t pids[JOBS_MAX];
    const unsigned count = options->jobs < JOBS_MAX ? options->jobs : JOBS_MAX;
    if (jobs == MAP_FAILED)
        die("memory");
    for (unsigned i = 0; i < count; i++) {
        jobs[i] = (struct job){.options = options, .result = result, .log_path = log, .number = i};
        snprintf(jobs[i].directory, PATH, "%s/cut%u", options->scratch, i);
        pids[i] = fork();
        if (pids[i] < 0)
            die("fork");
        if (pids[i] == 0) {
            run_job(&jobs[i], log);
            exit(0);
        }
    }
    for (unsigned i = 0; i < count; i++) {
        char text[64];
        int status;
        if (waitpid(pids[i], &status, 0) != pids[i])
            die("waitpid");
        snprintf(text, sizeof text, "the process that looked died: status %x", (unsigned)status);
        jobs[i].log_path = log;
        if (status != 0)
            fail(&jobs[i], text);
    }
    munmap(jobs, JOBS_MAX * sizeof *jobs);
}

/* Takes in entries up to POINT. */
static struct disk *disk_at(const struct replay_options *options, const char *path, uint64_t point)
{
    struct disk *const disk = disk_new();
    struct log *const log = malloc(sizeof *log);
    struct record_entry entry;
    const uint8_t *payload;
    struct mark mark;
    size_t at = 0;
    if (log == NULL)
        die("memory");
    *log = open_log(path); /* stays mapped: the disk refers to it */
    for (uint64_t i = 0; i <= point && next_entry(log, &at, &entry, &payload); i++) {
        disk_apply(disk, &entry, payload);
        if (read_mark(&entry, payload, &mark) && mark.kind == MARK_OPENED)
            disk_lose(disk, options->lose);
    }
    free(log);
    return disk;
}

void replay_keep(const struct replay_options *options, const char *log, uint64_t point,
                 unsigned variant, const char *directory)
{
    struct disk *const disk = disk_at(options, log, point);
    struct disk_fates fates = {0};
    if (mkdir(directory, 0700) < 0)
        die(directory);
    disk_cut(disk, options->seed, variant, directory, &fates);
    disk_free(disk);
}

bool replay_complete(const struct replay_options *options, const char *log, const char *top)
{
    char directory[PATH], command[3 * PATH];
    snprintf(directory, sizeof directory, "%s/whole", options->scratch);
    replay_keep(options, log, UINT64_MAX, DISK_EVERYTHING, directory);
    snprintf(command, sizeof command, "diff -r -x lock.mdb '%s' '%s' >&2", directory, top);
    const bool same = system(command) == 0;
    replay_remove(directory);
    return same;
}

int replay_work(const char *workload, const char *top, const char *log, uint64_t seed,
                unsigned sessions, unsigned steps, unsigned first)
{
    char store[PATH + 16], numbers[4][32];
    int status;
    snprintf(store, sizeof store, "%s/store", top);
    snprintf(numbers[0], sizeof numbers[0], "%" PRIu64, seed);
    snprintf(numbers[1], sizeof numbers[1], "%u", sessions);
    snprintf(numbers[2], sizeof numbers[2], "%u", steps);
    snprintf(numbers[3], sizeof numbers[3], "%u", first);
    const pid_t pid = fork();
    if (pid < 0)
        die("fork");
    if (pid == 0) {
        setenv("RECORD_TOP", top, 1);
        setenv("RECORD_LOG", log, 1);
        setenv("RECORD_SYNC_US", "300", 1);
        execl(workload, workload, store, numbers[0], numbers[1], numbers[2], numbers[3],
              (char *)NULL);
        perror(workload);
        _exit(127);
    }
    if (waitpid(pid, &status, 0) != pid)
        die("waitpid");
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}
