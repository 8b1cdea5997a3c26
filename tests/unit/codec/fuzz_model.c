/* SPDX-License-Identifier: BSD-2-Clause
 *
 * fuzz_model.c - fuzz target for model files, for libFuzzer or AFL++ (clang -fsanitize=fuzzer).
 *
 * Input: a model file, whose hash is made to fit before it is loaded. What loads is used: for a block
 * of each of its states, and to encode with. Compiled with FUZZ_REPLAY it gets a main that replays
 * the files named as arguments, or, without arguments, a fixed number of mutations of a good file.
 */
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "codec/block.h"
#include "codec/codec.h"
#include "codec/knowledge.h"
#include "codec/sep.h"
#include "models.h"

#define HASH_AT     16u
#define HASHED_FROM 24u

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void use(struct sep_context *context, const struct sep_model *model)
{
    uint8_t payload[300], plain[200];
    struct sep_method used;
    size_t size;

    for (unsigned s = 0; s < model->state_count; s++) {
        const struct sep_block_info info = {
            .profile = model->state[s]->profile,
            .knowledge =
                (uint8_t)(SEP_KNOWS_PRIMED | (model->state[s]->with_net ? model->kind : 0)),
            .state = (uint8_t)s,
            .model_hash = model->hash,
        };

        memset(payload, 0x5a + (int)s, sizeof payload);
        sep_block_write(payload, &info);
        (void)sep_decode(context, SEP_CODEC_SEP, payload, sizeof payload, plain, sizeof plain);
    }
    sample_fill(SAMPLE_TEXT, plain, sizeof plain);
    (void)sep_encode(context, (struct sep_method){SEP_CODEC_SEP, 0}, plain, sizeof plain, payload,
                     sizeof payload, &size, &used);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint8_t *file = malloc(size > 0 ? size : 1);
    struct sep_context *context = sep_context_new();
    struct sep_model *model = NULL;

    if (file != NULL && context != NULL) {
        memcpy(file, data, size);
        if (size > HASHED_FROM) {
            const uint64_t hash = XXH3_64bits(file + HASHED_FROM, size - HASHED_FROM);

            for (unsigned k = 0; k < 8; k++)
                file[HASH_AT + k] = (uint8_t)(hash >> (8 * k));
        }
        if (sep_model_load(file, size, &model) == SEP_OK &&
            sep_context_add_model(context, model, true) == SEP_OK)
            use(context, model);
    }
    sep_context_free(context);
    sep_model_free(model);
    free(file);
    return 0;
}

#ifdef FUZZ_REPLAY
static int replay_file(const char *path)
{
    FILE *stream = fopen(path, "rb");
    uint8_t *data = malloc(SEP_MODEL_FILE_MAX);
    size_t size = 0;

    if (stream != NULL && data != NULL)
        size = fread(data, 1, SEP_MODEL_FILE_MAX, stream);
    else
        perror(path);
    if (size > 0)
        LLVMFuzzerTestOneInput(data, size);
    if (stream != NULL)
        fclose(stream);
    free(data);
    return size > 0 ? 0 : 1;
}

/* Bytes changed anywhere, most of them where the lengths are. */
static int replay_mutations(unsigned rounds)
{
    size_t size = 0;
    uint8_t *file = model_make(SEP_MODEL_PRIVATE, 5, &size);
    uint8_t *mutant = file != NULL ? malloc(size) : NULL;
    uint64_t seed = 17;

    for (unsigned round = 0; round < rounds && mutant != NULL; round++) {
        memcpy(mutant, file, size);
        for (unsigned k = 0; k <= round % 4; k++) {
            const uint64_t r = sample_random(&seed);

            mutant[(r >> 16) % ((r & 1) != 0 ? 280 : size)] = (uint8_t)(r >> 8);
        }
        LLVMFuzzerTestOneInput(mutant, round % 8 == 7 ? size / 2 : size);
    }
    free(file);
    free(mutant);
    return mutant == NULL;
}

int main(int argc, char **argv)
{
    int failed = 0;

    for (int k = 1; k < argc; k++)
        failed |= replay_file(argv[k]);
    return argc > 1 ? failed : replay_mutations(120);
}
#endif
