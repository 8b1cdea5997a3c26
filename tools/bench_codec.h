/* SPDX-License-Identifier: BSD-2-Clause
 *
 * bench_codec.h - what the files of sepfs-bench codec share. bench_codec.c reads options and files
 * and prints; bench_blocks.c measures codecs on blocks, bench_whole.c programs on whole files;
 * bench_plot.c draws.
 */
#ifndef TOOLS_BENCH_CODEC_H
#define TOOLS_BENCH_CODEC_H

#include "codec/sep.h"
#include "model_files.h"

#define BENCH_NAME        "sepfs-bench codec"
#define BENCH_CODERS_MAX  16u
#define BENCH_THREADS_MAX 256u

enum bench_kind {
    BENCH_METHOD,   /* a codec of libsep on blocks */
    BENCH_XZ_BLOCK, /* liblzma on blocks */
    BENCH_WHOLE,    /* a program on whole files */
};

/* What a row of the table is. */
struct bench_coder {
    char name[24];
    enum bench_kind kind;
    struct sep_method method;            /* BENCH_METHOD */
    bool models;                         /* with the models given */
    const struct bench_program *program; /* BENCH_WHOLE */
};

struct bench_result {
    uint64_t payload_size; /* bytes */
    double encode_seconds, decode_seconds;
};

struct bench_file {
    const char *path;
    uint8_t *plain;
    size_t size;
};

struct bench {
    size_t block_size;
    unsigned threads;
    bool json;
    struct model_files models;
    struct bench_coder coders[BENCH_CODERS_MAX];
    unsigned coder_count;
    unsigned ours; /* the row that is compared with xz */
    int xz;        /* xz on blocks, or -1 */
    char work[64]; /* directory for the programs; empty: none was needed */
};

/* bench_blocks.c: cuts FILE into blocks, encodes each alone, decodes and compares. */
enum sep_status bench_blocks(const struct bench *bench, const struct bench_coder *coder,
                             const struct bench_file *file, struct bench_result *result);

/* bench_whole.c: program NUMBER that is in PATH, or NULL after the last one. */
struct bench_program;
const struct bench_program *bench_program_next(const struct bench_program *last);
const char *bench_program_name(const struct bench_program *program);
/* Runs it on a copy of FILE in bench->work and compares what comes back. 0 or a negative errno. */
int bench_whole(const struct bench *bench, const struct bench_coder *coder,
                const struct bench_file *file, struct bench_result *result);

struct bench_point {
    const char *name;
    double ratio;        /* geometric mean, plain bytes : bytes */
    double decode_speed; /* MB/s (10^6) */
    bool ours;
};
/* bench_plot.c: an SVG of ratio against decoding speed (logarithmic). 0 or a negative errno. */
int bench_plot(const char *path, const struct bench_point *points, unsigned count);

#endif
