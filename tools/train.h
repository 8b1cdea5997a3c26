/* SPDX-License-Identifier: BSD-2-Clause
 *
 * train.h - what the files of sepfs-train share: what was asked for, and where it writes.
 */
#ifndef TOOLS_TRAIN_H
#define TOOLS_TRAIN_H

#include "cli.h"
#include "codec/train/train.h"
#include "fs/fs.h"

enum {
    TRAIN_EXIT_DONE = 0,
    TRAIN_EXIT_FAILED = 1,
    TRAIN_EXIT_USAGE = 2,
    TRAIN_EXIT_NO_GAIN = 3,
    TRAIN_EXIT_INTERRUPTED = 130
};

struct train_request {
    const char *name; /* of the program, for messages */
    enum sep_model_kind kind;
    unsigned kinds;     /* of data */
    const char *output; /* NULL: train and judge only */
    const char *store;  /* NULL: learn from the operands */
    const char *title;  /* name inside the model */
    const char *text;   /* what it was trained on; NULL: made from the operands */
    uint64_t seed, size_limit;
    unsigned threads, rows_log; /* rows_log 0: by the amount of data */
    double time_limit;
    bool resume, no_net;
    char *const *paths;
    int path_count;
    struct cli_progress progress;
    enum cli_progress_mode progress_mode;
    const char *doing; /* label of the progress line while blocks are read or coded */
    uint64_t doing_total;
};

struct train_store {
    const char *program, *path;
    struct index *index;
    struct fs_models *models;
    const struct sep_model *list[SEP_CONTEXT_MODELS_MAX]; /* those to encode with first */
    unsigned count, encode;
    uint64_t plain_bytes; /* of all extents, once sampled */
};

extern volatile sig_atomic_t train_interrupted;

/* Samples, trains, judges, writes; returns an exit code. */
int train_run(struct train_request *request);

/* train_files.c. Offers the blocks of a file, or of all files below a folder; what cannot be read is
 * told to WATCH and skipped. 0 or a negative errno. */
int train_files_sample(struct train_sample *sample, const char *path,
                       const struct train_watch *watch);

/* train_store.c. Opened for reading, beside a mount or not; errors of open and install have been
 * reported when they return. Close also after a failed open. */
int train_store_open(struct train_store *store, const char *program, const char *path);
void train_store_close(struct train_store *store);
int train_store_sample(struct train_store *store, struct train_sample *sample,
                       const struct train_watch *watch);
/* Puts the model file into the store, which must not be mounted. */
int train_store_install(struct train_store *store, const void *bytes, size_t size);

/* A file under its name only when it is whole and on disk; 0 or a negative errno. */
int train_write_file(const char *path, const void *bytes, size_t size);

#endif
