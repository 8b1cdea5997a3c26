/* SPDX-License-Identifier: BSD-2-Clause
 *
 * model_file.h - a model: what a .sepm file holds, in memory. docs/format-model.md has the bytes.
 *
 * Immutable once loaded, so that any number of threads may use one. Loading trusts nothing: the hash
 * is checked first, then every count, offset and number that arithmetic or a table rests on.
 */
#ifndef SEP_MODEL_FILE_H
#define SEP_MODEL_FILE_H

#include "codec/sep.h"
#include "net.h"
#include "primed.h"

#define SEP_MODEL_STATES_MAX 32u
#define SEP_MODEL_NAME_SIZE  48u
#define SEP_MODEL_TEXT_MAX   65535u

struct sep_model {
    uint64_t hash; /* XXH3-64 of the file behind its hash field; set by load and store */
    uint64_t base; /* hash of the model whose net this one builds on, or 0 */
    uint8_t kind;  /* enum sep_model_kind */
    char name[SEP_MODEL_NAME_SIZE]; /* zero-padded, ends in 0 */
    char *text;           /* what it was trained on and how; owned, never NULL once loaded */
    struct sep_net *net;  /* owned, or NULL */
    uint32_t state_count; /* 0 .. SEP_MODEL_STATES_MAX */
    struct sep_primed *state[SEP_MODEL_STATES_MAX]; /* owned */
    size_t file_size;
};

/* Writes MODEL as a file and sets its hash and file_size. *bytes is from sep_allocate and belongs to
 * the caller (sep_release). */
enum sep_status sep_model_store(struct sep_model *model, uint8_t **bytes, size_t *size);

#endif
