/* SPDX-License-Identifier: BSD-2-Clause
 *
 * train.h - what the files of sepfs-train share: what was asked for, and where it writes.
 */
#ifndef TOOLS_TRAIN_H
#define TOOLS_TRAIN_H

#include "cli.h"
#include "codec/train/train.h"

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

extern volatile sig_atomic_t train_interrupted;

/* Samples, trains, judges, writes; returns an exit code. */
int train_run(struct train_request *request);

/* A file under its name only when it is whole and on disk; 0 or a negative errno. */
int train_write_file(const char *path, const void *bytes, size_t size);

#endif
