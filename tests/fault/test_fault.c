/* SPDX-License-Identifier: BSD-2-Clause
 *
 * test_fault.c - the n-th call fails, for all n, in each of some short lives of a store.
 *
 *   test_fault [--most=N] [--all] [--seed=N] [--only=N] [SCRIPT...]
 *
 * A script is run once in full to count its calls, those about files and those for memory and threads.
 * Then for each n, in a process and on a copy of the store of its own, call n fails: with EIO, and with
 * one of ENOSPC from then on, EDQUOT, a short count, EIO from then on; with ENOMEM. --all: with every
 * one of these at every n. --most: at most N runs a script and part, drawn with a seed that is printed.
 *
 * A run that meets its fault goes on: half of the faults that last end before the store is closed, the
 * others behind that. Then everything must work (or be read-only and have said so), the store opens
 * again, its checks find nothing, and all that was acknowledged is there.
 */
#include <errno.h>
#include <execinfo.h>
#include <fcntl.h>
#include <ftw.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "scripts.h"
#include "world_names.h"

#define SECONDS 120u /* a run that takes longer hangs */

/* Shared with the runs. */
struct shared {
    struct inject inject;
    struct world prepared; /* what the store of the script is known to hold */
    uint64_t refused;      /* runs that ended read-only */
    uint64_t failures;     /* operations that returned an error */
    uint64_t silent;       /* runs that met their fault and no operation failed */
};

struct plan {
    unsigned kinds;
    int error;
    bool forever;
};

struct totals {
    uint64_t runs, met, failed;
};

static struct shared *shared;
static char top[200];
static uint64_t most, random_state;
static bool all;

static int remove_entry(const char *path, const struct stat *status, int type, struct FTW *ftw)
{
    (void)status;
    (void)type;
    (void)ftw;
    return remove(path);
}

static void clear(const char *path)
{
    nftw(path, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
}

static char copy_from[300], copy_to[300];

/* Sockets and the like are left out. */
static int copy_entry(const char *path, const struct stat *status, int type, struct FTW *ftw)
{
    char to[600];
    (void)ftw;
    snprintf(to, sizeof to, "%s%s", copy_to, path + strlen(copy_from));
    if (type == FTW_D)
        return mkdir(to, 0700);
    if (!S_ISREG(status->st_mode))
        return 0;
    const int in = open(path, O_RDONLY | O_CLOEXEC);
    const int out = open(to, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    int64_t left = status->st_size;
    while (left > 0) {
        const ssize_t put = copy_file_range(in, NULL, out, NULL, (size_t)left, 0);
        if (put <= 0)
            break;
        left -= put;
    }
    close(in);
    close(out);
    return left == 0 ? 0 : -1;
}

static void copy_store(const char *from, const char *to)
{
    snprintf(copy_from, sizeof copy_from, "%s", from);
    snprintf(copy_to, sizeof copy_to, "%s", to);
    if (nftw(from, copy_entry, 16, FTW_PHYS) != 0) {
        perror("copying a store");
        exit(2);
    }
}

/* The log of a run, printed when it fails. */
static void quiet(void)
{
    char path[300];
    snprintf(path, sizeof path, "%s/log", top);
    const int fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_APPEND, 0600);
    if (fd >= 0)
        dup2(fd, STDERR_FILENO);
}

static void show_log(void)
{
    char path[300], text[6000];
    snprintf(path, sizeof path, "%s/log", top);
    const int fd = open(path, O_RDONLY);
    ssize_t got;
    while (fd >= 0 && (got = read(fd, text, sizeof text)) > 0)
        fwrite(text, 1, (size_t)got, stdout);
    close(fd);
    fflush(stdout);
    void *where[12];
    int count = 0;
    while (count < 12 && shared->inject.where[count] != NULL) {
        where[count] = shared->inject.where[count];
        count++;
    }
    backtrace_symbols_fd(where, count, STDOUT_FILENO);
}

static struct world world; /* of a run; large, and touched in the child only */

static void prepare(const struct fault_script *script, const char *store)
{
    world_init(&world, &shared->inject, store);
    if (script->prepare != NULL) {
        world_must(world_open(&world) == 0, "does not open");
        script->prepare(&world);
        world_must(script->killed || world_close(&world) == 0, "does not close");
    }
    world_begin(&shared->prepared, &world, "");
    if (script->killed)
        _exit(0);
}

static void run(const struct fault_script *script, const struct plan *plan, uint64_t n,
                const char *store)
{
    const bool to_the_end = n % 2 == 0;
    world_begin(&world, &shared->prepared, store);
    world.injected = plan->error;
    if (script->killed) /* what was not committed is gone */
        world_names_find(&world);
    inject_arm(&shared->inject, plan->kinds, plan->error, n, plan->forever);
    if (world_open(&world) == 0) {
        script->run(&world);
        if (world.index != NULL && (shared->inject.hits > 0 || n == 0) &&
            !(plan->forever && to_the_end))
            world_afterwards(&world);
        if (world.index != NULL) {
            shared->refused += index_readonly(world.index);
            world_close(&world);
        }
    }
    inject_disarm(&shared->inject);
    shared->failures += world.failures;
    shared->silent += shared->inject.hits > 0 && world.failures == 0;
    world_verify(&world, script->damaged);
}

/* In a process of its own. True when it ended well. */
static bool in_child(const struct fault_script *script, const struct plan *plan, uint64_t n,
                     const char *store)
{
    int status;
    fflush(stdout);
    const pid_t pid = fork();
    if (pid == 0) {
        quiet();
        alarm(SECONDS);
        inject_use(&shared->inject);
        if (plan == NULL)
            prepare(script, store);
        else
            run(script, plan, n, store);
        exit(0);
    }
    if (pid < 0 || waitpid(pid, &status, 0) != pid) {
        perror("fork");
        exit(2);
    }
    if (status == 0)
        return true;
    printf("%s: ", script->name);
    if (plan == NULL)
        printf("preparing");
    else
        printf("call %ju of kinds %u fails with %s%s", (uintmax_t)n, plan->kinds,
               plan->error == INJECT_SHORT ? "a short count" : strerror(plan->error),
               plan->forever ? " from then on" : "");
    if (WIFSIGNALED(status))
        printf(": ended by %s",
               WTERMSIG(status) == SIGALRM ? "the deadline: hangs" : strsignal(WTERMSIG(status)));
    printf("\n");
    show_log();
    return false;
}

static uint64_t below(uint64_t limit)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return random_state % limit;
}

static const struct plan file_plans[] = {
    {INJECT_FILES, EIO, false},    {INJECT_FILES, ENOSPC, true},
    {INJECT_FILES, EDQUOT, false}, {INJECT_TRANSFER, INJECT_SHORT, false},
    {INJECT_FILES, EIO, true},     {INJECT_WRITE | INJECT_SPACE, ENOSPC, false},
};
static const struct plan memory_plans[] = {
    {INJECT_MEMORY, ENOMEM, false},
    {INJECT_MEMORY, ENOMEM, true},
    {INJECT_THREAD, EAGAIN, false},
    {INJECT_THREAD, EAGAIN, true},
};

/* All n of one plan. STEP and FIRST: every STEP-th of them. */
static void run_plan(const struct fault_script *script, const struct plan *plan, uint64_t first,
                     uint64_t step, struct totals *totals)
{
    char base[300], store[300];
    snprintf(base, sizeof base, "%s/base", top);
    snprintf(store, sizeof store, "%s/run", top);
    uint64_t calls = 0;
    for (uint64_t n = 0;; n = n == 0 ? first : n + step) { /* 0: counts */
        if (n > calls)
            break;
        clear(store);
        if (script->prepare != NULL)
            copy_store(base, store);
        const bool good = in_child(script, plan, n, store);
        if (n == 0)
            calls = shared->inject.calls;
        totals->runs++;
        totals->met += shared->inject.hits > 0;
        totals->failed += !good;
        if (n == 0 && most > 0 && calls / step > most) {
            step = calls / most + 1;
            first = 1 + below(step);
        }
        if (n == 0 && !good)
            break;
    }
}

static void run_script(const struct fault_script *script, struct totals *totals)
{
    char base[300];
    snprintf(base, sizeof base, "%s/base", top);
    clear(base);
    if (!in_child(script, NULL, 0, base)) {
        totals->failed++;
        return;
    }
    const unsigned others = sizeof file_plans / sizeof file_plans[0] - 1;
    run_plan(script, &file_plans[0], 1, 1, totals);
    for (unsigned i = 0; i < others; i++) /* together one more run for each n */
        run_plan(script, &file_plans[1 + i], all ? 1 : 1 + i, all ? 1 : others, totals);
    run_plan(script, &memory_plans[0], 1, 1, totals);
    run_plan(script, &memory_plans[1], all ? 1 : 2, all ? 1 : 5, totals);
    run_plan(script, &memory_plans[2], 1, 1, totals);
    run_plan(script, &memory_plans[3], 1, 1, totals);
}

int main(int argc, char **argv)
{
    struct totals totals = {0};
    uint64_t seed = (uint64_t)getpid();
    bool named = false;
    for (int i = 1; i < argc; i++) {
        if (sscanf(argv[i], "--most=%ju", &most) == 1 || sscanf(argv[i], "--seed=%ju", &seed) == 1)
            continue;
        if (strcmp(argv[i], "--all") == 0)
            all = true;
        else
            named = true;
    }
    random_state = seed * 2 + 1;
    if (most > 0)
        printf("seed %ju, at most %ju runs a script and part\n", (uintmax_t)seed, (uintmax_t)most);
    snprintf(top, sizeof top, "%s/sepfs-fault-XXXXXX",
             access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED || mkdtemp(top) == NULL) {
        perror("test_fault");
        return 2;
    }
    /* Little: a memory file system clears all that is allotted in advance. */
    shared->inject.host_free = UINT64_C(64) << 20;
    for (unsigned k = 0; k < fault_script_count; k++) {
        const struct fault_script *const script = &fault_scripts[k];
        bool wanted = !named;
        for (int i = 1; i < argc; i++)
            wanted |= strcmp(argv[i], script->name) == 0;
        if (!wanted)
            continue;
        const struct totals before = totals;
        run_script(script, &totals);
        printf("%-10s %5ju runs, %5ju met their fault, %ju went wrong\n", script->name,
               (uintmax_t)(totals.runs - before.runs), (uintmax_t)(totals.met - before.met),
               (uintmax_t)(totals.failed - before.failed));
        fflush(stdout);
    }
    clear(top);
    printf("%ju faults; %ju operations failed, %ju stores became read-only, %ju faults stopped "
           "nothing; "
           "%ju runs went wrong\n",
           (uintmax_t)totals.met, (uintmax_t)shared->failures, (uintmax_t)shared->refused,
           (uintmax_t)shared->silent, (uintmax_t)totals.failed);
    return totals.failed == 0 && totals.met > 0 ? 0 : 1;
}
