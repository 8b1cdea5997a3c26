/* SPDX-License-Identifier: BSD-2-Clause
 *
 * train.h - trains static knowledge for the SEP codec: a network in floats, quantised once.
 *
 * A sample is filled with blocks and closed; a trainer learns from it in one pass, on as many
 * threads as wanted. What it learns follows from the sample, the settings and the seed alone: the
 * number of threads, interruptions and the processor make no difference.
 *
 * Functions return 0 or a negative errno. Nothing here is global; one thread may use one object at
 * a time.
 */
#ifndef TRAIN_H
#define TRAIN_H

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "codec/sep.h"

/* ---- sample ------------------------------------------------------------------------------------
 */

#define TRAIN_BLOCK_MIN 512u /* bytes; shorter blocks teach nothing and are left out */

enum train_kind {
    TRAIN_KIND_TEXT,
    TRAIN_KIND_MARKUP,
    TRAIN_KIND_SOURCE,
    TRAIN_KIND_TABLE, /* logs, CSV, JSON, catalogues */
    TRAIN_KIND_X86,
    TRAIN_KIND_RECORDS, /* binary, with a stride */
    TRAIN_KIND_BINARY,
    TRAIN_KIND_COUNT
};

#define TRAIN_KIND_BIT(kind) (1u << (kind))
#define TRAIN_KINDS_TEXT                                                                           \
    (TRAIN_KIND_BIT(TRAIN_KIND_TEXT) | TRAIN_KIND_BIT(TRAIN_KIND_MARKUP) |                         \
     TRAIN_KIND_BIT(TRAIN_KIND_SOURCE) | TRAIN_KIND_BIT(TRAIN_KIND_TABLE))
#define TRAIN_KINDS_BINARY                                                                         \
    (TRAIN_KIND_BIT(TRAIN_KIND_X86) | TRAIN_KIND_BIT(TRAIN_KIND_RECORDS) |                         \
     TRAIN_KIND_BIT(TRAIN_KIND_BINARY))

/* "text", "markup", ...; never NULL for a kind below TRAIN_KIND_COUNT. */
const char *train_kind_name(enum train_kind kind);

struct train_sample;

/* LIMIT: bytes of blocks to keep; KINDS: mask of TRAIN_KIND_BIT, others are left out. NULL when
 * memory is short. */
struct train_sample *train_sample_new(uint64_t seed, uint64_t limit, unsigned kinds);
void train_sample_free(struct train_sample *sample);

/* Whether the block at OFFSET of NAME would be kept now: false saves the work of reading it. */
bool train_sample_wants(const struct train_sample *sample, const char *name, uint64_t offset);

/* Offers a copy of SIZE bytes; what is too short or incompressible is left out. */
int train_sample_add(struct train_sample *sample, const char *name, uint64_t offset,
                     const void *bytes, size_t size);

/* What is heard of long work, and what ends it. */
struct train_watch {
    void *user;
    const volatile sig_atomic_t *stop;                        /* not 0: end with -EINTR */
    void (*reading)(void *user, uint64_t bytes);              /* bytes looked at so far */
    void (*problem)(void *user, const char *path, int error); /* skipped; errno */
};

/* Once, after the last add: drops duplicates, sets blocks apart to judge by, shuffles. */
void train_sample_close(struct train_sample *sample);

struct train_counts {
    uint64_t blocks, bytes; /* to train on */
    uint64_t held_out_blocks, held_out_bytes;
    uint64_t duplicates;                                                  /* blocks left out */
    uint64_t kind_blocks[TRAIN_KIND_COUNT], kind_bytes[TRAIN_KIND_COUNT]; /* to train on */
};
void train_sample_count(const struct train_sample *sample, struct train_counts *counts);

/* ---- network ------------------------------------------------------------------------------------
 */

#define TRAIN_THREADS_MAX 64u

struct train_progress {
    uint64_t done, total; /* bytes */
    double loss;          /* of late, bits a byte */
    double speed;         /* bytes a second */
};

struct train_settings {
    uint64_t seed;
    unsigned threads;       /* 1 .. TRAIN_THREADS_MAX; makes no difference to the result */
    unsigned rows_log;      /* rows of a patch, log2: 8 .. 16 */
    unsigned kinds;         /* mask of TRAIN_KIND_BIT; chooses the patches too */
    float rate;             /* of Adagrad; 0: the default */
    float penalty;          /* nats a byte that a patch must be worth; 0: the default */
    double time_limit;      /* seconds; 0: none. The result depends on where it ended */
    const char *checkpoint; /* file written once a minute and when stopped; NULL: none */
    bool resume;            /* begin where the checkpoint ended */
    void (*progress)(void *user, const struct train_progress *progress); /* often */
};

struct train_net;

/* Learns from the blocks of SAMPLE that are not held out. -EINTR when watch->stop was set (the
 * checkpoint is written then), -ESTALE and -EBADMSG when the checkpoint is of no use, -ENODATA when
 * no block is of these kinds. *net is set on success only; free it with train_net_free. */
int train_net_learn(const struct train_sample *sample, const struct train_settings *settings,
                    const struct train_watch *watch, struct train_net **net);
void train_net_free(struct train_net *net);

/* The network in integers, beside the one in floats. */
struct train_loss {
    uint64_t bytes;          /* judged by */
    double floats, integers; /* bits a byte of the network alone */
    unsigned patches;        /* whose gate stayed open */
};

/* Quantises NET and judges both forms by held-out blocks of KINDS. *model gets the result as its net;
 * it is to be empty. -ENODATA when every gate is closed. */
int train_net_quantise(const struct train_net *net, const struct train_sample *sample,
                       unsigned kinds, struct sep_model *model, struct train_loss *loss);

/* ---- model --------------------------------------------------------------------------------------
 */

/* A model without net and states; NAME at most 47 bytes. NULL when memory is short. */
struct sep_model *train_model_new(enum sep_model_kind kind, const char *name);

struct train_priming {
    uint64_t bytes_max;  /* of blocks a state is made from */
    uint32_t slots_max;  /* slots a state may keep */
    unsigned blocks_min; /* blocks that must have asked for a slot */
    unsigned count_max;  /* counts are cut to this */
};

/* Adds a primed state of one kind of block to MODEL, made with its net or without. -ENODATA when
 * there are not enough blocks of the kind. */
int train_model_prime(struct sep_model *model, const struct train_sample *sample,
                      enum train_kind kind, bool with_net, const struct train_priming *priming,
                      const struct train_watch *watch);

/* Takes the states of a kind out again; whether there was one. */
bool train_model_drop(struct sep_model *model, enum train_kind kind);

/* The file; *bytes is from malloc. TEXT says what the model was trained on. */
int train_model_write(struct sep_model *model, const char *text, uint8_t **bytes, size_t *size);

/* ---- judgement ----------------------------------------------------------------------------------
 */

struct train_sizes {
    uint64_t plain, before, after; /* bytes, coded without and with the model */
};

/* Models that are there anyway: the first ENCODE of COUNT to encode with. Borrowed. */
struct train_beside {
    const struct sep_model *const *models;
    unsigned encode, count;
};

/* Codes held-out blocks of each kind, at most MOST bytes of a kind, with and without a model FILE of
 * SIZE bytes, on THREADS threads. BESIDE may be NULL. -EBADMSG when FILE is no model. */
int train_judge(const struct train_sample *sample, const uint8_t *file, size_t size, uint64_t most,
                unsigned threads, const struct train_beside *beside,
                const struct train_watch *watch, struct train_sizes sizes[TRAIN_KIND_COUNT]);

#endif
