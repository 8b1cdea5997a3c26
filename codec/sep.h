/* SPDX-License-Identifier: BSD-2-Clause
 *
 * sep.h - the block codecs of sepfs behind one table; the only public header of codec/ (libsep).
 *
 * A block is 1 byte to 4 MiB of plain bytes. It is coded alone: its payload, and the models that
 * the payload names, are all that decoding needs. The library knows no files, no threads and no
 * global state; every function may be called from any thread, and two threads may work at once as
 * long as each has its own context.
 *
 * The SEP codec is a network that learns while it codes, in integers only: encoder and decoder give
 * the same bits with every compiler, optimisation level and SIMD width (docs/design/codec.md).
 */
#ifndef SEP_H
#define SEP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define SEP_BLOCK_SIZE_MIN     (16u << 10) /* smallest block size a store may be created with */
#define SEP_BLOCK_SIZE_MAX     (4u << 20)  /* largest block, and the largest plain_size accepted */
#define SEP_BLOCK_SIZE_DEFAULT (128u << 10)

/* Most bytes that any codec adds to a block: payload_size <= plain_size + SEP_EXPANSION_MAX. */
#define SEP_EXPANSION_MAX 16u

/* Numbers are stored on disk: never renumber, only add. */
enum sep_codec {
    SEP_CODEC_RAW = 0,  /* the plain bytes themselves */
    SEP_CODEC_LZ4 = 1,  /* LZ4 block format */
    SEP_CODEC_ZSTD = 2, /* one zstd frame without content size and checksum */
    SEP_CODEC_SEP = 3,  /* SEP block format, see struct sep_block_info */
    SEP_CODEC_COUNT
};

enum sep_status {
    SEP_OK = 0,
    SEP_ERROR_ARGUMENT,      /* a size, level or pointer outside the documented range */
    SEP_ERROR_MEMORY,        /* an allocation failed */
    SEP_ERROR_CAPACITY,      /* the output buffer is too small */
    SEP_ERROR_CODEC,         /* codec number unknown to this build */
    SEP_ERROR_VERSION,       /* block written by a newer codec version */
    SEP_ERROR_HEADER,        /* header fields contradict each other */
    SEP_ERROR_CORRUPT,       /* payload does not decode to exactly plain_size bytes */
    SEP_ERROR_MODEL_MISSING, /* payload names a model that was not given */
    SEP_ERROR_MODEL,         /* bytes are not a model file, or one that was damaged */
    SEP_STATUS_COUNT
};

/* A lower-case English text for STATUS, never NULL. */
const char *sep_status_text(enum sep_status status);

/* What to encode with. level 0 means the codec's default. */
struct sep_method {
    uint8_t codec; /* enum sep_codec */
    uint8_t level; /* zstd 1..19 (default 3), lz4 1..12 (default 1), raw 0; sep 1..9 (default 5):
                      1 is the fastest, 2 and 3 add the net of a
                      model to it, 4 to 9 are one full setting */
};

/* Parses "raw", "lz4", "lz4:N", "zstd", "zstd:N", "sep", "sep:N".
 * Returns SEP_ERROR_CODEC for an unknown name and SEP_ERROR_ARGUMENT for a bad level; *method is
 * written only on success and then carries an explicit level. */
enum sep_status sep_method_parse(const char *text, struct sep_method *method);

/* Writes "name" or "name:level" and returns the length as snprintf does. */
int sep_method_format(struct sep_method method, char *text, size_t size);

/* "raw", "lz4", "zstd", "sep", or "unknown". */
const char *sep_codec_name(unsigned codec);

/* Scratch memory for one thread: hash slots, match tables, zstd and lz4 states, allocated at the
 * first use of each codec and kept. Encoding and decoding leave nothing in it that the next call
 * could see: results never depend on what a context did before, only on the models it was given. */
struct sep_context;

/* Returns NULL when memory is short. Free with sep_context_free (NULL is allowed). */
struct sep_context *sep_context_new(void);
void sep_context_free(struct sep_context *context);

/* Bytes of memory the context holds now. */
size_t sep_context_memory(const struct sep_context *context);

/* Payload capacity that always suffices for plain_size bytes. */
size_t sep_bound(size_t plain_size);

/* Encodes one block.
 *
 * plain, plain_size   1 .. SEP_BLOCK_SIZE_MAX bytes
 * payload, capacity   output; sep_bound(plain_size) always suffices, less may give
 *                     SEP_ERROR_CAPACITY
 * payload_size        out: bytes written
 * used                out: what the payload is; SEP_CODEC_RAW when METHOD would not have saved a
 *                     byte
 */
enum sep_status sep_encode(struct sep_context *context, struct sep_method method, const void *plain,
                           size_t plain_size, void *payload, size_t capacity, size_t *payload_size,
                           struct sep_method *used);

/* Decodes one block to exactly plain_size bytes. Never reads outside payload[0, payload_size),
 * never writes outside plain[0, plain_size), and ends in time proportional to plain_size, whatever
 * the payload holds. plain is unspecified after an error. */
enum sep_status sep_decode(struct sep_context *context, unsigned codec, const void *payload,
                           size_t payload_size, void *plain, size_t plain_size);

/* Guess at memory speed, from a sample, that no codec would save more than about 1 %: already
 * compressed or encrypted data. */
bool sep_incompressible(const void *plain, size_t plain_size);

/* Header of a SEP payload. */
struct sep_block_info {
    uint8_t version;     /* 1; every later library decodes blocks of version 1 */
    uint8_t profile;     /* which experts are on: a row of the profile table */
    uint8_t knowledge;   /* mask: 1 net of a public model, 2 net of a private model, 4 primed state;
                            0 = dynamic knowledge only */
    uint8_t state;       /* which primed state of the model; 0 without one */
    uint8_t transform;   /* reversible transform applied before modelling, 0 = none */
    uint16_t stride;     /* record length, sample, pixel or row size in bytes; 0 = none found */
    uint64_t model_hash; /* content hash of the model file; 0 = none */
};

/* Reads the header of a SEP payload without decoding. */
enum sep_status sep_block_inspect(const void *payload, size_t payload_size,
                                  struct sep_block_info *info);

/* Models: what was learnt from other data beforehand. A model is named by its content: the hash in
 * its file, which blocks that use it carry. It never changes once loaded, so any number of contexts
 * in any threads may share one. */
struct sep_model;

enum sep_model_kind {
    SEP_MODEL_PUBLIC = 1,  /* comes with the library's user, trained on public data */
    SEP_MODEL_PRIVATE = 2, /* trained on the data of one store */
};

struct sep_model_info {
    uint64_t hash;
    uint64_t base;        /* hash of another model that this one needs beside it; 0 = none */
    uint8_t kind;         /* enum sep_model_kind */
    const char *name;     /* short, UTF-8 as the file has it; valid as long as the model */
    const char *text;     /* what it was trained on; valid as long as the model */
    const char *backbone; /* of its net: "mlp", or "none" */
    unsigned states;      /* primed states */
    size_t file_size;
    size_t memory; /* bytes held while it is loaded */
};

#define SEP_MODEL_FILE_MAX ((size_t)64 << 20)
#define SEP_MODEL_HEAD     24u /* bytes of a file that sep_model_peek needs */

/* Reads a model file of SIZE bytes, which may be freed afterwards. Checks all of it: SEP_ERROR_MODEL
 * for anything that is not a whole, sound file, SEP_ERROR_VERSION for one of a later version. *model
 * is set only on success; free it with sep_model_free (NULL is allowed) when no context uses it. */
enum sep_status sep_model_load(const void *bytes, size_t size, struct sep_model **model);
void sep_model_free(struct sep_model *model);

/* Hash that the first SEP_MODEL_HEAD bytes of a model file name, without a check of the rest. */
enum sep_status sep_model_peek(const void *bytes, size_t size, uint64_t *hash);

uint64_t sep_model_hash(const struct sep_model *model);
void sep_model_describe(const struct sep_model *model, struct sep_model_info *info);

/* Name of primed state STATE of a model ("text", "code"), or NULL when it has fewer. */
const char *sep_model_state_name(const struct sep_model *model, unsigned state);

#define SEP_CONTEXT_MODELS_MAX 64u

/* Gives CONTEXT a model to decode with and, when ENCODE is set, to encode with. It is borrowed: it
 * must live as long as the context, or until sep_context_clear_models. A model that is there already
 * is not added twice, but its ENCODE is set to the new value. SEP_ERROR_CAPACITY beyond
 * SEP_CONTEXT_MODELS_MAX models.
 *
 * sep_decode of a block whose model is not there gives SEP_ERROR_MODEL_MISSING: sep_block_inspect
 * says which hash to look for; with that model there and the error still the same, its base is
 * missing. */
enum sep_status sep_context_add_model(struct sep_context *context, const struct sep_model *model,
                                      bool encode);
void sep_context_clear_models(struct sep_context *context);

/* Instruction set used by the SEP coder of this process: "scalar" or "avx2". */
const char *sep_simd_name(void);

#ifdef __cplusplus
}
#endif

#endif
