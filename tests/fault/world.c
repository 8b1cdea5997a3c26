/* SPDX-License-Identifier: BSD-2-Clause
 *
 * world.c - see world.h: opening and closing, and the operations on contents.
 */
#include "world.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/falloc.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <syslog.h>
#include <unistd.h>

#include "fs/compactor.h"
#include "fs/writeback.h"
#include "world_names.h"

static uint8_t scratch[WORLD_SIZE + 1];

void world_must(bool ok, const char *format, ...)
{
    char line[512];
    va_list args;
    if (ok)
        return;
    va_start(args, format);
    const int size = vsnprintf(line, sizeof line - 1, format, args);
    va_end(args);
    line[size] = '\n';
    const ssize_t put = write(STDERR_FILENO, line, (size_t)size + 1);
    (void)put;
    _exit(1);
}

int world_result(struct world *w, int result, const char *what)
{
    if (result >= 0)
        return result;
    w->failures++;
    const int error = -result;
    const bool explained = error == w->injected || error == EROFS || error == EIO ||
                           (w->injected == EDQUOT && error == ENOSPC) ||
                           ((w->injected == EAGAIN || w->injected == ENOMEM) &&
                            (error == ENOMEM || error == EAGAIN)) ||
                           /* what LMDB makes of a write or a read of its file that is short */
                           (w->injected == INJECT_SHORT && (error == ENOSPC || error == EUCLEAN));
    world_must(w->injected != 0 && explained, "%s: %s, which no fault explains", what,
               strerror(error));
    return result;
}

void world_init(struct world *w, struct inject *inject, const char *store)
{
    memset(w, 0, offsetof(struct world, files));
    for (unsigned i = 0; i < WORLD_FILES; i++)
        memset(&w->files[i], 0, offsetof(struct world_file, past));
    w->inject = inject;
    snprintf(w->store, sizeof w->store, "%s", store);
    snprintf(inject->top, sizeof inject->top, "%s", store);
    fs_options_init(&w->options);
    w->options.threads = 1;
    w->options.dirty = 512u << 10;
    w->options.cache = 256u << 10;
    w->options.commit = 3600;
    w->options.compact = FS_COMPACT_CPU;
    w->options.cold_after = 1000000;
    w->options.models[0] = '\0';
    w->options.promote = true;
}

void world_begin(struct world *w, const struct world *from, const char *store)
{
    world_init(w, from->inject, store);
    for (unsigned i = 0; i < WORLD_FILES; i++) {
        const struct world_file *const f = &from->files[i];
        memcpy(&w->files[i], f, offsetof(struct world_file, past));
        memcpy(w->files[i].past, f->past, f->count * sizeof f->past[0]);
        w->files[i].inode = NULL;
    }
}

static void on_log(void *arg, int priority, const char *line)
{
    struct world *const w = arg;
    (void)priority;
    if (strstr(line, "no further writes") != NULL)
        w->refused = true;
    fprintf(stderr, "index: %s\n", line);
}

int world_open(struct world *w)
{
    struct index_options options = {.flags = INDEX_OPEN_CREATE,
                                    .map_size = UINT64_C(64) << 20,
                                    .pack_size = 256u << 10,
                                    .log = on_log,
                                    .log_arg = w};
    char error[256] = "", conf[300];
    snprintf(conf, sizeof conf, "%s/sepfs.conf", w->store);
    if (access(conf, F_OK) != 0)
        options.block_size = WORLD_BLOCK;
    w->refused = false;
    int result = world_result(w, index_open(w->store, &options, &w->index, error, sizeof error),
                              "index_open");
    if (result != 0) {
        world_must(error[0] != '\0', "index_open fails without a reason");
        w->index = NULL;
        return result;
    }
    memset(&w->fs, 0, sizeof w->fs);
    result = world_result(w, fs_start(&w->fs, w->index, &w->options), "fs_start");
    if (result != 0) {
        (void)index_close(w->index);
        w->index = NULL;
        return result;
    }
    for (unsigned i = 0; i < WORLD_FILES; i++) {
        struct world_file *const f = &w->files[i];
        if (f->used && f->there &&
            world_result(w, fs_inode_open(&w->fs, f->ino, &f->inode), "fs_inode_open") != 0)
            f->inode = NULL;
    }
    return 0;
}

int world_close(struct world *w)
{
    for (unsigned i = 0; i < WORLD_FILES; i++) {
        if (w->files[i].inode != NULL)
            fs_inode_close(&w->fs, w->files[i].inode);
        w->files[i].inode = NULL;
    }
    const bool refused = index_readonly(w->index);
    const int stopped = world_result(w, fs_stop(&w->fs), "fs_stop");
    const int closed = world_result(w, index_close(w->index), "index_close");
    world_must(!refused || stopped != 0 || closed != 0, "read-only, and closing reports nothing");
    w->index = NULL;
    if (stopped == 0 && closed == 0) {
        world_names_acknowledged(w);
        for (unsigned i = 0; i < WORLD_FILES; i++) {
            struct world_file *const f = &w->files[i];
            if (f->used && f->sure && f->count > 1) {
                f->past[0] = f->past[f->count - 1];
                f->count = 1;
            }
        }
    }
    return stopped != 0 ? stopped : closed;
}

/* ---- contents -------------------------------------------------------------------------------------- */

/* A version that begins as a copy of the present one, with room up to END. */
static struct world_version *next_version(struct world_file *f, uint32_t end)
{
    world_must(f->count < WORLD_PAST && end <= WORLD_SIZE, "%s: too many versions or bytes",
               f->name);
    f->past[f->count] = f->past[f->count - 1];
    return &f->past[f->count++];
}

static void fill(uint8_t *data, uint32_t size, enum world_content content, uint64_t seed)
{
    uint64_t x = seed * UINT64_C(0x9E3779B97F4A7C15) + 1;
    for (uint32_t i = 0; i < size; i++) {
        x = x * UINT64_C(6364136223846793005) + 1442695040888963407u;
        data[i] = content == WORLD_ZEROS   ? 0
                  : content == WORLD_NOISE ? (uint8_t)(x >> 56)
                                           : (uint8_t)("etaoin shrdlu\n"[(x >> 40) % 14]);
    }
}

static void grow(struct world_version *v, uint32_t size)
{
    if (size > v->size) {
        memset(v->data + v->size, 0, size - v->size);
        v->size = size;
    }
}

void world_write(struct world *w, unsigned file, enum world_content content, uint64_t seed,
                 uint32_t size, uint32_t offset)
{
    struct world_file *const f = &w->files[file];
    if (f->inode == NULL)
        return;
    struct world_version *const v = next_version(f, offset + size);
    grow(v, offset + size);
    fill(v->data + offset, size, content, seed);
    for (uint32_t done = 0; done < size;) {
        const ssize_t put = fs_file_write(&w->fs, f->inode, v->data + offset + done, size - done,
                                          offset + done, false);
        if (world_result(w, (int)put, "write") < 0) {
            f->sure = false;
            return;
        }
        world_must(put > 0, "write of %u bytes returned 0", size - done);
        done += (uint32_t)put;
    }
}

void world_truncate(struct world *w, unsigned file, uint32_t size)
{
    struct world_file *const f = &w->files[file];
    if (f->inode == NULL)
        return;
    struct world_version *const v = next_version(f, size);
    grow(v, size);
    v->size = size;
    if (world_result(w, fs_file_truncate(&w->fs, f->inode, size), "truncate") != 0)
        f->sure = false;
}

void world_zero(struct world *w, unsigned file, uint32_t offset, uint32_t size, bool longer)
{
    struct world_file *const f = &w->files[file];
    if (f->inode == NULL)
        return;
    struct world_version *const v = next_version(f, offset + size);
    if (longer)
        grow(v, offset + size);
    for (uint32_t i = offset; i < offset + size && i < v->size; i++)
        v->data[i] = 0;
    const int mode = longer ? FALLOC_FL_ZERO_RANGE : FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE;
    if (world_result(w, fs_file_allocate(&w->fs, f->inode, mode, offset, size), "fallocate") != 0)
        f->sure = false;
}

void world_copy(struct world *w, unsigned from, unsigned to, uint32_t from_offset,
                uint32_t to_offset, uint32_t size)
{
    struct world_file *const f = &w->files[to], *const s = &w->files[from];
    if (f->inode == NULL || s->inode == NULL || !s->sure)
        return;
    struct world_version *const v = next_version(f, to_offset + size);
    grow(v, to_offset + size);
    memcpy(v->data + to_offset, s->past[s->count - 1].data + from_offset, size);
    for (uint32_t done = 0; done < size;) {
        const ssize_t put = fs_file_copy(&w->fs, s->inode, from_offset + done, f->inode,
                                         to_offset + done, size - done);
        if (world_result(w, (int)put, "copy") < 0) {
            f->sure = false;
            return;
        }
        world_must(put > 0, "copy of %u bytes returned 0", size - done);
        done += (uint32_t)put;
    }
}

/* What was read is possible: exactly the present contents when those are known, else each byte is that
 * of some version. */
static void judge(const struct world_file *f, const uint8_t *data, uint32_t from, uint32_t size,
                  bool exact)
{
    const struct world_version *const now = &f->past[f->count - 1];
    for (uint32_t i = 0; i < size; i++) {
        bool found = false;
        for (unsigned k = exact ? f->count - 1 : 0; k < f->count && !found; k++)
            found =
                from + i < f->past[k].size ? f->past[k].data[from + i] == data[i] : data[i] == 0;
        world_must(found, "%s: byte %u is %u, present value %u%s", f->name, from + i, data[i],
                   now->data[from + i], exact ? "" : ", and no earlier version has that");
    }
}

static void judge_size(const struct world_file *f, uint64_t size, bool exact)
{
    uint32_t least = UINT32_MAX, most = 0;
    for (unsigned k = exact ? f->count - 1 : 0; k < f->count; k++) {
        least = f->past[k].size < least ? f->past[k].size : least;
        most = f->past[k].size > most ? f->past[k].size : most;
    }
    world_must(size >= least && size <= most, "%s: %ju bytes, not %u to %u", f->name,
               (uintmax_t)size, least, most);
}

/* In a store that has become read-only what was not committed is gone: earlier versions appear. */
static bool exact(const struct world *w, const struct world_file *f)
{
    return f->sure && !index_readonly(w->index);
}

void world_read(struct world *w, unsigned file, uint32_t step)
{
    struct world_file *const f = &w->files[file];
    struct fs_handle handle = {.inode = f->inode, .flags = O_RDONLY};
    uint32_t at = 0;
    if (f->inode == NULL)
        return;
    for (;;) {
        const ssize_t got = fs_file_read(&w->fs, f->inode, &handle, scratch, step, at);
        if (world_result(w, (int)got, "read") < 0)
            return;
        judge(f, scratch, at, (uint32_t)got, exact(w, f));
        at += (uint32_t)got;
        if (got < (ssize_t)step)
            break;
    }
    judge_size(f, at, exact(w, f));
}

/* Takes what the file holds now, which must be possible, as its only version. */
static void adopt(struct world *w, struct world_file *f)
{
    const unsigned kinds = atomic_exchange(&w->inject->kinds, 0);
    if (!f->sure) {
        const ssize_t got = fs_file_read(&w->fs, f->inode, NULL, scratch, WORLD_SIZE + 1, 0);
        world_must(got >= 0, "%s: synced, and not readable: %s", f->name, strerror((int)-got));
        judge(f, scratch, 0, (uint32_t)got, false);
        judge_size(f, (uint64_t)got, false);
        f->past[0].size = (uint32_t)got;
        memcpy(f->past[0].data, scratch, (size_t)got);
    } else {
        f->past[0] = f->past[f->count - 1];
    }
    f->count = 1;
    f->sure = true;
    atomic_store(&w->inject->kinds, kinds);
}

void world_sync(struct world *w, unsigned file)
{
    struct world_file *const f = &w->files[file];
    if (f->inode == NULL || world_result(w, fs_file_sync(&w->fs, f->inode), "fsync") != 0)
        return;
    adopt(w, f);
    world_names_acknowledged(w);
}

void world_flush(struct world *w, unsigned file)
{
    if (w->files[file].inode != NULL)
        world_result(w, fs_file_flush(&w->fs, w->files[file].inode), "close");
}

void world_commit(struct world *w)
{
    if (world_result(w, fs_writeback_all(&w->fs), "write back") == 0) {
        if (world_result(w, index_commit(w->index), "commit") == 0)
            world_names_acknowledged(w);
    } else if (world_result(w, index_commit(w->index), "commit") == 0) {
        world_names_acknowledged(w);
    }
}

/* ---- background ------------------------------------------------------------------------------------ */

void world_compact(struct world *w, const char *method, bool gc)
{
    struct fs_compact_request request = {.all = true, .has_method = true, .gc = gc};
    struct fs_compact_status status;
    uint64_t ticket;
    world_must(sep_method_parse(method, &request.method) == 0, "method %s", method);
    if (w->fs.compactor == NULL ||
        world_result(w, fs_compactor_request(&w->fs, &request, &ticket), "compact") != 0)
        return;
    const int ended = fs_compactor_wait(&w->fs, ticket, 100000, &status);
    world_must(ended == 1, "the compactor does not end: %d", ended);
    if (status.error != 0)
        world_result(w, status.error, "compaction");
}

void world_gc(struct world *w, unsigned percent)
{
    struct index_gc_result result;
    world_result(w, index_gc(w->index, percent, NULL, &result), "gc");
}

/* ---- afterwards ------------------------------------------------------------------------------------ */

static void expect_read_only(struct world *w)
{
    struct index_txn *txn;
    world_must(w->refused, "read-only, and the log does not say so");
    world_must(index_begin(w->index, INDEX_WRITE, &txn) == -EROFS, "writes are not refused");
    for (unsigned i = 0; i < WORLD_FILES; i++) {
        if (w->files[i].used && w->files[i].there && !w->files[i].may_not_be)
            world_read(w, i, 5000);
    }
}

void world_afterwards(struct world *w)
{
    const unsigned last = WORLD_FILES - 1;
    inject_disarm(w->inject);
    if (index_readonly(w->index)) {
        expect_read_only(w);
        return;
    }
    for (unsigned i = 0; i < last; i++) {
        struct world_file *const f = &w->files[i];
        if (f->inode == NULL)
            continue;
        world_sync(w, i); /* may have an earlier error to report, once */
        const int again = fs_file_sync(&w->fs, f->inode);
        if (again == -EROFS && index_readonly(w->index)) {
            expect_read_only(w); /* a worker had met the fault and not told of it yet */
            return;
        }
        world_must(again == 0, "%s: fsync still fails: %s", f->name, strerror(-again));
        adopt(w, f);
        world_read(w, i, 10000);
    }
    const unsigned before = w->failures;
    world_create(w, last);
    world_write(w, last, WORLD_TEXT, 99, 40000, 0);
    world_sync(w, last);
    world_read(w, last, 10000);
    world_must(w->failures == before, "an operation fails without a fault");
}

static void on_problem(void *arg, const struct index_problem *problem)
{
    /* A block that could not be compared with one of the same bytes was stored beside it. When it goes,
     * the other is no longer found by its hash: nothing is lost, and fsck -p mends it. */
    if (strcmp(problem->kind, "missing-hash") != 0 && problem->state != INDEX_PROBLEM_FIXED)
        ++*(unsigned *)arg;
    fprintf(stderr, "check: %s: %s\n", problem->kind, problem->text);
}

static void ignore_problem(void *arg, const struct index_problem *problem)
{
    (void)arg;
    fprintf(stderr, "repair: %s: %s\n", problem->kind, problem->text);
}

void world_repair(struct world *w)
{
    const struct index_check check = {.repair = true, .problem = ignore_problem};
    world_result(w, index_check(w->index, &check), "repair");
}

void world_verify(struct world *w, bool repair)
{
    unsigned problems = 0;
    const struct index_check check = {.scrub = true, .problem = on_problem, .arg = &problems};
    inject_disarm(w->inject);
    w->injected = 0;
    w->failures = 0;
    world_names_find(w);
    world_must(world_open(w) == 0, "does not open again");
    world_must(!index_readonly(w->index), "read-only after opening again");
    world_names_judge(w);
    for (unsigned i = 0; i < WORLD_FILES; i++) {
        struct world_file *const f = &w->files[i];
        if (!f->used || f->inode == NULL)
            continue;
        if (f->count == 1)
            f->sure = true;
        else
            f->sure = false;
        world_read(w, i, 7000);
    }
    world_must(world_close(w) == 0, "does not close");
    /* Alone: the threads of the data path change what is checked. */
    struct index_options options = {.log = on_log, .log_arg = w};
    char error[256];
    world_must(index_open(w->store, &options, &w->index, error, sizeof error) == 0, "%s", error);
    if (repair)
        world_repair(w);
    world_must(index_check(w->index, &check) == 0, "the check cannot run");
    world_must(problems == 0, "%u problems", problems);
    world_must(index_close(w->index) == 0, "does not close after the check");
}
