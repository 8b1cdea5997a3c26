/* SPDX-License-Identifier: BSD-2-Clause
 *
 * compact_run.c - a pass: from items to batches, and from finished batches to the index.
 *
 * The thread of the compactor reads packs, hashes, appends and makes the transactions; coding is
 * done by the workers of gpu/, in private copies. It runs at normal priority, because whoever holds
 * the index transaction must not be starved; what it does itself is little. Batches are small and
 * commits rare: every 5 seconds or 64 MiB.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <syslog.h>

#include "compact.h"
#include "models.h"

#define COMMIT_MS    5000u
#define COMMIT_BYTES ((uint64_t)64 << 20)
#define PATH_MS      250u /* the path in the status is looked up this often at most */

void compact_unit_free(struct compact_unit *unit)
{
    free(unit->source);
    free(unit->plain);
    free(unit->payload);
    free(unit->targets);
    *unit = (struct compact_unit){0};
}

/* ---- status -------------------------------------------------------------------------------- */

static void show_path(struct compact_pass *pass, uint64_t ino)
{
    const uint64_t now = compact_now_ms();
    char path[sizeof((struct fs_compact_status *)0)->path];
    struct index_txn *txn;

    if (ino == 0 || now - pass->pathed_at < PATH_MS)
        return;
    pass->pathed_at = now;
    if (index_begin(pass->fs->index, INDEX_READ, &txn) != 0)
        return;
    index_inode_path(txn, ino, path, sizeof path);
    index_end(txn);
    memcpy(compact_status_lock(pass)->path, path, sizeof path);
    compact_status_unlock(pass);
}

/* ---- results ------------------------------------------------------------------------------- */

/* A job that did not succeed. For a shared block in the making its sources stay what they are. */
static int apply_failed(struct compact_pass *pass, struct compact_unit *unit,
                        const struct gpu_job *job)
{
    char reason[64];
    int error = 0;

    if (job->result == GPU_CANCELLED)
        return 0;
    if (job->status == SEP_ERROR_MEMORY)
        return -ENOMEM;
    snprintf(reason, sizeof reason, "%s: %s", gpu_result_text(job->result),
             sep_status_text(job->status));
    if (unit->targets == NULL)
        return compact_damaged(pass, unit, reason);
    fs_log(LOG_ERR, "shared block for %u pieces: %s", unit->target_count, reason);
    for (unsigned i = 0; i < unit->target_count && error == 0; i++) {
        if (!unit->targets[i].twin)
            error = compact_decline(pass, unit->targets[i].extent.block, unit->method, EIO, reason);
    }
    return error;
}

static int commit_if_due(struct compact_pass *pass)
{
    const uint64_t now = compact_now_ms();

    if (pass->uncommitted < COMMIT_BYTES && now - pass->committed_at < COMMIT_MS)
        return 0;
    pass->uncommitted = 0;
    pass->committed_at = now;
    return index_commit(pass->fs->index);
}

/* Takes the batch apart, whatever became of it. After an error results are dropped: that loses
 * nothing but work. When stopping, what is finished still counts. */
static void apply(struct compact_pass *pass, struct compact_batch *batch)
{
    struct compact_batch **link = &pass->flight;
    uint64_t ino = 0;

    while (*link != batch)
        link = &(*link)->next;
    *link = batch->next;
    for (unsigned i = 0; i < batch->count; i++) {
        struct compact_unit *unit = &batch->units[i];
        const struct gpu_job *job = &batch->jobs[i];

        if (pass->error == 0) {
            ino = unit->ino;
            if (job->result != GPU_GOOD)
                pass->error = apply_failed(pass, unit, job);
            else if (unit->targets != NULL)
                pass->error = compact_share_apply(pass, unit, job);
            else
                pass->error = compact_recode_apply(pass, unit, job);
        }
        compact_unit_free(unit);
    }
    free(batch);
    show_path(pass, ino);
    if (pass->error == 0)
        pass->error = commit_if_due(pass);
}

/* ---- batches ------------------------------------------------------------------------------- */

static int open_pipeline(struct compact_pass *pass)
{
    struct fs *fs = pass->fs;
    const struct sep_model *models[SEP_CONTEXT_MODELS_MAX];
    struct gpu_options options = {
        .workers = fs->options.threads, .cpu_share = fs->options.cpu_share, .models = models};
    struct gpu_status status;
    int error;

    fs_models_choose(fs->models, fs->options.models[0] != '\0' ? fs->options.models : NULL);
    fs_models_list(fs->models, models, &options.model_count, &options.encode_count);
    error = gpu_open(&options, &pass->pipeline);
    if (error != 0)
        return error;
    compact_set_pipeline(pass, pass->pipeline);
    gpu_status_get(pass->pipeline, &status);
    pass->batch_bytes = status.batch_bytes;
    memcpy(compact_status_lock(pass)->backend, status.name, sizeof status.name);
    compact_status_unlock(pass);
    return 0;
}

static void collect(struct compact_pass *pass, int timeout_ms)
{
    struct gpu_batch *done = gpu_collect(pass->pipeline, timeout_ms);

    if (done != NULL)
        apply(pass, done->arg);
}

static int submit(struct compact_pass *pass)
{
    struct compact_batch *batch = pass->filling;
    int error;

    if (batch == NULL)
        return 0;
    batch->gpu = (struct gpu_batch){.jobs = batch->jobs, .count = batch->count, .arg = batch};
    while ((error = gpu_submit(pass->pipeline, &batch->gpu)) == -EAGAIN)
        collect(pass, -1);
    if (error != 0)
        return error;
    pass->filling = NULL;
    batch->next = pass->flight;
    pass->flight = batch;
    /* Whatever is ready meanwhile: results must not wait for the queue to fill. */
    collect(pass, 0);
    return pass->error;
}

int compact_feed_unit(struct compact_pass *pass, const struct compact_unit *given)
{
    struct compact_unit unit = *given;
    struct compact_batch *batch;
    unsigned at;
    int error = pass->pipeline == NULL ? open_pipeline(pass) : 0;

    unit.payload = malloc(sep_bound(unit.block.plain_size));
    if (error == 0 && unit.payload != NULL && pass->filling == NULL)
        pass->filling = calloc(1, sizeof *pass->filling);
    batch = pass->filling;
    if (error != 0 || unit.payload == NULL || batch == NULL) {
        compact_unit_free(&unit);
        return error != 0 ? error : -ENOMEM;
    }
    at = batch->count++;
    batch->units[at] = unit;
    batch->bytes += unit.block.plain_size;
    batch->jobs[at] = (struct gpu_job){
        .method = unit.method,
        .source_codec = unit.block.codec,
        .source = unit.source,
        .source_size = unit.source != NULL ? unit.block.at.payload_size : 0,
        .plain_size = unit.block.plain_size,
        .plain = unit.plain,
        .payload = unit.payload,
    };
    if (batch->bytes >= pass->batch_bytes || batch->count == COMPACT_BATCH_UNITS)
        return submit(pass);
    return 0;
}

/* Everything submitted is applied. */
static int drain(struct compact_pass *pass)
{
    const int error = submit(pass);

    while (pass->flight != NULL)
        collect(pass, -1);
    return error != 0 ? error : pass->error;
}

static void release(struct compact_pass *pass)
{
    if (pass->pipeline != NULL) {
        gpu_cancel(pass->pipeline);
        while (pass->flight != NULL)
            collect(pass, -1);
        compact_set_pipeline(pass, NULL);
        gpu_close(pass->pipeline);
        pass->pipeline = NULL;
    }
    if (pass->filling != NULL) {
        for (unsigned i = 0; i < pass->filling->count; i++)
            compact_unit_free(&pass->filling->units[i]);
        free(pass->filling);
        pass->filling = NULL;
    }
    free(pass->window.items);
    pass->window = (struct compact_window){0};
    free(pass->scratch);
    pass->scratch = NULL;
    sep_context_free(pass->context);
    pass->context = NULL;
}

static int feed_all(struct compact_pass *pass, struct compact_plan *plan)
{
    struct compact_item items[COMPACT_CHUNK];
    unsigned count;
    int more = 1;
    int error = 0;

    while (more > 0) {
        if (!compact_gate(pass))
            return -ECANCELED;
        more = compact_plan_next(plan, items, &count);
        if (more < 0)
            return more;
        for (unsigned i = 0; i < count && error == 0; i++) {
            if (!compact_gate(pass))
                return -ECANCELED;
            error = items[i].piece ? compact_window_add(pass, &items[i])
                                   : compact_feed(pass, &items[i]);
        }
        if (error != 0)
            return error;
    }
    return compact_window_flush(pass, true);
}

int compact_pass_run(struct compact_pass *pass, struct compact_plan *plan)
{
    int error;

    pass->committed_at = compact_now_ms();
    error = pass->kind == COMPACT_PROMOTE ? compact_promote(pass) : feed_all(pass, plan);
    if (error == 0)
        error = drain(pass);
    if (error != 0 && error != -ECANCELED && pass->error == 0)
        pass->error = error;
    release(pass);
    if (pass->error == 0 && *compact_stop_flag(pass))
        pass->error = -ECANCELED;
    if (pass->error == 0 && (atomic_exchange(&pass->fs->recount, false) || pass->recount))
        pass->error = compact_recount(pass->fs, compact_stop_flag(pass));
    if (pass->uncommitted > 0) {
        error = index_commit(pass->fs->index);
        if (pass->error == 0)
            pass->error = error;
    }
    return pass->error;
}
