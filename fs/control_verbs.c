/* SPDX-License-Identifier: BSD-2-Clause
 *
 * control_verbs.c - the verbs of the control socket. Each is one function in a table; arguments are
 * checked here, and an argument that a verb does not know is refused by name.
 */
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "compactor.h"
#include "control_text.h"
#include "control_verbs.h"
#include "scrub.h"
#include "writeback.h"

#define ARGUMENTS_MAX 16u
/* A wait looks for the daemon's end this often. */
#define WAIT_SLICE_MS 200u
#define WAIT_MAX_MS   3600000u

struct argument {
    const char *key;
    char *value;
    bool used;
};

struct call {
    struct fs_control_view *view;
    struct fs *fs;
    struct fs_reply *reply;
    struct argument arguments[ARGUMENTS_MAX];
    unsigned count;
    char text[128]; /* of the error */
};

/* ---- answers ------------------------------------------------------------------------------- */

static void append(struct fs_reply *reply, const char *data, size_t size)
{
    if (reply->failed)
        return;
    if (reply->size + size > reply->capacity) {
        const size_t capacity = (reply->size + size) * 2 + 1024;
        char *grown = realloc(reply->data, capacity);

        if (grown == NULL) {
            free(reply->data);
            *reply = (struct fs_reply){.failed = true};
            return;
        }
        reply->data = grown;
        reply->capacity = capacity;
    }
    memcpy(reply->data + reply->size, data, size);
    reply->size += size;
}

static void put_text(struct call *call, const char *key, const char *value)
{
    char encoded[3 * PATH_MAX + 1];

    fs_percent_encode(value, encoded, sizeof encoded);
    append(call->reply, key, strlen(key));
    append(call->reply, "=", 1);
    append(call->reply, encoded, strlen(encoded));
    append(call->reply, "\n", 1);
}

static void put_u64(struct call *call, const char *key, uint64_t value)
{
    char line[128];
    const int n = snprintf(line, sizeof line, "%s=%" PRIu64 "\n", key, value);

    append(call->reply, line, (size_t)n);
}

__attribute__((format(printf, 3, 4))) static int fail(struct call *call, int error,
                                                      const char *format, ...)
{
    va_list args;

    va_start(args, format);
    vsnprintf(call->text, sizeof call->text, format, args);
    va_end(args);
    return error;
}

/* ---- arguments ----------------------------------------------------------------------------- */

static const char *argument(struct call *call, const char *key)
{
    for (unsigned i = 0; i < call->count; i++) {
        if (strcmp(call->arguments[i].key, key) == 0) {
            call->arguments[i].used = true;
            return call->arguments[i].value;
        }
    }
    return NULL;
}

/* Absent: *value keeps its default. */
static int argument_u64(struct call *call, const char *key, uint64_t max, uint64_t *value)
{
    const char *text = argument(call, key);
    char *end;
    unsigned long long parsed;

    if (text == NULL)
        return 0;
    errno = 0;
    parsed = strtoull(text, &end, 10);
    if (*text < '0' || *text > '9' || *end != '\0' || errno != 0 || parsed > max)
        return fail(call, -EINVAL, "%s: not a number up to %" PRIu64, key, max);
    *value = parsed;
    return 0;
}

static int no_more_arguments(struct call *call)
{
    for (unsigned i = 0; i < call->count; i++) {
        if (!call->arguments[i].used)
            return fail(call, -EINVAL, "unknown argument %.40s", call->arguments[i].key);
    }
    return 0;
}

static int parse(struct call *call, char *line)
{
    char *save = NULL;

    for (char *word = strtok_r(line, " ", &save); word != NULL; word = strtok_r(NULL, " ", &save)) {
        char *equals = strchr(word, '=');

        if (equals == NULL || equals == word)
            return fail(call, -EINVAL, "argument is not key=value: %.40s", word);
        if (call->count == ARGUMENTS_MAX)
            return fail(call, -EINVAL, "too many arguments");
        *equals = '\0';
        if (fs_percent_decode(equals + 1) != 0)
            return fail(call, -EINVAL, "%.40s: bad percent-encoding", word);
        call->arguments[call->count++] = (struct argument){.key = word, .value = equals + 1};
    }
    return 0;
}

/* ---- verbs --------------------------------------------------------------------------------- */

static int verb_hello(struct call *call)
{
    put_u64(call, "pid", (uint64_t)getpid());
    put_text(call, "version", SEPFS_VERSION);
    put_text(call, "store", index_path(call->fs->index));
    put_text(call, "mountpoint", call->view->mountpoint);
    return 0;
}

/* Upper bound of the histogram bucket that holds the block at PERCENT of all. */
static uint64_t percentile(const uint64_t counts[32], uint64_t total, unsigned percent)
{
    const uint64_t rank = (total * percent + 99) / 100;
    uint64_t seen = 0;

    for (unsigned i = 0; i < 32; i++) {
        seen += counts[i];
        if (seen >= rank && seen > 0)
            return (uint64_t)2 << i;
    }
    return 0;
}

/* What sepfs-stats shows of it; all keys begin with "scrub_". */
static void put_scrub(struct call *call)
{
    struct fs_scrub_status status;
    const struct index_scrub *progress = &status.progress;

    if (fs_scrub_status(call->fs, &status) != 0)
        return;
    put_text(call, "scrub_state", fs_scrub_state_text(status.state));
    put_u64(call, "scrub_period_s", call->fs->options.scrub);
    put_u64(call, "scrub_next_block", progress->next_block);
    put_u64(call, "scrub_started_at", (uint64_t)progress->started_at);
    put_u64(call, "scrub_finished_at", (uint64_t)progress->finished_at);
    put_u64(call, "scrub_rounds", progress->rounds);
    put_u64(call, "scrub_blocks", progress->blocks);
    put_u64(call, "scrub_bytes", progress->bytes);
    put_u64(call, "scrub_total_bytes", status.live_bytes);
    put_u64(call, "scrub_damaged", progress->damaged);
    put_u64(call, "scrub_damaged_packs", progress->damaged_packs);
    put_u64(call, "scrub_last_blocks", progress->last_blocks);
    put_u64(call, "scrub_last_bytes", progress->last_bytes);
    put_u64(call, "scrub_last_damaged", progress->last_damaged);
    put_u64(call, "scrub_last_damaged_packs", progress->last_damaged_packs);
}

static int verb_scrub(struct call *call)
{
    const char *action = argument(call, "action");
    int error = no_more_arguments(call);
    uint64_t round = 0;

    if (error != 0)
        return error;
    if (action == NULL || strcmp(action, "status") == 0)
        error = call->fs->scrub != NULL ? 0 : -EOPNOTSUPP;
    else if (strcmp(action, "start") == 0)
        error = fs_scrub_begin(call->fs, &round);
    else if (strcmp(action, "stop") == 0)
        error = fs_scrub_halt(call->fs);
    else
        return fail(call, -EINVAL, "action: expected start, stop or status");
    if (error != 0)
        return fail(call, error, "this mount does not scrub (mounted with ro)");
    if (round != 0)
        put_u64(call, "round", round);
    put_scrub(call);
    return 0;
}

static int verb_stats(struct call *call)
{
    struct fs_counters *counters = &call->fs->counters;
    uint64_t decodes[32];
    uint64_t total = 0;

    for (unsigned i = 0; i < 32; i++)
        total += decodes[i] = counters->decode_ns[i];
    put_u64(call, "cache_hits", counters->cache_hits);
    put_u64(call, "cache_misses", counters->cache_misses);
    put_u64(call, "cache_limit", call->fs->options.cache);
    put_u64(call, "blocks_read", counters->blocks_read);
    put_u64(call, "blocks_written", counters->blocks_written);
    put_u64(call, "blocks_deduplicated", counters->blocks_deduplicated);
    put_u64(call, "blocks_holes", counters->blocks_holes);
    put_u64(call, "readahead_blocks", counters->readahead_blocks);
    put_u64(call, "read_errors", counters->read_errors);
    put_u64(call, "write_errors", counters->write_errors);
    put_u64(call, "foreground", counters->foreground);
    put_u64(call, "dirty_bytes", fs_writeback_bytes(call->fs));
    put_u64(call, "dirty_limit", call->fs->options.dirty);
    put_u64(call, "decodes", total);
    put_u64(call, "decode_p50_ns", percentile(decodes, total, 50));
    put_u64(call, "decode_p90_ns", percentile(decodes, total, 90));
    put_u64(call, "decode_p99_ns", percentile(decodes, total, 99));
    put_u64(call, "damaged_blocks_healed", counters->blocks_healed);
    put_scrub(call);
    return 0;
}

static void put_status(struct call *call, const struct fs_compact_status *status)
{
    put_u64(call, "running", status->running);
    put_u64(call, "paused", status->paused);
    put_u64(call, "blocks_done", status->blocks_done);
    put_u64(call, "blocks_total", status->blocks_total);
    put_u64(call, "bytes_done", status->bytes_done);
    put_u64(call, "bytes_total", status->bytes_total);
    put_u64(call, "stored_before", status->stored_before);
    put_u64(call, "stored_after", status->stored_after);
    put_u64(call, "failed", status->failed);
    put_u64(call, "declined", status->declined);
    put_u64(call, "elapsed_ms", status->elapsed_ms);
    put_u64(call, "error", (uint64_t)-status->error);
    put_text(call, "backend", status->backend);
    put_text(call, "path", status->path);
}

static int need_compactor(struct call *call)
{
    if (call->fs->compactor == NULL)
        return fail(call, -EOPNOTSUPP, "this mount does not compact (mounted with %s)",
                    call->fs->options.readonly ? "ro" : "compact=off");
    return 0;
}

static int verb_compact(struct call *call)
{
    struct fs_compact_request request = {0};
    uint64_t all = 0;
    uint64_t gc = 0;
    uint64_t older_than = 0;
    uint64_t ticket;
    const char *method = argument(call, "method");
    int error = need_compactor(call);

    if (error == 0)
        error = argument_u64(call, "ino", UINT64_MAX, &request.ino);
    if (error == 0)
        error = argument_u64(call, "all", 1, &all);
    if (error == 0)
        error = argument_u64(call, "gc", 1, &gc);
    if (error == 0)
        error = argument_u64(call, "older_than", UINT32_MAX, &older_than);
    if (error == 0)
        error = no_more_arguments(call);
    if (error == 0 && method != NULL) {
        const enum sep_status status = sep_method_parse(method, &request.method);

        if (status != SEP_OK)
            return fail(call, -EINVAL, "method %.40s: %s", method, sep_status_text(status));
        request.has_method = true;
    }
    if (error != 0)
        return error;
    request.all = all != 0;
    request.gc = gc != 0;
    request.older_than = (uint32_t)older_than;
    error = fs_compactor_request(call->fs, &request, &ticket);
    if (error != 0)
        return fail(call, error, "cannot queue the request: %s", strerror(-error));
    put_u64(call, "ticket", ticket);
    return 0;
}

static bool told_to_stop(const struct call *call)
{
    struct pollfd fd = {.fd = call->view->stop, .events = POLLIN};

    return poll(&fd, 1, 0) > 0;
}

static int verb_wait(struct call *call)
{
    struct fs_compact_status status;
    uint64_t ticket = 0;
    uint64_t left = 1000;
    int ended = need_compactor(call);

    if (ended == 0)
        ended = argument_u64(call, "ticket", UINT64_MAX, &ticket);
    if (ended == 0)
        ended = argument_u64(call, "timeout_ms", WAIT_MAX_MS, &left);
    if (ended == 0)
        ended = no_more_arguments(call);
    if (ended != 0)
        return ended;
    for (;;) {
        const uint64_t slice = left < WAIT_SLICE_MS ? left : WAIT_SLICE_MS;

        ended = fs_compactor_wait(call->fs, ticket, (unsigned)slice, &status);
        left -= slice;
        if (ended != 0 || left == 0)
            break;
        if (told_to_stop(call))
            return fail(call, -ESHUTDOWN, "the file system is being unmounted");
    }
    if (ended == -ENOENT)
        return fail(call, ended, "no request with ticket %" PRIu64, ticket);
    if (ended < 0)
        return fail(call, ended, "wait: %s", strerror(-ended));
    put_status(call, &status);
    put_u64(call, "done", ended == 1);
    return 0;
}

static int verb_status(struct call *call)
{
    struct fs_compact_status status;
    const int error = need_compactor(call);

    if (error != 0)
        return error;
    fs_compactor_status(call->fs, &status);
    put_status(call, &status);
    return 0;
}

static int set_paused(struct call *call, bool paused)
{
    const int error = need_compactor(call);

    if (error != 0)
        return error;
    fs_compactor_pause(call->fs, paused);
    return verb_status(call);
}

static int verb_pause(struct call *call)
{
    return set_paused(call, true);
}

static int verb_resume(struct call *call)
{
    return set_paused(call, false);
}

static int verb_sync(struct call *call)
{
    int error = fs_writeback_all(call->fs);

    if (error == 0)
        error = index_commit(call->fs->index);
    if (error != 0)
        return fail(call, error, "sync: %s", strerror(-error));
    return 0;
}

static const struct verb {
    const char *name;
    int (*run)(struct call *call);
    bool arguments; /* checks its own; others take none */
} verbs[] = {
    {"hello", verb_hello, false},   {"stats", verb_stats, false},   {"compact", verb_compact, true},
    {"wait", verb_wait, true},      {"status", verb_status, false}, {"pause", verb_pause, false},
    {"resume", verb_resume, false}, {"sync", verb_sync, false},     {"scrub", verb_scrub, true},
};

static int run(struct call *call, char *line)
{
    char *rest = strchr(line, ' ');
    int error;

    if (rest != NULL)
        *rest++ = '\0';
    for (size_t i = 0; i < sizeof verbs / sizeof *verbs; i++) {
        if (strcmp(verbs[i].name, line) != 0)
            continue;
        error = rest != NULL ? parse(call, rest) : 0;
        if (error == 0 && !verbs[i].arguments)
            error = no_more_arguments(call);
        return error != 0 ? error : verbs[i].run(call);
    }
    return fail(call, -ENOSYS, "unknown verb");
}

void fs_control_verb(struct fs_control_view *view, char *line, struct fs_reply *reply)
{
    struct call call = {.view = view, .fs = view->fs, .reply = reply};
    char last[192];
    const int error = run(&call, line);
    int n;

    if (error == 0) {
        append(reply, "ok\n", 3);
        return;
    }
    /* What was asked may be repeated in the text: keep the answer one line. */
    for (char *c = call.text; *c != '\0'; c++) {
        if ((unsigned char)*c < ' ' || *c == 0x7f)
            *c = '?';
    }
    reply->size = 0;
    n = snprintf(last, sizeof last, "error %d %s\n", -error, call.text);
    append(reply, last, (size_t)n);
}
