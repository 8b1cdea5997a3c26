/* SPDX-License-Identifier: BSD-2-Clause
 *
 * powercut_replay.h - cuts the power at many points of a log and looks at what is left each time.
 */
#ifndef TEST_CRASH_POWERCUT_REPLAY_H
#define TEST_CRASH_POWERCUT_REPLAY_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct replay_options {
    const char *scratch;  /* directory for stores */
    const char *workload; /* program; NULL: no work is done on what a cut left */
    uint64_t seed;
    unsigned lose;     /* enum disk_lose, once the store exists */
    unsigned syncs;    /* of 1,000 points around syncs and promises */
    unsigned others;   /* of 1,000 other points */
    unsigned variants; /* random ones at each point */
    unsigned nested;   /* of 1,000 points: sessions go on from what is left, and are cut as well */
    unsigned sessions; /* in the log */
    unsigned jobs;     /* processes */
    unsigned failures; /* after so many it ends */
    bool quiet;        /* failures are not printed */
};

/* Shared by the processes. */
struct replay_result {
    atomic_ulong syncs, others; /* points around syncs and promises, and between them */
    atomic_ulong cuts;
    atomic_ulong nested;                    /* cuts from which sessions went on */
    atomic_ulong nested_cuts, recoveries;   /* cuts in these; of them: while the store was opened */
    atomic_ulong lost, kept, torn, sectors; /* struct disk_fates */
    atomic_ulong failures;
    char first[512]; /* failure */
};

/* Returns a result that forked processes share; never freed. */
struct replay_result *replay_result_new(void);
void replay_log(const struct replay_options *options, const char *log,
                struct replay_result *result);
/* Cuts at one point, and leaves the store, not opened, in DIRECTORY, which it makes. */
void replay_keep(const struct replay_options *options, const char *log, uint64_t point,
                 unsigned variant, const char *directory);
/* Whether TOP, which the recorded program left, is what the whole log makes: nothing was missed. */
bool replay_complete(const struct replay_options *options, const char *log, const char *top);

/* Runs the workload on TOP/store with a log. 0, or its exit status. */
int replay_work(const char *workload, const char *top, const char *log, uint64_t seed,
                unsigned sessions, unsigned steps, unsigned first);
void replay_remove(const char *path);

#endif
