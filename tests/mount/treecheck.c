/* SPDX-License-Identifier: BSD-2-Clause
 *
 * treecheck.c - the checker of whole trees as a command; treecheck.h says what it does. Runs with
 * seeds that count up until the time is over. Exit 0; 1 when something was wrong, with the tree kept;
 * 2 for usage.
 *
 * With one process everything follows from the seed, so --seed repeats a failure; the list of its
 * operations is shrunk, and replayed by --replay.
 */
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "treecheck.h"

struct options {
    struct tc_plan plan;
    uint64_t seconds, shrink;
    const char *trace, *replay;
    uint64_t processes, rounds;
};

static int usage(FILE *out)
{
    fprintf(
        out,
        "usage: treecheck DIRECTORY [--seconds=N] [--operations=2000] [--processes=3]\n"
        "           [--rounds=4] [--seed=N] [--hook=COMMAND] [--shrink=SECONDS]\n"
        "           [--trace=FILE] [--replay=FILE] [--plant=punch|exchange]\n"
        "Does random things to trees in DIRECTORY and compares them with models in memory.\n"
        "  --operations  of each process in a run; --rounds: after so many parts all is compared\n"
        "  --seconds     runs with seeds that count up until then; without: one run\n"
        "  --hook        COMMAND compact|recode|gc|drop|remount does that to the file system\n"
        "  --shrink      time for making the list of a failed run short (one process)\n"
        "  --trace       where that list is written; --replay runs one\n"
        "  --plant       a fault that this program makes, to see whether it finds it\n");
    return out == stdout ? 0 : 2;
}

static bool number(const char *text, uint64_t min, uint64_t max, uint64_t *value)
{
    char *end;
    errno = 0;
    *value = strtoull(text, &end, 10);
    return text[0] >= '0' && text[0] <= '9' && !*end && !errno && *value >= min && *value <= max;
}

static bool parse_one(int c, struct options *options)
{
    switch (c) {
    case 's':
        return number(optarg, 1, 1000000, &options->seconds);
    case 'o':
        return number(optarg, 1, 1000000, &options->plan.operations);
    case 'p':
        return number(optarg, 1, TC_PROCESSES, &options->processes);
    case 'n':
        return number(optarg, 1, 1000, &options->rounds);
    case 'r':
        return number(optarg, 0, UINT64_MAX, &options->plan.seed);
    case 'k':
        return number(optarg, 0, 100000, &options->shrink);
    case 'h':
        options->plan.hook = optarg;
        return true;
    case 't':
        options->trace = optarg;
        return true;
    case 'y':
        options->replay = optarg;
        return true;
    case 'f':
        options->plan.plant = optarg;
        return strcmp(optarg, "punch") == 0 || strcmp(optarg, "exchange") == 0;
    default:
        return false;
    }
}

static bool parse(int argc, char **argv, struct options *options)
{
    static const struct option names[] = {{"seconds", required_argument, NULL, 's'},
                                          {"operations", required_argument, NULL, 'o'},
                                          {"processes", required_argument, NULL, 'p'},
                                          {"rounds", required_argument, NULL, 'n'},
                                          {"seed", required_argument, NULL, 'r'},
                                          {"shrink", required_argument, NULL, 'k'},
                                          {"hook", required_argument, NULL, 'h'},
                                          {"trace", required_argument, NULL, 't'},
                                          {"replay", required_argument, NULL, 'y'},
                                          {"plant", required_argument, NULL, 'f'},
                                          {"help", no_argument, NULL, 'u'},
                                          {NULL, 0, NULL, 0}};
    for (int c; (c = getopt_long(argc, argv, "", names, NULL)) != -1;) {
        if (c == 'u')
            exit(usage(stdout));
        if (!parse_one(c, options))
            return false;
    }
    if (argc - optind != 1)
        return false;
    options->plan.directory = argv[optind];
    options->plan.processes = (unsigned)options->processes;
    /* what happens between rounds is not in the list of operations, which must repeat a failure */
    options->plan.rounds = options->processes == 1 ? 1 : (unsigned)options->rounds;
    return true;
}

/* A run failed: the list of its operations made short and shown. */
static void explain(const struct options *options, struct tc_board *board, struct tc_trace *trace)
{
    if (options->plan.processes == 1 && options->shrink) {
        const uint32_t before = trace->count;
        const unsigned trials = tc_shrink(&options->plan, board, trace, (double)options->shrink);
        printf("treecheck: %u operations shrunk to %u in %u trials:\n", before, trace->count,
               trials);
        for (uint32_t i = 0; i < trace->count; i++)
            tc_print_op(stdout, &trace->op[i]);
    }
    if (options->trace && !tc_trace_write(options->trace, trace, options->plan.seed))
        printf("treecheck: %s: %s\n", options->trace, strerror(errno));
}

static void print_unsupported(const struct tc_board *board)
{
    for (unsigned i = 0; i < tc_kind_count; i++) {
        if (board->unsupported >> i & 1)
            printf("treecheck: not supported here: %s\n", tc_kinds[i].name);
    }
}

static int run_all(struct options *options, struct tc_board *board)
{
    struct tc_trace *trace = tc_trace_new((uint32_t)options->plan.operations);
    const uint64_t first = options->plan.seed;
    uint64_t done = 0;
    int result;
    options->plan.end = options->seconds ? tc_now() + (double)options->seconds : 1e18;
    if (!trace)
        return 1;
    do {
        printf("treecheck: seed %ju\n", (uintmax_t)options->plan.seed);
        fflush(stdout);
        result = tc_run(&options->plan, board, trace);
        done = board->operations; /* without those of the shrinker */
        if (result)
            explain(options, board, trace);
        options->plan.seed++;
    } while (!result && options->seconds && tc_now() < options->plan.end);
    print_unsupported(board);
    printf("treecheck: seeds %ju to %ju: %ju operations, %s\n", (uintmax_t)first,
           (uintmax_t)options->plan.seed - 1, (uintmax_t)done, result ? "FAILED" : "passed");
    return result;
}

int main(int argc, char **argv)
{
    struct options options = {
        .plan = {.operations = 2000, .seed = (uint64_t)time(NULL)}, .processes = 3, .rounds = 4};
    if (!parse(argc, argv, &options))
        return usage(stderr);
    char *directory = realpath(options.plan.directory, NULL);
    if (!directory || chdir("/")) {
        fprintf(stderr, "treecheck: %s: %s\n", options.plan.directory, strerror(errno));
        return 2;
    }
    options.plan.directory = directory;
    struct tc_board *board = mmap(NULL, sizeof *board, PROT_READ | PROT_WRITE,
                                  MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (board == MAP_FAILED) {
        fprintf(stderr, "treecheck: mmap: %s\n", strerror(errno));
        return 1;
    }
    umask(0);
    int result;
    if (options.replay) {
        struct tc_trace *trace;
        if (!tc_trace_read(options.replay, &trace)) {
            fprintf(stderr, "treecheck: %s: %s\n", options.replay, strerror(errno));
            return 2;
        }
        result = tc_replay(&options.plan, board, trace, false);
        printf("treecheck: %u operations, %s\n", trace->count, result ? "FAILED" : "passed");
    } else {
        result = run_all(&options, board);
    }
    free(directory);
    return result;
}
