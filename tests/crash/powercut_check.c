/* SPDX-License-Identifier: BSD-2-Clause
 *
 * powercut_check.c - simulated power cuts: what was acknowledged is there, and the store needs no
 * repair, whatever a disk kept of the writes that no sync had covered.
 *
 * A run lets the workload work on a store and record every call that changes it (record.c), then
 * builds from the log what the disk may hold at many points (powercut_disk.c), opens that, checks
 * it, and compares it with the promises (powercut_store.c). Some of these stores are worked on
 * further, and the power is cut again.
 *
 * --self-test holds the checker itself to account: with syncs of one kind taken to do nothing it
 * must find a failure, for each kind; with none, none.
 */
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "powercut_disk.h"
#include "powercut_replay.h"

#define CUTS_MIN        50u /* of a run */
#define SCRIPT_SESSIONS 16u /* at most: nested ones are numbered from here */

struct run {
    struct replay_options replay;
    unsigned runs, steps;
    uint64_t point;
    unsigned variant;
    const char *log, *keep;
    char scratch[256];
    bool self_test;
    unsigned long least; /* points */
    struct replay_result total;
};

static const struct lose {
    const char *name;
    unsigned mask;
} losses[] = {
    {"packs", DISK_LOSE_PACKS},   {"index", DISK_LOSE_INDEX},
    {"meta", DISK_LOSE_META},     {"directories", DISK_LOSE_DIRECTORIES},
    {"others", DISK_LOSE_OTHERS},
};

#define LOSSES (sizeof losses / sizeof *losses)

/* ---- options ---------------------------------------------------------------------------------------- */

enum {
    SYNCS = 256,
    OTHERS,
    VARIANTS,
    NESTED,
    SESSIONS,
    JOBS,
    STEPS,
    LOSE,
    POINT,
    VARIANT,
    KEEP,
    LEAST
};

static const struct option long_options[] = {
    {"workload", required_argument, NULL, 'w'},    {"seed", required_argument, NULL, 's'},
    {"runs", required_argument, NULL, 'r'},        {"log", required_argument, NULL, 'l'},
    {"self-test", no_argument, NULL, 't'},         {"syncs", required_argument, NULL, SYNCS},
    {"others", required_argument, NULL, OTHERS},   {"variants", required_argument, NULL, VARIANTS},
    {"nested", required_argument, NULL, NESTED},   {"sessions", required_argument, NULL, SESSIONS},
    {"jobs", required_argument, NULL, JOBS},       {"steps", required_argument, NULL, STEPS},
    {"lose", required_argument, NULL, LOSE},       {"point", required_argument, NULL, POINT},
    {"variant", required_argument, NULL, VARIANT}, {"keep", required_argument, NULL, KEEP},
    {"least", required_argument, NULL, LEAST},     {NULL, 0, NULL, 0},
};

static int usage(void)
{
    fprintf(stderr,
            "usage: powercut_check --workload=PROGRAM [OPTION...]\n"
            "       powercut_check --log=FILE --seed=N --point=N --variant=N --keep=DIRECTORY\n"
            "  --seed=N       of the first run (1)\n"
            "  --runs=N       each with the next seed (1)\n"
            "  --sessions=N   of the workload in a run (4)\n"
            "  --steps=N      of each of its two threads in a session (60); 0: the script\n"
            "  --syncs=N      of 1,000 points around syncs and promises (300)\n"
            "  --others=N     of 1,000 other points (30)\n"
            "  --variants=N   random ones at each point (2)\n"
            "  --nested=N     of 1,000 points, from which work goes on (10)\n"
            "  --jobs=N       processes (2)\n"
            "  --least=N      points, fewer are a failure (0)\n"
            "  --lose=KIND    syncs that do nothing: packs, index, meta, directories, others\n"
            "  --self-test    each of these must be found\n");
    return 2;
}

static bool set_lose(struct run *run, const char *name)
{
    for (size_t i = 0; i < LOSSES; i++) {
        if (strcmp(losses[i].name, name) == 0) {
            run->replay.lose |= losses[i].mask;
            return true;
        }
    }
    return false;
}

static bool set_option(struct run *run, int option, const char *text)
{
    const uint64_t number = text == NULL ? 0 : strtoull(text, NULL, 10);
    switch (option) {
    case 'w':
        run->replay.workload = text;
        break;
    case 's':
        run->replay.seed = number;
        break;
    case 'r':
        run->runs = (unsigned)number;
        break;
    case 'l':
        run->log = text;
        break;
    case 't':
        run->self_test = true;
        break;
    case SYNCS:
        run->replay.syncs = (unsigned)number;
        break;
    case OTHERS:
        run->replay.others = (unsigned)number;
        break;
    case VARIANTS:
        run->replay.variants = (unsigned)number;
        break;
    case NESTED:
        run->replay.nested = (unsigned)number;
        break;
    case SESSIONS:
        run->replay.sessions = (unsigned)number;
        break;
    case JOBS:
        run->replay.jobs = (unsigned)number;
        break;
    case STEPS:
        run->steps = (unsigned)number;
        break;
    case LOSE:
        return set_lose(run, text);
    case POINT:
        run->point = number;
        break;
    case VARIANT:
        run->variant = (unsigned)number;
        break;
    case LEAST:
        run->least = number;
        break;
    case KEEP:
        run->keep = text;
        break;
    default:
        return false;
    }
    return true;
}

/* ---- runs ------------------------------------------------------------------------------------------- */

/* In memory where that is possible: a store is written and removed thousands of times. */
static bool make_scratch(struct run *run)
{
    const char *const set = getenv("TMPDIR");
    const char *const top = access("/dev/shm", W_OK) == 0 ? "/dev/shm" : set != NULL ? set : "/tmp";
    snprintf(run->scratch, sizeof run->scratch, "%s/sepfs-powercut-XXXXXX", top);
    run->replay.scratch = run->scratch;
    if (mkdtemp(run->scratch) != NULL)
        return true;
    fprintf(stderr, "powercut: %s: %s\n", run->scratch, strerror(errno));
    return false;
}

/* Lets the workload make LOG. */
static bool record(const struct run *run, char log[512])
{
    char top[300];
    snprintf(top, sizeof top, "%s/top", run->scratch);
    snprintf(log, 512, "%s/log.%ju", run->scratch, (uintmax_t)run->replay.seed);
    if (mkdir(top, 0700) < 0) {
        fprintf(stderr, "powercut: %s: %s\n", top, strerror(errno));
        return false;
    }
    const int status = replay_work(run->replay.workload, top, log, run->replay.seed,
                                   run->replay.sessions, run->steps, 0);
    if (status != 0)
        fprintf(stderr, "powercut: seed %ju: the workload ended with status %d\n",
                (uintmax_t)run->replay.seed, status);
    const bool complete = status == 0 && replay_complete(&run->replay, log, top);
    if (status == 0 && !complete)
        fprintf(stderr, "powercut: seed %ju: the log does not make what the workload left\n",
                (uintmax_t)run->replay.seed);
    replay_remove(top);
    return complete;
}

static unsigned long points_of(const struct replay_result *result)
{
    return atomic_load(&result->syncs) + atomic_load(&result->others);
}

static void print_counts(const struct run *run, const struct replay_result *result,
                         unsigned long failures)
{
    if (run->steps == 0)
        printf("script: ");
    else
        printf("seed %ju: ", (uintmax_t)run->replay.seed);
    printf("%lu points, %lu cuts, work went on from %lu, %lu failures\n", points_of(result),
           atomic_load(&result->cuts), atomic_load(&result->nested), failures);
    fflush(stdout);
}

static void add_counts(struct replay_result *total, const struct replay_result *result)
{
    total->syncs += result->syncs;
    total->others += result->others;
    total->cuts += result->cuts;
    total->nested += result->nested;
    total->nested_cuts += result->nested_cuts;
    total->recoveries += result->recoveries;
    total->lost += result->lost;
    total->kept += result->kept;
    total->torn += result->torn;
    total->sectors += result->sectors;
}

static void print_total(const struct run *run, double seconds)
{
    const struct replay_result *const t = &run->total;
    printf(
        "%lu cut points (%lu around syncs and promises, %lu between), %lu cuts, %.0f s\n"
        "of what no sync had covered: %lu operations lost, %lu kept, %lu torn (%lu sectors lost)\n"
        "work went on from %lu cuts, with %lu cuts in it, %lu of them in recovery\n",
        points_of(t), t->syncs, t->others, t->cuts, seconds, t->lost, t->kept, t->torn, t->sectors,
        t->nested, t->nested_cuts, t->recoveries);
}

/* Failures of one run. */
static unsigned long run_once(struct run *run)
{
    struct replay_result *const result = replay_result_new();
    char log[512];
    if (!record(run, log))
        return 1;
    replay_log(&run->replay, log, result);
    unsigned long failures = atomic_load(&result->failures);
    if (failures == 0 && atomic_load(&result->cuts) < CUTS_MIN) {
        fprintf(stderr, "powercut: so few cuts show nothing\n");
        failures = 1;
    }
    print_counts(run, result, failures);
    add_counts(&run->total, result);
    if (failures == 0)
        unlink(log);
    return failures;
}

static double seconds_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static unsigned long run_all(struct run *run)
{
    const double begin = seconds_now();
    unsigned long failures = 0;
    for (unsigned i = 0; i < run->runs && failures == 0; i++, run->replay.seed++)
        failures += run_once(run);
    print_total(run, seconds_now() - begin);
    if (failures == 0 && points_of(&run->total) < run->least) {
        fprintf(stderr, "powercut: less than %lu points\n", run->least);
        failures = 1;
    }
    return failures;
}

static unsigned long self_test(struct run *run)
{
    unsigned long wrong = 0;
    char log[512];
    if (!record(run, log))
        return 1;
    run->replay.quiet = true;
    run->replay.failures = 1;
    for (size_t i = 0; i <= LOSSES; i++) {
        struct replay_result *const result = replay_result_new();
        const bool none = i == LOSSES;
        run->replay.lose = none ? 0 : losses[i].mask;
        replay_log(&run->replay, log, result);
        const bool failed = atomic_load(&result->failures) > 0;
        printf("%s lost: %lu cuts, %s%s\n", none ? "nothing" : losses[i].name,
               atomic_load(&result->cuts), failed ? result->first : "no failure",
               failed != none ? "" : " - WRONG");
        fflush(stdout);
        wrong += failed == none;
    }
    if (wrong == 0)
        unlink(log);
    return wrong;
}

int main(int argc, char **argv)
{
    static struct run run = {.replay = {.seed = 1,
                                        .syncs = 300,
                                        .others = 30,
                                        .variants = 2,
                                        .nested = 10,
                                        .sessions = 4,
                                        .jobs = 2,
                                        .failures = 5},
                             .runs = 1,
                             .steps = 60};
    int option;
    while ((option = getopt_long(argc, argv, "", long_options, NULL)) != -1) {
        if (!set_option(&run, option, optarg))
            return usage();
    }
    if (run.steps == 0)
        run.replay.sessions = SCRIPT_SESSIONS;
    if (optind != argc || (run.keep != NULL ? run.log == NULL : run.replay.workload == NULL))
        return usage();
    if (run.keep != NULL) {
        replay_keep(&run.replay, run.log, run.point, run.variant, run.keep);
        return 0;
    }
    if (!make_scratch(&run))
        return 1;
    const unsigned long failures = run.self_test ? self_test(&run) : run_all(&run);
    if (failures == 0)
        replay_remove(run.scratch);
    else
        fprintf(stderr, "powercut: logs are kept in %s\n", run.scratch);
    return failures == 0 ? 0 : 1;
}
