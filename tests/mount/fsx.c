/* SPDX-License-Identifier: BSD-2-Clause
 *
 * fsx.c - the random-operation checker's processes: starts them, stops them when time is over or one
 * has found something, and sums up. Exit 0; 1 after a mismatch or an error, whose files are left for
 * inspection; 2 for usage.
 */
#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "fsx.h"

#define PROCESSES_MAX 64

struct options {
    const char *directory;
    uint64_t seconds, processes, seed, size, operations;
    uint64_t without; /* operations left out, as fsx_worker.missing */
};

/* Shared between the processes. */
struct board {
    _Atomic int stop;
    _Atomic uint64_t operations, missing;
};

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

static bool prepare(struct fsx_worker *worker, const struct options *options, unsigned number)
{
    *worker = (struct fsx_worker){.number = number,
                                  .seed = options->seed,
                                  .limit = (size_t)options->size,
                                  .missing = options->without,
                                  .random = options->seed * UINT64_C(0x9e3779b97f4a7c15) + number};
    worker->buffer = malloc(worker->limit);
    bool complete = worker->buffer != NULL;
    for (unsigned i = 0; i < FSX_FILES; i++) {
        struct fsx_file *file = &worker->files[i];
        snprintf(file->name, sizeof file->name, "fsx-%d-%u%c", getppid(), number, (char)('a' + i));
        file->model = calloc(1, worker->limit);
        complete = complete && file->model;
    }
    return complete;
}

static _Noreturn void work(const struct options *options, unsigned number, struct board *board)
{
    struct fsx_worker worker;
    const double end = now() + (double)options->seconds;
    if (!prepare(&worker, options, number)) {
        fprintf(stderr, "fsx: out of memory\n");
        _exit(1);
    }
    for (unsigned i = 0; i < FSX_FILES; i++)
        fsx_open(&worker, &worker.files[i]);
    while (!board->stop &&
           (options->operations ? worker.operations < options->operations : now() < end))
        fsx_step(&worker);
    if (!board->stop)
        fsx_finish(&worker);
    board->operations += worker.operations;
    board->missing |= worker.missing;
    for (unsigned i = 0; i < FSX_FILES; i++)
        unlink(worker.files[i].name);
    _exit(0);
}

static int usage(FILE *out)
{
    fprintf(out,
            "usage: fsx DIRECTORY [--seconds=20] [--operations=N] [--processes=3] [--seed=N]\n"
            "           [--size=BYTES] [--without=OPERATION,...]\n"
            "Does random things to files in DIRECTORY and compares them with copies in memory.\n"
            "--operations=N, for each process, takes the place of --seconds.\n");
    return out == stdout ? 0 : 2;
}

static bool number(const char *text, uint64_t min, uint64_t max, uint64_t *value)
{
    char *end;
    errno = 0;
    *value = strtoull(text, &end, 10);
    return text[0] >= '0' && text[0] <= '9' && !*end && !errno && *value >= min && *value <= max;
}

static bool parse(int argc, char **argv, struct options *options)
{
    static const struct option names[] = {{"seconds", required_argument, NULL, 's'},
                                          {"processes", required_argument, NULL, 'p'},
                                          {"seed", required_argument, NULL, 'r'},
                                          {"size", required_argument, NULL, 'z'},
                                          {"operations", required_argument, NULL, 'o'},
                                          {"without", required_argument, NULL, 'w'},
                                          {"help", no_argument, NULL, 'h'},
                                          {NULL, 0, NULL, 0}};
    bool valid = true;
    for (int c; (c = getopt_long(argc, argv, "", names, NULL)) != -1;) {
        switch (c) {
        case 's':
            valid = valid && number(optarg, 0, 1000000, &options->seconds);
            break;
        case 'p':
            valid = valid && number(optarg, 1, PROCESSES_MAX, &options->processes);
            break;
        case 'r':
            valid = valid && number(optarg, 0, UINT64_MAX, &options->seed);
            break;
        case 'z':
            valid = valid && number(optarg, 16384, 1 << 30, &options->size);
            break;
        case 'o':
            valid = valid && number(optarg, 1, UINT64_MAX, &options->operations);
            break;
        case 'w':
            valid = valid && fsx_named(optarg, &options->without);
            break;
        case 'h':
            exit(usage(stdout));
        default:
            return false;
        }
    }
    if (argc - optind != 1)
        return false;
    options->directory = argv[optind];
    return valid;
}

/* Waits for all; the first that fails stops the others. Returns how many failed. */
static unsigned wait_for(const pid_t *children, uint64_t count, struct board *board)
{
    unsigned failed = 0;
    for (uint64_t left = count; left;) {
        int status;
        const pid_t child = wait(&status);
        if (child < 0 && errno == EINTR)
            continue;
        if (child < 0)
            return failed + 1;
        left--;
        if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
            continue;
        if (WIFSIGNALED(status)) {
            for (uint64_t i = 0; i < count; i++) {
                if (children[i] == child)
                    printf("fsx: process %ju was killed by signal %d\n", (uintmax_t)i,
                           WTERMSIG(status));
            }
        }
        failed++;
        board->stop = 1;
    }
    return failed;
}

int main(int argc, char **argv)
{
    struct options options = {
        .seconds = 20, .processes = 3, .size = 2u << 20, .seed = (uint64_t)time(NULL)};
    pid_t children[PROCESSES_MAX];
    if (!parse(argc, argv, &options))
        return usage(stderr);
    if (chdir(options.directory)) {
        fprintf(stderr, "fsx: %s: %s\n", options.directory, strerror(errno));
        return 2;
    }
    struct board *board =
        mmap(NULL, sizeof *board, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (board == MAP_FAILED) {
        fprintf(stderr, "fsx: mmap: %s\n", strerror(errno));
        return 1;
    }
    printf("fsx: seed %ju\n", (uintmax_t)options.seed);
    fflush(stdout);
    for (unsigned i = 0; i < options.processes; i++) {
        children[i] = fork();
        if (children[i] == 0)
            work(&options, i, board);
        if (children[i] < 0) {
            fprintf(stderr, "fsx: fork: %s\n", strerror(errno));
            board->stop = 1;
            wait_for(children, i, board);
            return 1;
        }
    }
    const unsigned failed = wait_for(children, options.processes, board);
    char missing[256];
    fsx_missing(board->missing, missing, sizeof missing);
    if (missing[0])
        printf("fsx: left out or not supported here: %s\n", missing);
    printf("fsx: seed %ju: %ju processes, %ju operations, %u failed\n", (uintmax_t)options.seed,
           (uintmax_t)options.processes, (uintmax_t)board->operations, failed);
    return failed ? 1 : 0;
}
