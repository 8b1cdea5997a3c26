/* SPDX-License-Identifier: BSD-2-Clause
 *
 * treecheck_run.c - one run: a fresh directory, processes that work for some rounds, and after each
 * round a comparison of everything, with the file system remounted where a hook can do that.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "treecheck.h"

double tc_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

/* ---- a worker ----------------------------------------------------------------------------------- */

void tc_enter(struct tc_worker *worker)
{
    static const struct tc_op none;
    const struct tc_call call = {.worker = worker, .op = &none};
    char path[4096];
    snprintf(path, sizeof path, "%s/all", worker->directory);
    worker->own = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    snprintf(path, sizeof path, "%s/common", worker->directory);
    worker->common = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (worker->own < 0 || worker->common < 0)
        tc_fail(&call, "open the top directories: %s", strerror(errno));
}

void tc_leave(struct tc_worker *worker)
{
    tc_close_all(worker);
    close(worker->own);
    close(worker->common);
    worker->own = worker->common = -1;
}

bool tc_hook(struct tc_worker *worker, const char *what)
{
    static const struct tc_op none;
    const struct tc_call call = {.worker = worker, .op = &none};
    int status = 0;
    if (!worker->hook)
        return false;
    const pid_t child = fork();
    if (child == 0) {
        execl(worker->hook, worker->hook, what, (char *)NULL);
        _exit(127);
    }
    while (child > 0 && waitpid(child, &status, 0) < 0 && errno == EINTR)
        ;
    if (child < 0 || status)
        tc_fail(&call, "the hook %s %s ended with status 0x%x", worker->hook, what, status);
    return true;
}

void tc_step(struct tc_worker *worker, const struct tc_op *op)
{
    struct tc_trace *trace = worker->trace;
    const struct tc_call call = {.worker = worker,
                                 .op = op,
                                 .tree = op->common ? &worker->board->common
                                                    : &worker->board->own[worker->number],
                                 .top = op->common ? worker->common : worker->own};
    if (trace->count < trace->size)
        trace->op[trace->count++] = *op;
    if (worker->board->unsupported >> op->kind & 1)
        return;
    if (!tc_kinds[op->kind].run(&call))
        worker->board->unsupported |= UINT64_C(1) << op->kind;
    worker->board->operations++;
}

static struct tc_worker worker_of(const struct tc_plan *plan, const char *directory,
                                  struct tc_board *board, struct tc_trace *trace, unsigned number)
{
    struct tc_worker worker = {.number = number,
                               .processes = plan->processes,
                               .seed = plan->seed,
                               .random = plan->seed * UINT64_C(0x9e3779b97f4a7c15) + number,
                               .board = board,
                               .trace = trace,
                               .directory = directory,
                               .hook = plan->hook,
                               .plant = plan->plant,
                               .own = -1,
                               .common = -1,
                               .buffer = malloc(TC_LIMIT),
                               .other = malloc(TC_LIMIT)};
    for (unsigned i = 0; i < TC_SLOTS; i++)
        worker.slot[i].fd = -1;
    return worker;
}

static void work(struct tc_worker *worker, uint64_t operations, double end)
{
    tc_enter(worker);
    for (uint64_t i = 0; i < operations && tc_now() < end; i++) {
        struct tc_op op = {.common = tc_below(worker, 100) < 30};
        pthread_mutex_t *lock = op.common ? &worker->board->common.lock : NULL;
        if (lock)
            pthread_mutex_lock(lock);
        tc_generate(worker, &op);
        tc_step(worker, &op);
        if (lock)
            pthread_mutex_unlock(lock);
    }
    pthread_mutex_lock(&worker->board->common.lock);
    tc_leave(worker);
    pthread_mutex_unlock(&worker->board->common.lock);
}

/* ---- a run -------------------------------------------------------------------------------------- */

/* The board as before the first operation, and the run's directory. */
static bool begin(const struct tc_plan *plan, struct tc_board *board, char *directory, size_t size)
{
    char path[4096];
    pthread_mutexattr_t shared;
    pthread_mutexattr_init(&shared);
    pthread_mutexattr_setpshared(&shared, PTHREAD_PROCESS_SHARED);
    pthread_mutex_init(&board->common.lock,
                       &shared); /* again: a failed run may have left it held */
    pthread_mutexattr_destroy(&shared);
    tc_model_init(&board->common);
    for (unsigned i = 0; i < plan->processes; i++)
        tc_model_init(&board->own[i]);
    snprintf(directory, size, "%s/tree-XXXXXX", plan->directory);
    if (!mkdtemp(directory))
        return false;
    snprintf(path, sizeof path, "%s/all", directory);
    if (mkdir(path, 0755))
        return false;
    snprintf(path, sizeof path, "%s/common", directory);
    return mkdir(path, 0755) == 0;
}

static bool passed(pid_t child)
{
    int status;
    while (waitpid(child, &status, 0) < 0) {
        if (errno != EINTR)
            return false;
    }
    if (WIFSIGNALED(status) && WTERMSIG(status) != SIGKILL)
        printf("treecheck: a process was ended by signal %d\n", WTERMSIG(status));
    return status == 0;
}

/* In a child, so that a failure ends no more than that: all trees, before and after the hook. */
static bool compare_all(const struct tc_plan *plan, const char *directory, struct tc_board *board,
                        struct tc_trace **trace)
{
    const pid_t child = fork();
    if (child)
        return child > 0 && passed(child);
    for (int again = 0; again < 2; again++) {
        for (unsigned i = 0; i < plan->processes; i++) {
            struct tc_worker worker = worker_of(plan, directory, board, trace[i], i);
            tc_enter(&worker);
            tc_compare_tree(&worker, false);
            if (i == 0)
                tc_compare_tree(&worker, true);
            tc_leave(&worker);
            free(worker.buffer);
            free(worker.other);
        }
        struct tc_worker worker = worker_of(plan, directory, board, trace[0], 0);
        if (!again && !tc_hook(&worker, "remount"))
            break;
    }
    _exit(0);
}

/* Waits for all; when one fails the others, which may wait for a lock it held, are ended. */
static bool wait_for(pid_t *children, unsigned count)
{
    bool good = true;
    for (unsigned left = count; left; left--) {
        int status;
        const pid_t ended = waitpid(-1, &status, 0);
        if (ended < 0 && errno == EINTR) {
            left++;
            continue;
        }
        for (unsigned i = 0; i < count; i++) {
            if (children[i] == ended)
                children[i] = 0;
        }
        if (ended >= 0 && status == 0)
            continue;
        if (ended >= 0 && WIFSIGNALED(status) && good)
            printf("treecheck: a process was ended by signal %d\n", WTERMSIG(status));
        good = false;
        for (unsigned i = 0; i < count; i++) {
            if (children[i] > 0)
                kill(children[i], SIGKILL);
        }
    }
    return good;
}

static bool run_round(const struct tc_plan *plan, const char *directory, struct tc_board *board,
                      struct tc_trace **trace, unsigned number)
{
    pid_t children[TC_PROCESSES];
    unsigned started = 0;
    for (; started < plan->processes; started++) {
        children[started] = fork();
        if (children[started] == 0) {
            struct tc_worker worker = worker_of(plan, directory, board, trace[started], started);
            worker.random += number * UINT64_C(0x5851f42d4c957f2d);
            work(&worker, plan->operations / plan->rounds, plan->end);
            _exit(0);
        }
        if (children[started] < 0)
            break;
    }
    return wait_for(children, started) && started == plan->processes;
}

int tc_run(const struct tc_plan *plan, struct tc_board *board, struct tc_trace *first)
{
    static struct tc_trace *trace[TC_PROCESSES];
    char directory[4096];
    if (!begin(plan, board, directory, sizeof directory)) {
        fprintf(stderr, "treecheck: %s: %s\n", directory, strerror(errno));
        return 1;
    }
    trace[0] = first;
    for (unsigned i = 0; i < plan->processes; i++) {
        if (!trace[i])
            trace[i] = tc_trace_new(first->size);
        if (!trace[i])
            return 1;
        trace[i]->count = 0;
    }
    for (unsigned round = 0; round < plan->rounds && (round == 0 || tc_now() < plan->end);
         round++) {
        if (!run_round(plan, directory, board, trace, round) ||
            !compare_all(plan, directory, board, trace))
            return 1;
    }
    tc_remove(directory);
    return 0;
}

/* As after a run: everything compared, before and after a remount. */
static void finish(struct tc_worker *worker)
{
    for (int again = 0; again < 2; again++) {
        tc_close_all(worker);
        tc_compare_tree(worker, false);
        tc_compare_tree(worker, true);
        tc_leave(worker);
        if (again || !tc_hook(worker, "remount"))
            return;
        tc_enter(worker);
    }
}

int tc_replay(const struct tc_plan *plan, struct tc_board *board, const struct tc_trace *trace,
              bool quiet)
{
    char directory[4096];
    struct tc_plan alone = *plan;
    alone.processes = 1;
    if (!begin(&alone, board, directory, sizeof directory)) {
        fprintf(stderr, "treecheck: %s: %s\n", directory, strerror(errno));
        return 2;
    }
    const pid_t child = fork();
    if (child == 0) {
        struct tc_trace *done = tc_trace_new(trace->size);
        struct tc_worker worker = worker_of(&alone, directory, board, done, 0);
        worker.quiet = quiet;
        tc_enter(&worker);
        for (uint32_t i = 0; i < trace->count; i++)
            tc_step(&worker, &trace->op[i]);
        finish(&worker);
        _exit(0);
    }
    const bool good = child > 0 && passed(child);
    if (good || quiet)
        tc_remove(directory);
    return good ? 0 : 1;
}

/* ---- cleaning up -------------------------------------------------------------------------------- */

static void remove_at(int parent, const char *name)
{
    const int fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    DIR *directory = fd < 0 ? NULL : fdopendir(fd);
    for (const struct dirent *entry; directory && (entry = readdir(directory));) {
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
            continue;
        if (unlinkat(fd, entry->d_name, 0))
            remove_at(fd, entry->d_name);
    }
    if (directory)
        closedir(directory);
    if (unlinkat(parent, name, AT_REMOVEDIR))
        fprintf(stderr, "treecheck: rmdir %s: %s\n", name, strerror(errno));
}

void tc_remove(const char *directory)
{
    remove_at(AT_FDCWD, directory);
}
