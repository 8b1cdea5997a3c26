/* SPDX-License-Identifier: BSD-2-Clause
 *
 * powercut_workload.c - works on a store without FUSE, in several sessions, and marks in the log what
 * it is about to do and what it was promised. Random, from a seed, or, with no steps, by the script.
 *
 *   powercut_workload STORE SEED SESSIONS STEPS FIRST
 *
 * A random session is a process with two actors and the compactor. Some sessions end by kill -9, and the
 * next one opens what they left. STORE may exist, and hold what sessions before FIRST made.
 */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <syslog.h>
#include <unistd.h>

#include "damage.h"
#include "powercut_script.h"
#include "record.h"

#define ACTORS 2u /* in a session */

/* How a session ends: it is closed; killed when its first actor is done; killed at some change that
 * it makes, which may be one of opening or closing; killed behind a rename on the host, before what
 * makes that durable. */
enum end { CLOSED, KILLED, KILLED_ANYWHERE, KILLED_AT_RENAME };

struct session;

struct act { /* of a thread */
    struct session *session;
    struct actor *actor;
};

struct session {
    struct index *index;
    struct fs fs;
    unsigned steps;
    enum end end;
    const struct script *script; /* NULL: random */
    struct act act[ACTORS];
    struct actor actors[ACTORS];
};

static void on_log(void *arg, int priority, const char *line)
{
    (void)arg;
    if (priority <= LOG_ERR)
        fprintf(stderr, "workload: index: %s\n", line);
}

static void open_index(struct session *s, const char *store)
{
    struct index_options options = {.flags = INDEX_OPEN_CREATE,
                                    .map_size = POWERCUT_MAP,
                                    .pack_size = POWERCUT_PACK,
                                    .log = on_log};
    char error[256] = "", conf[4096];
    snprintf(conf, sizeof conf, "%s/sepfs.conf", store);
    if (access(conf, F_OK) != 0)
        options.block_size = POWERCUT_BLOCK;
    const int result = index_open(store, &options, &s->index, error, sizeof error);
    if (result != 0)
        give_up(error, result);
    record_mark(&(struct mark){.kind = MARK_OPENED, .actor = s->actors[0].number},
                sizeof(struct mark));
}

static void open_store(struct session *s, const char *store)
{
    struct fs_options mount;
    open_index(s, store);
    fs_options_init(&mount);
    mount.threads = 2;
    mount.dirty = 512u << 10;
    mount.cache = 512u << 10;
    mount.commit = 1;
    mount.models[0] = '\0'; /* whatever is installed */
    mount.compact = FS_COMPACT_CPU;
    if (s->script != NULL) { /* looks every second for what is to be promoted */
        mount.promote = true;
        mount.cold_after = 4;
        mount.cold_off = true;
    }
    MUST(fs_start(&s->fs, s->index, &mount));
}

static void close_store(struct session *s)
{
    for (unsigned i = 0; i < ACTORS; i++)
        actor_close(&s->actors[i]);
    MUST(fs_stop(&s->fs));
    for (unsigned i = 0; i < ACTORS; i++)
        record_mark(&(struct mark){.kind = MARK_ALL, .actor = s->actors[i].number},
                    sizeof(struct mark));
    MUST(index_close(s->index));
}

static void *act(void *arg)
{
    const struct act *const act = arg;
    actor_run(act->actor, act->session->steps);
    if (act->session->end == KILLED && act->actor->first)
        record_die();
    return NULL;
}

static void run_session(const char *store, unsigned number, unsigned steps, enum end end,
                        uint64_t random)
{
    struct session *const s = calloc(1, sizeof *s);
    pthread_t threads[ACTORS];
    if (s == NULL)
        give_up("memory", -ENOMEM);
    s->steps = steps;
    s->end = end;
    const uint64_t later = powercut_random(&random);
    record_die_later(0, 0);
    if (end == KILLED_ANYWHERE)
        record_die_later(1 + later % (steps * 12), 0);
    else if (end == KILLED_AT_RENAME)
        record_die_later(1 + later % 2, RECORD_RENAME);
    for (unsigned i = 0; i < ACTORS; i++)
        actor_init(&s->actors[i], &s->fs, number * ACTORS + i, i == 0, powercut_random(&random));
    open_store(s, store);
    for (unsigned i = 0; i < ACTORS; i++) {
        s->act[i] = (struct act){s, &s->actors[i]};
        MUST(-pthread_create(&threads[i], NULL, act, &s->act[i]));
    }
    for (unsigned i = 0; i < ACTORS; i++)
        pthread_join(threads[i], NULL);
    if (end == KILLED_AT_RENAME || powercut_random(&random) % 2 == 0)
        actor_bloat(&s->actors[0], powercut_random(&random) % 2 == 0);
    close_store(s);
    free(s);
}

/* ---- the script ------------------------------------------------------------------------------------ */

static void on_problem(void *arg, const struct index_problem *problem)
{
    (void)problem;
    ++*(unsigned *)arg;
}

/* As sepfs-fsck -y does it, behind damage in a commit of its own. */
static void damage_and_repair(struct session *s)
{
    unsigned planted, found = 0;
    const struct index_check repair = {.repair = true, .problem = on_problem, .arg = &found};
    struct mark m = {.kind = MARK_DAMAGE, .actor = s->actors[0].number};
    struct index_txn *txn = NULL;
    record_mark(&m, sizeof m);
    MUST(index_begin(s->index, INDEX_WRITE, &txn));
    MUST(damage_plant(txn, &planted));
    index_end(txn);
    MUST(index_commit(s->index));
    MUST(index_check(s->index, &repair));
    if (planted == 0 || found < planted)
        give_up("repair", -EIO);
    m.kind = MARK_REPAIRED;
    record_mark(&m, sizeof m);
    MUST(index_close(s->index));
}

static void run_scripted(const char *store, unsigned number, const struct script *script)
{
    struct session *const s = calloc(1, sizeof *s);
    if (s == NULL)
        give_up("memory", -ENOMEM);
    s->script = script;
    for (unsigned i = 0; i < ACTORS; i++)
        actor_init(&s->actors[i], &s->fs, number * ACTORS + i, i == 0, number);
    if (script->damaged) {
        open_index(s, store);
        damage_and_repair(s);
    } else {
        open_store(s, store);
        script->act(&s->actors[0]);
        if (script->killed)
            record_die();
        close_store(s);
    }
    free(s);
}

/* ---- sessions -------------------------------------------------------------------------------------- */

/* Runs one in a process of its own; false if it did not end as it should. */
static bool fork_session(const char *store, unsigned number, unsigned steps, enum end end,
                         uint64_t seed)
{
    int status;
    const pid_t pid = fork();
    if (pid < 0)
        give_up("fork", -errno);
    if (pid == 0) {
        if (steps == 0)
            run_scripted(store, number, &powercut_script[number]);
        else
            run_session(store, number, steps, end, seed);
        exit(0);
    }
    if (waitpid(pid, &status, 0) != pid)
        give_up("waitpid", -errno);
    const bool killed = WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
    if (end == KILLED ? killed : status == 0 || (end > KILLED && killed))
        return true;
    fprintf(stderr, "workload: session %u ended with status %x\n", number, (unsigned)status);
    return false;
}

static bool run_script(const char *store)
{
    for (unsigned i = 0; powercut_script[i].act != NULL || powercut_script[i].damaged; i++) {
        if (!fork_session(store, i, 0, powercut_script[i].killed ? KILLED : CLOSED, 0))
            return false;
    }
    return true;
}

int main(int argc, char **argv)
{
    if (argc != 6) {
        fprintf(stderr, "usage: powercut_workload STORE SEED SESSIONS STEPS FIRST\n");
        return 2;
    }
    uint64_t random = strtoull(argv[2], NULL, 10);
    const unsigned sessions = (unsigned)atoi(argv[3]), steps = (unsigned)atoi(argv[4]);
    const unsigned first = (unsigned)atoi(argv[5]);
    if (steps == 0)
        return run_script(argv[1]) ? 0 : 1;
    for (unsigned i = first; i < first + sessions; i++) {
        const enum end end = (enum end)(powercut_random(&random) % 4);
        const uint64_t seed = powercut_random(&random);
        if (!fork_session(argv[1], i, steps, end, seed))
            return 1;
    }
    return 0;
}
