/* SPDX-License-Identifier: BSD-2-Clause
 *
 * salvage.c - rebuilds the index of a damaged store.
 *
 * (1) What is intact in the present index is taken over, page by page, record by record; where pages
 * or records are damaged, the keys between the neighbours are noted as a gap. (2) The newest copy
 * that can be read fills gaps, and only those: elsewhere an absent record was removed since. (3) The
 * packs are scanned (salvage_packs.c). (4) index_check repairs what follows from the rest, and reads
 * every block. (5) The new file is exchanged for the old one, which keeps a name of its own.
 *
 * Until (5) the store is as it was: all is built in index-salvage/, under the store's lock. When a header of the old file is damaged, what the other one leads to may be the
 * commit before the last: then blocks of higher numbers than it knows are believed as well. Packs are only read. Hash and free records are made anew or left out: no dead range is known, so none
 * is punched.
 */
#include "salvage.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <syslog.h>
#include <time.h>

#include "copy.h"

#define PLACE       "index-salvage"
#define BATCH_BYTES (UINT64_C(16) << 20) /* put in one transaction */
#define ROUNDS      5u                   /* of repair, at most */

/* ---- tools --------------------------------------------------------------------------------- */

void salvage_say(struct salvage *s, const char *kind, enum index_problem_state state, uint64_t ino,
                 uint64_t block, uint32_t pack, const char *format, ...)
{
    struct index_problem problem = {
        .kind = kind, .state = state, .ino = ino, .block = block, .pack = pack};
    va_list list;
    va_start(list, format);
    vsnprintf(problem.text, sizeof problem.text, format, list);
    va_end(list);
    s->result->lost += state == INDEX_PROBLEM_LOST;
    s->options->problem(s->options->arg, &problem);
}

int salvage_stopped(const struct salvage *s)
{
    return s->options->stop != NULL && *s->options->stop ? -ECANCELED : 0;
}

/* -1: below KEY, 1: above. */
static int order(const MDB_val *key, const struct index_key *bound)
{
    const size_t common = key->mv_size < bound->size ? key->mv_size : bound->size;
    const int order = memcmp(key->mv_data, bound->bytes, common);
    return order != 0 ? order : (key->mv_size > bound->size) - (key->mv_size < bound->size);
}

bool salvage_in_gap(const struct salvage *s, enum index_db db, const MDB_val *key)
{
    for (size_t i = 0; i < s->gap_count; i++) {
        const struct salvage_gap *const gap = &s->gaps[i];
        if (gap->db == db && (gap->from_start || order(key, &gap->low) > 0) &&
            (gap->to_end || order(key, &gap->high) < 0))
            return true;
    }
    return false;
}

bool salvage_any_gap(const struct salvage *s, enum index_db db)
{
    for (size_t i = 0; i < s->gap_count; i++) {
        if (s->gaps[i].db == db)
            return true;
    }
    return false;
}

/* ---- the new file -------------------------------------------------------------------------- */

static int begin(struct salvage *s)
{
    return index_mdb_error(mdb_txn_begin(s->env, NULL, 0, &s->txn));
}

static int put_sealed(struct salvage *s, enum index_db db, MDB_val *key, MDB_val *value,
                      bool unique)
{
    const int rc = mdb_put(s->txn, s->db[db], key, value, unique ? MDB_NOOVERWRITE : 0);
    if (rc != 0)
        return index_mdb_error(rc);
    s->uncommitted += key->mv_size + value->mv_size + 16;
    if (s->uncommitted < BATCH_BYTES)
        return 0;
    s->uncommitted = 0;
    const int error = index_mdb_error(s->place->io->txn_commit(s->txn));
    s->txn = NULL;
    return error != 0 ? error : begin(s);
}

int salvage_put(struct salvage *s, enum index_db db, const struct index_key *key,
                const struct index_record *record, bool unique)
{
    uint8_t bytes[INDEX_RECORD_MAX + INDEX_SEAL];
    MDB_val k = {.mv_size = key->size, .mv_data = (void *)(uintptr_t)key->bytes};
    MDB_val value = {.mv_size = record->size + INDEX_SEAL, .mv_data = bytes};
    memcpy(bytes, record->bytes, record->size);
    index_seal_put(bytes + record->size, index_seal(db, &k, bytes, record->size));
    return put_sealed(s, db, &k, &value, unique);
}

int salvage_get(struct salvage *s, enum index_db db, const struct index_key *key, MDB_val *value)
{
    MDB_val k = {.mv_size = key->size, .mv_data = (void *)(uintptr_t)key->bytes};
    const int error = index_mdb_error(mdb_get(s->txn, s->db[db], &k, value));
    if (error == 0)
        index_unseal(db, &k, value);
    return error;
}

static int open_new(struct salvage *s)
{
    struct index *const place = s->place;
    char path[4096 + 64];
    if (place->io->mkdirat(place->dir_fd, PLACE, 0700) < 0 && errno != EEXIST)
        return -errno;
    /* Of a salvage that was interrupted. */
    place->io->unlinkat(place->dir_fd, PLACE "/data.mdb", 0);
    place->io->unlinkat(place->dir_fd, PLACE "/lock.mdb", 0);
    snprintf(path, sizeof path, "%s/" PLACE "/data.mdb", place->path);
    int rc = mdb_env_create(&s->env);
    if (rc == 0)
        rc = mdb_env_set_maxdbs(s->env, INDEX_DB_COUNT);
    if (rc == 0)
        rc = mdb_env_set_mapsize(s->env, INDEX_MAP_DEFAULT);
    if (rc == 0)
        rc = place->io->env_open(s->env, path, MDB_NOSUBDIR | MDB_NOLOCK | MDB_NOSYNC, 0600);
    int error = index_mdb_error(rc);
    if (error == 0)
        error = begin(s);
    for (unsigned db = 0; db < INDEX_DB_COUNT && error == 0; db++)
        error = index_mdb_error(mdb_dbi_open(s->txn, index_db_names[db], MDB_CREATE, &s->db[db]));
    return error;
}

static int64_t highest(struct salvage *s, enum index_db db)
{
    MDB_cursor *cursor;
    MDB_val key, value;
    uint64_t number = 0;
    if (mdb_cursor_open(s->txn, s->db[db], &cursor) != 0)
        return 0;
    if (mdb_cursor_get(cursor, &key, &value, MDB_LAST) == 0)
        index_key_get_one(&key, &number);
    mdb_cursor_close(cursor);
    return number < INT64_MAX ? (int64_t)number : 0;
}

/* The state of what was put. Sums are for index_check to set right. */
static int put_state(struct salvage *s)
{
    struct index_key key;
    struct index_record record;
    const uint64_t inode = (uint64_t)highest(s, INDEX_DB_INODE);
    const uint64_t block = (uint64_t)highest(s, INDEX_DB_BLOCK);
    const uint64_t pack = (uint64_t)highest(s, INDEX_DB_PACK);
    struct index_state *const state = &s->state;
    state->next_ino = state->next_ino > inode ? state->next_ino : inode + 1;
    state->next_block = state->next_block > block ? state->next_block : block + 1;
    if (state->next_pack <= pack && pack < UINT32_MAX)
        state->next_pack = (uint32_t)pack + 1;
    memcpy(state->uuid, s->place->uuid, sizeof state->uuid);
    state->format = INDEX_FORMAT_VERSION;
    state->clean = true;
    state->commit = mdb_txn_id(s->txn);
    index_key_text(&key, "state");
    index_record_state(&record, state);
    return salvage_put(s, INDEX_DB_META, &key, &record, false);
}

/* Commits, syncs and closes the new file. */
static int close_new(struct salvage *s)
{
    int error = put_state(s);
    if (error == 0) {
        error = index_mdb_error(s->place->io->txn_commit(s->txn));
        s->txn = NULL;
    }
    /* LMDB leaves out pages that a transaction took and freed again: the file must reach its last. */
    MDB_stat stat;
    if (error == 0)
        error = index_mdb_error(mdb_env_stat(s->env, &stat));
    if (error == 0) {
        s->place->page_size = stat.ms_psize;
        s->place->map_size = INDEX_MAP_DEFAULT;
        error = index_env_reach(s->place, s->env, 0);
    }
    if (error == 0)
        error = index_mdb_error(s->place->io->env_sync(s->env, 1));
    return error;
}

static void drop_new(struct salvage *s)
{
    if (s->txn != NULL)
        mdb_txn_abort(s->txn);
    if (s->env != NULL)
        mdb_env_close(s->env);
    s->txn = NULL;
    s->env = NULL;
}

/* ---- sources ------------------------------------------------------------------------------- */

static int add_gap(void *arg, enum index_db db, const MDB_val *low, const MDB_val *high)
{
    struct salvage *const s = arg;
    if (s->gap_count == s->gap_room) {
        const size_t room = s->gap_room == 0 ? 64 : 2 * s->gap_room;
        struct salvage_gap *const gaps = reallocarray(s->gaps, room, sizeof *gaps);
        if (gaps == NULL)
            return -ENOMEM;
        s->gaps = gaps;
        s->gap_room = room;
    }
    struct salvage_gap *const gap = &s->gaps[s->gap_count];
    *gap = (struct salvage_gap){
        .db = db, .from_start = low->mv_size == 0, .to_end = high->mv_size == 0};
    if (low->mv_size > sizeof gap->low.bytes || high->mv_size > sizeof gap->high.bytes)
        return 0; /* no key of ours */
    gap->low.size = low->mv_size;
    gap->high.size = high->mv_size;
    if (low->mv_size > 0)
        memcpy(gap->low.bytes, low->mv_data, low->mv_size);
    if (high->mv_size > 0)
        memcpy(gap->high.bytes, high->mv_data, high->mv_size);
    s->gap_count++;
    return 0;
}

static int all_gap(struct salvage *s)
{
    int error = 0;
    for (unsigned db = 0; db < INDEX_DB_COUNT && error == 0; db++)
        error = add_gap(s, (enum index_db)db, &(MDB_val){0}, &(MDB_val){0});
    return error;
}

/* Numbers that were handed out must not come again: the larger of both sources'. */
static void take_state(struct salvage *s, const MDB_val *key, const MDB_val *value)
{
    struct index_state state;
    MDB_val plain = *value;
    if (key->mv_size != 5 || memcmp(key->mv_data, "state", 5) != 0 ||
        !index_unseal(INDEX_DB_META, key, &plain) || index_record_get_state(&plain, &state) != 0)
        return;
    struct index_state *const kept = &s->state;
    kept->next_ino = state.next_ino > kept->next_ino ? state.next_ino : kept->next_ino;
    kept->next_block = state.next_block > kept->next_block ? state.next_block : kept->next_block;
    kept->next_pack = state.next_pack > kept->next_pack ? state.next_pack : kept->next_pack;
}

static int take_record(void *arg, enum index_db db, const MDB_val *key, const MDB_val *value)
{
    struct salvage *const s = arg;
    uint64_t id;
    if (db == INDEX_DB_META)
        take_state(s, key, value);
    if (db == INDEX_DB_META || db == INDEX_DB_HASH || db == INDEX_DB_FREE)
        return 0;
    if (s->filling && db == INDEX_DB_BLOCK && index_key_get_one(key, &id) == 0)
        s->copy_blocks = id > s->copy_blocks ? id : s->copy_blocks;
    if (s->filling && !salvage_in_gap(s, db, key))
        return 0;
    MDB_val k = *key, v = *value;
    int error = put_sealed(s, db, &k, &v, true);
    if (error == -EEXIST)
        return 0;
    if (error == 0)
        ++*(s->filling ? &s->result->from_copy : &s->result->from_index);
    return error != 0 ? error : salvage_stopped(s);
}

static void name_damage(void *arg, const char *text)
{
    struct salvage *const s = arg;
    salvage_say(s, s->filling ? "copy-damaged" : "index-page", INDEX_PROBLEM_FOUND, 0, 0, 0,
                "%s: %s", s->filling ? INDEX_COPIES : "index/data.mdb", text);
}

static int from_index(struct salvage *s)
{
    const struct index_io *const io = s->place->io;
    const struct index_pages_visit visit = {
        .arg = s, .record = take_record, .gap = add_gap, .damage = name_damage};
    struct index_pages pages;
    const int fd = index_io_open(io, s->place->index_fd, "data.mdb", O_RDONLY, 0);
    if (fd == -ENOENT) {
        name_damage(s, "the file is missing");
        return all_gap(s);
    }
    if (fd < 0)
        return fd;
    int error = index_pages_open(&pages, io, fd);
    if (error == -EUCLEAN || error == -EIO)
        name_damage(s, pages.problem);
    if (error == 0 || error == -EUCLEAN || error == -EIO) {
        error = index_pages_salvage(&pages, &visit, &s->stale);
        s->index_blocks = (uint64_t)highest(s, INDEX_DB_BLOCK);
        if (error == -EUCLEAN)
            error = all_gap(s);
    }
    index_pages_close(&pages);
    io->close(fd);
    return error;
}

/* The N-th newest copy. 1: there is none. */
static int try_copy(struct salvage *s, int copies, unsigned n)
{
    const struct index_io *const io = s->place->io;
    const struct index_pages_visit visit = {.arg = s, .record = take_record, .damage = name_damage};
    bool whole;
    int error = index_copies_name(io, copies, n, s->result->copy);
    if (error != 0) {
        s->result->copy[0] = '\0';
        return error == -ENOENT ? 1 : error;
    }
    const int fd = index_io_open(io, copies, s->result->copy, O_RDONLY, 0);
    if (fd < 0)
        return fd;
    s->filling = true;
    error = index_copy_read(io, fd, s->place->uuid, &visit, &whole);
    s->filling = false;
    io->close(fd);
    return error;
}

/* A copy with a damaged header says nothing: then the one before it. */
static int from_copies(struct salvage *s)
{
    if (s->gap_count == 0)
        return 0;
    const int copies =
        index_io_open(s->place->io, s->place->dir_fd, INDEX_COPIES, O_RDONLY | O_DIRECTORY, 0);
    if (copies < 0)
        return copies == -ENOENT ? 0 : copies;
    int error = -EUCLEAN;
    for (unsigned n = 0; error == -EUCLEAN || error == -EIO; n++)
        error = try_copy(s, copies, n);
    s->place->io->close(copies);
    return error == 1 ? 0 : error;
}

/* ---- check and exchange -------------------------------------------------------------------- */

/* What follows from the rest is repaired without a word. */
static void on_problem(void *arg, const struct index_problem *problem)
{
    struct salvage *const s = arg;
    s->result->lost += problem->state == INDEX_PROBLEM_LOST;
    if (problem->state == INDEX_PROBLEM_LOST || !problem->derivable)
        s->options->problem(s->options->arg, problem);
}

struct round {
    struct salvage *s;
    uint64_t fixed;
};

static void on_repair(void *arg, const struct index_problem *problem)
{
    struct round *const round = arg;
    round->fixed += problem->state == INDEX_PROBLEM_FIXED;
    if (problem->state == INDEX_PROBLEM_FIXED && !problem->derivable)
        round->s->options->problem(round->s->options->arg, problem);
}

/* Repairs until nothing is left to repair, then reads everything. */
static int check_new(struct salvage *s)
{
    const struct index_options options = {
        .flags = INDEX_OPEN_NO_RECOVER, .log = s->options->log, .log_arg = s->options->log_arg};
    const struct index_place place = {.directory = PLACE, .lock_fd = s->place->lock_fd};
    char error[512];
    struct round round = {.s = s, .fixed = 1};
    struct index_check check = {.repair = true,
                                .threads = s->options->threads,
                                .problem = on_repair,
                                .progress = s->options->progress,
                                .arg = &round,
                                .stop = s->options->stop};
    int result = 0;
    for (unsigned i = 0; i <= ROUNDS && result == 0; i++) {
        struct index *index;
        const bool last = round.fixed == 0 || i == ROUNDS;
        result = index_open_place(s->place->path, &options, s->place->io, &place, &index, error,
                                  sizeof error);
        if (result != 0) {
            salvage_say(s, "index-page", INDEX_PROBLEM_LOST, 0, 0, 0, "the new index: %s", error);
            return result;
        }
        round.fixed = 0;
        if (last) { /* progress and problems now go where the caller wants them */
            check.repair = false;
            check.scrub = true;
            check.problem = on_problem;
            check.arg = s;
        }
        check.progress = NULL;
        result = index_check(index, &check);
        const int closed = index_close(index);
        result = result == 0 ? closed : result;
        if (last)
            break;
    }
    return result;
}

/* The old file gets another name first, and the new one its name in one step. */
static int exchange(struct salvage *s)
{
    const struct index *const place = s->place;
    const struct index_io *const io = place->io;
    const time_t now = time(NULL);
    struct tm tm;
    int error = 0;
    char *const aside = s->result->set_aside;
    const size_t size = sizeof s->result->set_aside;
    const int fd = index_io_open(io, place->dir_fd, PLACE, O_RDONLY | O_DIRECTORY, 0);
    if (fd < 0)
        return fd;
    error = index_io_sync_dir(io, fd);
    strftime(aside, size, "data.mdb.damaged-%Y%m%dT%H%M%SZ", gmtime_r(&now, &tm));
    for (unsigned i = 1; error == 0; i++) { /* never over an older one */
        const int old = index_io_open(io, place->index_fd, aside, O_RDONLY, 0);
        if (old < 0)
            break;
        io->close(old);
        strftime(aside, size, "data.mdb.damaged-%Y%m%dT%H%M%SZ", &tm);
        snprintf(aside + strlen(aside), size - strlen(aside), ".%u", i);
    }
    /* A second name, so that index/ has a data.mdb at every moment; a host without links renames. */
    if (error == 0 && io->linkat(place->index_fd, "data.mdb", place->index_fd, aside, 0) < 0 &&
        io->renameat(place->index_fd, "data.mdb", place->index_fd, aside) < 0) {
        error = errno == ENOENT ? 0 : -errno;
        aside[0] = '\0';
    }
    if (error == 0)
        io->unlinkat(place->index_fd, "lock.mdb", 0);
    if (error == 0 && io->renameat(fd, "data.mdb", place->index_fd, "data.mdb") < 0)
        error = -errno;
    if (error == 0)
        error = index_io_sync_dir(io, place->index_fd);
    io->close(fd);
    if (error == 0) {
        io->unlinkat(place->dir_fd, PLACE "/lock.mdb", 0);
        io->unlinkat(place->dir_fd, PLACE, AT_REMOVEDIR);
        error = index_io_sync_dir(io, place->dir_fd);
    }
    return error;
}

/* ---- the whole ----------------------------------------------------------------------------- */

static int build(struct salvage *s)
{
    int error = open_new(s);
    if (error == 0)
        error = from_index(s);
    if (error == 0)
        error = from_copies(s);
    if (error == 0)
        error = salvage_scan(s);
    if (error == 0)
        error = salvage_attach(s);
    if (error == 0)
        error = close_new(s);
    drop_new(s);
    return error;
}

int index_salvage(const char *path, const struct index_salvage *options,
                  struct index_salvage_result *result, char *error, size_t size)
{
    const struct index_options open = {.log = options->log, .log_arg = options->log_arg};
    *result = (struct index_salvage_result){0};
    struct salvage *const s = calloc(1, sizeof *s);
    if (s == NULL)
        return -ENOMEM;
    *s = (struct salvage){.options = options, .result = result};
    s->state =
        (struct index_state){.next_ino = INDEX_ROOT_INO + 1, .next_block = 1, .next_pack = 1};
    int outcome = index_store_lock(path, &open, &index_io_system, &s->place, error, size);
    if (outcome != 0)
        goto out;
    /* A reader shares the lock of index/; its file must not change under it. */
    if (s->place->io->flock(s->place->index_fd, LOCK_EX | LOCK_NB) < 0) {
        outcome = -EBUSY;
        snprintf(error, size, "%s: another program reads the index", path);
        goto unlock;
    }
    outcome = build(s);
    if (outcome == 0)
        outcome = check_new(s);
    if (outcome == 0)
        outcome = exchange(s);
    if (outcome != 0)
        snprintf(error, size, "%s: %s", path, strerror(-outcome));
unlock:
    index_store_unlock(s->place);
out:
    free(s->gaps);
    free(s->found);
    free(s->referred);
    free(s->sides);
    free(s);
    return outcome;
}
