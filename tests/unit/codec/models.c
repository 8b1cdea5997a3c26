/* SPDX-License-Identifier: BSD-2-Clause
 *
 * models.c - see models.h.
 */
#include <stdlib.h>
#include <string.h>

#include "codec/codec.h"
#include "codec/transform.h"
#include "models.h"

struct sep_net *model_net(unsigned features, unsigned rows_log, uint64_t seed)
{
    static const uint8_t patches[SEP_NET_FEATURES_MAX] = {
        SEP_PATCH_ORDER1,     SEP_PATCH_ORDER2,       SEP_PATCH_ORDER3,    SEP_PATCH_ORDER4,
        SEP_PATCH_SPARSE2,    SEP_PATCH_SPARSE3,      SEP_PATCH_SPARSE4,   SEP_PATCH_WORD,
        SEP_PATCH_WORD2,      SEP_PATCH_ABOVE_COLUMN, SEP_PATCH_INDIRECT1, SEP_PATCH_ORDER6,
        SEP_PATCH_LINE_START, SEP_PATCH_GRADIENT,     SEP_PATCH_SPARSE23,  SEP_PATCH_FORMAT,
    };
    struct sep_net *net = sep_net_new(features, rows_log);
    int8_t *head = &net->head[0][0][0];

    memcpy(net->patch, patches, features);
    net->cut = (uint8_t)(seed % 3);
    net->shift = (uint8_t)(5 + seed % 4);
    for (size_t k = 0; k < sep_net_rows_size(net); k++)
        net->rows[k] = (int8_t)(sample_random(&seed) >> 56);
    for (unsigned k = 0; k < SEP_NET_WIDTH; k++)
        net->bias[k] = (int16_t)((int)(sample_random(&seed) >> 32) % 300);
    for (unsigned k = 0; k < sizeof net->head; k++) {
        const int value = (int)(sample_random(&seed) >> 56);

        head[k] = (int8_t)(value == 128 ? 0 : value - 256 * (value > 127));
    }
    for (unsigned k = 0; k < SEP_NET_HEADS * SEP_SYMBOLS; k++)
        (&net->head_bias[0][0])[k] = (int32_t)(sample_random(&seed) >> 40) % 5000 - 2500;
    return sep_net_prepare(net) ? net : NULL;
}

struct sep_primed *model_primed(enum sample kind, unsigned profile, const struct sep_net *net,
                                uint32_t slots_max)
{
    struct sep_primer *primer = sep_primer_new(profile, net);
    struct sep_primed *primed = NULL;
    uint8_t bytes[24000];
    bool sound = primer != NULL;

    sample_fill(kind, bytes, sizeof bytes);
    for (unsigned k = 0; k < 4 && sound; k++)
        sound = sep_primer_block(primer, bytes + k * 6000, 6000, kind == SAMPLE_RECORDS ? 24 : 0,
                                 kind == SAMPLE_CODE ? SEP_TRANSFORM_X86 : SEP_TRANSFORM_NONE) ==
                SEP_OK;
    if (sound)
        primed = sep_primer_finish(primer, sample_names[kind], slots_max, 2, 4);
    sep_primer_free(primer);
    return primed;
}

uint8_t *model_make(enum sep_model_kind kind, uint64_t seed, size_t *size)
{
    struct sep_model *model = sep_allocate(sizeof *model);
    uint8_t *bytes = NULL, *result = NULL;
    const char *text = "test data";

    model->kind = (uint8_t)kind;
    strcpy(model->name, "test");
    model->text = sep_allocate(strlen(text) + 1);
    memcpy(model->text, text, strlen(text));
    model->net = model_net(14, 6, seed);
    model->state[0] = model_primed(SAMPLE_TEXT, SEP_PROFILE_GENERIC, model->net, 5000);
    model->state[1] = model_primed(SAMPLE_TEXT, SEP_PROFILE_GENERIC_FAST, NULL, 5000);
    model->state[2] = model_primed(SAMPLE_RECORDS, SEP_PROFILE_RECORDS, NULL, 5000);
    model->state[3] = model_primed(SAMPLE_CODE, SEP_PROFILE_BINARY, NULL, 5000);
    model->state[4] = model_primed(SAMPLE_TEXT, SEP_PROFILE_GENERIC, NULL, 5000);
    model->state_count = 5;
    if (sep_model_store(model, &bytes, size) == SEP_OK)
        result = malloc(*size);
    if (result != NULL)
        memcpy(result, bytes, *size);
    sep_release(bytes);
    sep_model_free(model);
    return result;
}
