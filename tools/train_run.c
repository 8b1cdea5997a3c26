/* SPDX-License-Identifier: BSD-2-Clause
 *
 * train_run.c - the steps of sepfs-train: sample, net, primed states, judgement, file.
 *
 * A kind's primed state stays only when held-out blocks of that kind become smaller by GAIN_LEAST; a
 * kind without held-out blocks keeps its state unjudged.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "train.h"

#define JUDGE_MOST   (1u << 20) /* held-out bytes of a kind */
#define NET_LEAST    (4u << 20) /* less data than this teaches a net nothing */
#define LOSS_ALLOWED 0.5        /* percent, of quantisation */
#define GAIN_LEAST   0.5        /* percent; less is not worth a state's size and its trials */
#define BAR_TEXT     160

struct training {
    struct train_request *request;
    struct train_watch watch;
    struct train_sample *sample;
    struct train_counts counts;
    struct sep_model *model;
    unsigned net_kinds; /* kinds the net has learnt; 0: no net */
    char *checkpoint;
    struct train_store store; /* with request->store */
    uint8_t *file;            /* the model as a file */
    size_t file_size;
    struct train_sizes sizes[TRAIN_KIND_COUNT];
};

/* ---- what is shown -------------------------------------------------------------------------- */

static void show_reading(void *user, uint64_t done)
{
    struct train_request *const request = user;
    char bytes[CLI_TEXT];

    cli_progress_update(&request->progress, request->doing, done, request->doing_total,
                        request->doing_total > 1024 ? cli_bytes(done, bytes) : NULL);
}

static void show_problem(void *user, const char *path, int error)
{
    struct train_request *const request = user;

    cli_progress_clear(&request->progress);
    cli_error(request->name, path, "%s", strerror(error));
}

static void show_learning(void *user, const struct train_progress *now)
{
    struct train_request *const request = user;
    char detail[BAR_TEXT], speed[CLI_TEXT], left[CLI_TEXT];
    const double seconds = now->speed > 0 ? (double)(now->total - now->done) / now->speed : 0;

    snprintf(detail, sizeof detail, "%.3f bits a byte  %s/s  %s left", now->loss,
             cli_bytes((uint64_t)now->speed, speed), cli_seconds(seconds, left));
    cli_progress_update(&request->progress, "learning", now->done, now->total, detail);
}

static int fail(const struct training *t, const char *subject, int error)
{
    cli_progress_clear(&t->request->progress);
    if (error == -EINTR) {
        cli_error(t->request->name, subject, "interrupted");
        return TRAIN_EXIT_INTERRUPTED;
    }
    cli_error(t->request->name, subject, "%s",
              error == -ESTALE    ? "belongs to other data or other options"
              : error == -EBADMSG ? "is damaged"
                                  : strerror(-error));
    return TRAIN_EXIT_FAILED;
}

/* ---- steps ---------------------------------------------------------------------------------- */

static int draw_sample(struct training *t)
{
    struct train_request *const request = t->request;
    char bytes[CLI_TEXT], held_out[CLI_TEXT];

    request->doing = "reading";
    request->doing_total = 0;
    t->sample = train_sample_new(request->seed, request->size_limit, request->kinds);
    if (t->sample == NULL)
        return fail(t, NULL, -ENOMEM);
    if (request->store != NULL) {
        const int error = train_store_sample(&t->store, t->sample, &t->watch);

        if (error != 0)
            return fail(t, request->store, error);
    }
    for (int k = 0; k < request->path_count; k++) {
        const int error = train_files_sample(t->sample, request->paths[k], &t->watch);

        if (error != 0)
            return fail(t, request->paths[k], error);
    }
    train_sample_close(t->sample);
    train_sample_count(t->sample, &t->counts);
    cli_progress_clear(&request->progress);
    printf("sample: %" PRIu64 " blocks, %s; held out: %" PRIu64
           ", %s; duplicates left out: %" PRIu64 "\n",
           t->counts.blocks, cli_bytes(t->counts.bytes, bytes), t->counts.held_out_blocks,
           cli_bytes(t->counts.held_out_bytes, held_out), t->counts.duplicates);
    for (unsigned k = 0; k < TRAIN_KIND_COUNT; k++)
        if (t->counts.kind_blocks[k] != 0)
            printf("  %-8s %6" PRIu64 " blocks, %s\n", train_kind_name(k), t->counts.kind_blocks[k],
                   cli_bytes(t->counts.kind_bytes[k], bytes));
    if (t->counts.blocks != 0)
        return TRAIN_EXIT_DONE;
    cli_error(request->name, NULL, "no block to learn from");
    return TRAIN_EXIT_FAILED;
}

static uint64_t bytes_of(const struct training *t, unsigned kinds)
{
    uint64_t bytes = 0;

    for (unsigned k = 0; k < TRAIN_KIND_COUNT; k++)
        bytes += (kinds & TRAIN_KIND_BIT(k)) != 0 ? t->counts.kind_bytes[k] : 0;
    return bytes;
}

/* A model has one net: for text or for binary data, whichever there is more of. */
static unsigned choose_net_kinds(const struct training *t)
{
    const uint64_t text = bytes_of(t, TRAIN_KINDS_TEXT), binary = bytes_of(t, TRAIN_KINDS_BINARY);
    const uint64_t most = text > binary ? text : binary;

    if (t->request->no_net || most < NET_LEAST)
        return 0;
    return text >= binary ? TRAIN_KINDS_TEXT : TRAIN_KINDS_BINARY;
}

/* About one row of each table for 2 KiB of data: a larger net would not be filled. */
static unsigned choose_rows_log(const struct training *t)
{
    unsigned rows_log = 10;

    if (t->request->rows_log != 0)
        return t->request->rows_log;
    while (rows_log < 14 && (uint64_t)4096 << rows_log < bytes_of(t, t->net_kinds))
        rows_log++;
    return rows_log;
}

static int train_net(struct training *t)
{
    struct train_request *const request = t->request;
    struct train_settings settings = {
        .seed = request->seed,
        .threads = request->threads,
        .kinds = t->net_kinds,
        .time_limit = request->time_limit,
        .checkpoint = t->checkpoint,
        .resume = request->resume,
        .progress = show_learning,
    };
    struct train_net *net = NULL;
    struct train_loss loss = {0};
    int error;

    settings.rows_log = choose_rows_log(t);
    error = train_net_learn(t->sample, &settings, &t->watch, &net);
    if (error != 0)
        return fail(t, error == -ENOMEM ? NULL : t->checkpoint, error);
    error = train_net_quantise(net, t->sample, t->net_kinds, t->model, &loss);
    train_net_free(net);
    if (error != 0)
        return fail(t, "net", error);
    cli_progress_clear(&request->progress);
    printf("net: %u patches, 2^%u rows each; alone, held out: %.4f bits a byte in floats, %.4f in "
           "integers\n",
           loss.patches, settings.rows_log, loss.floats, loss.integers);
    if (loss.integers > loss.floats * (1 + LOSS_ALLOWED / 100))
        cli_error(request->name, NULL, "warning: quantisation loses %.2f %%, more than %.1f %%",
                  (loss.integers / loss.floats - 1) * 100, LOSS_ALLOWED);
    return TRAIN_EXIT_DONE;
}

static int write_model(struct training *t)
{
    free(t->file);
    t->file = NULL;
    return train_model_write(t->model, t->request->text, &t->file, &t->file_size);
}

static int judge(struct training *t)
{
    const struct train_beside beside = {t->store.list, t->store.encode, t->store.count};
    const int error = write_model(t);

    t->request->doing = "judging";
    t->request->doing_total = 0;
    return error != 0 ? error
                      : train_judge(t->sample, t->file, t->file_size, JUDGE_MOST,
                                    t->request->threads, &beside, &t->watch, t->sizes);
}

/* The states of all kinds that there is enough of. */
static int prime(struct training *t)
{
    const struct train_priming priming = {
        .bytes_max = 6u << 20, .slots_max = 40000, .blocks_min = 2, .count_max = 4};

    for (unsigned k = 0; k < TRAIN_KIND_COUNT; k++) {
        const bool with_net = (t->net_kinds & TRAIN_KIND_BIT(k)) != 0;
        int error;

        t->request->doing = train_kind_name(k);
        t->request->doing_total = t->counts.kind_bytes[k] < priming.bytes_max
                                      ? t->counts.kind_bytes[k]
                                      : priming.bytes_max;
        error = train_model_prime(t->model, t->sample, k, with_net, &priming, &t->watch);
        if (error != 0 && error != -ENODATA)
            return fail(t, train_kind_name(k), error);
    }
    return TRAIN_EXIT_DONE;
}

/* Prints the table and returns its sums. */
static struct train_sizes show_judgement(const struct training *t)
{
    struct train_sizes all = {0};

    printf("%-8s %12s %10s %10s %8s\n", "held out", "bytes", "without", "with", "gain");
    for (unsigned k = 0; k <= TRAIN_KIND_COUNT; k++) {
        const struct train_sizes *const s = k < TRAIN_KIND_COUNT ? &t->sizes[k] : &all;

        if (s->plain == 0)
            continue;
        printf("%-8s %12" PRIu64 " %10.4f %10.4f %7.2f%%\n",
               k < TRAIN_KIND_COUNT ? train_kind_name(k) : "all", s->plain,
               8.0 * (double)s->before / (double)s->plain,
               8.0 * (double)s->after / (double)s->plain,
               100.0 * (1.0 - (double)s->after / (double)s->before));
        if (k < TRAIN_KIND_COUNT) {
            all.plain += s->plain;
            all.before += s->before;
            all.after += s->after;
        }
    }
    return all;
}

/* What the model would save in the whole store, if all of it were compressed with SEP, against its
 * own size. Held-out blocks stand for the store: the sample is an even one. */
static bool pays(const struct training *t, const struct train_sizes *all)
{
    const double saved = all->plain == 0 ? 0
                                         : ((double)all->before - (double)all->after) /
                                               (double)all->plain * (double)t->store.plain_bytes;
    char bytes[CLI_TEXT], size[CLI_TEXT];

    printf("store: the model would save %s of %s and takes %s\n",
           cli_bytes(saved > 0 ? (uint64_t)saved : 0, bytes),
           cli_bytes(all->plain == 0 ? 0
                                     : (uint64_t)((double)all->before / (double)all->plain *
                                                  (double)t->store.plain_bytes),
                     (char[CLI_TEXT]){0}),
           cli_bytes(t->file_size, size));
    return saved > (double)t->file_size;
}

static int keep(struct training *t, const struct train_sizes *all)
{
    struct train_request *const request = t->request;
    int error = 0;

    if (request->output != NULL)
        error = train_write_file(request->output, t->file, t->file_size);
    if (error != 0)
        return fail(t, request->output, error);
    if (t->checkpoint != NULL)
        (void)unlink(t->checkpoint);
    if (request->store == NULL)
        return TRAIN_EXIT_DONE;
    if (!pays(t, all)) {
        cli_error(request->name, request->store, "not installed: it does not pay for its size");
        return TRAIN_EXIT_NO_GAIN;
    }
    return train_store_install(&t->store, t->file, t->file_size) == 0 ? TRAIN_EXIT_DONE
                                                                      : TRAIN_EXIT_FAILED;
}

/* Takes out the states that gain too little; whether there were any. */
static bool drop_useless(struct training *t)
{
    bool dropped = false;

    for (unsigned k = 0; k < TRAIN_KIND_COUNT; k++) {
        const struct train_sizes *const s = &t->sizes[k];

        if (s->plain != 0 && (double)s->after > (double)s->before * (1 - GAIN_LEAST / 100) &&
            train_model_drop(t->model, k)) {
            cli_progress_clear(&t->request->progress);
            printf("state left out: %s gains %.2f%%\n", train_kind_name(k),
                   100.0 * (1.0 - (double)s->after / (double)s->before));
            dropped = true;
        }
    }
    return dropped;
}

static int finish(struct training *t)
{
    struct train_sizes all;
    char bytes[CLI_TEXT];
    int error = judge(t);

    if (error == 0 && drop_useless(t))
        error = judge(t);

    if (error != 0)
        return fail(t, "model", error);
    cli_progress_clear(&t->request->progress);
    all = show_judgement(t);
    printf("model: %s\n", cli_bytes(t->file_size, bytes));
    if (all.plain == 0 || all.after < all.before)
        return keep(t, &all);
    cli_error(t->request->name, t->request->output, "not written: it makes nothing smaller");
    return TRAIN_EXIT_NO_GAIN;
}

/* ---- run ------------------------------------------------------------------------------------ */

int train_write_file(const char *path, const void *bytes, size_t size)
{
    char *temporary = NULL;
    FILE *file;
    int error = 0;

    if (asprintf(&temporary, "%s.new", path) < 0)
        return -ENOMEM;
    file = fopen(temporary, "we");
    if (file == NULL) {
        error = -errno;
        free(temporary);
        return error;
    }
    if (fwrite(bytes, 1, size, file) != size || fflush(file) != 0 || fsync(fileno(file)) != 0)
        error = errno != 0 ? -errno : -EIO;
    if (fclose(file) != 0 && error == 0)
        error = -errno;
    if (error == 0 && rename(temporary, path) != 0)
        error = -errno;
    if (error != 0)
        (void)unlink(temporary);
    free(temporary);
    return error;
}

static int run_steps(struct training *t)
{
    int code = draw_sample(t);

    if (code != TRAIN_EXIT_DONE)
        return code;
    t->model = train_model_new(t->request->kind, t->request->title);
    if (t->model == NULL)
        return fail(t, NULL, -ENOMEM);
    t->net_kinds = choose_net_kinds(t);
    if (t->net_kinds != 0)
        code = train_net(t);
    if (code == TRAIN_EXIT_DONE)
        code = prime(t);
    return code != TRAIN_EXIT_DONE ? code : finish(t);
}

int train_run(struct train_request *request)
{
    struct training t = {
        .request = request,
        .watch = {.user = request,
                  .stop = &train_interrupted,
                  .reading = show_reading,
                  .problem = show_problem},
    };
    int code;

    if (request->text == NULL)
        request->text = "";
    if (request->output != NULL && asprintf(&t.checkpoint, "%s.checkpoint", request->output) < 0)
        return fail(&t, NULL, -ENOMEM);
    code = request->store != NULL && train_store_open(&t.store, request->name, request->store) != 0
               ? TRAIN_EXIT_FAILED
               : run_steps(&t);
    if (request->store != NULL)
        train_store_close(&t.store);
    sep_model_free(t.model);
    train_sample_free(t.sample);
    free(t.checkpoint);
    free(t.file);
    return code;
}
