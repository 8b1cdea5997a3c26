/* SPDX-License-Identifier: BSD-2-Clause
 *
 * fuzz_model.c - model files (codec/model_file.c), and blocks coded with what a file may say.
 *
 * Input: byte 0 the mode. In one mode the rest is a file, with its hash and size made right if byte 0
 * says so; in the other it says which numbers of a zeroed model to set, and the model is written to a
 * file first. Properties: a file that is accepted is written again as a file that is accepted and
 * says the same; whatever numbers an accepted model holds, a block coded with it decodes to itself,
 * and without it to nothing.
 */
#include <stdlib.h>
#include <string.h>

#include <xxhash.h>

#include "codec/codec.h"
#include "codec/model_file.h"
#include "fuzz.h"

enum { PLAIN_MAX = 256, HASH_AT = 16, HASHED_FROM = 24 };

static void put_number(uint8_t *at, uint64_t number)
{
    for (unsigned i = 0; i < 8; i++)
        at[i] = (uint8_t)(number >> (8 * i));
}

static void mend(uint8_t *file, size_t size)
{
    if (size < HASHED_FROM + 8)
        return;
    put_number(file + HASHED_FROM, size);
    put_number(file + HASH_AT, XXH3_64bits(file + HASHED_FROM, size - HASHED_FROM));
}

/* Codes PLAIN with MODEL and without. */
static void use(const struct sep_model *model, const uint8_t *plain, size_t plain_size)
{
    struct sep_context *const context = sep_context_new();
    uint8_t payload[PLAIN_MAX + SEP_EXPANSION_MAX], again[PLAIN_MAX];
    struct sep_method used;
    size_t size;

    FUZZ_CHECK(context != NULL);
    FUZZ_CHECK(sep_context_add_model(context, model, true) == SEP_OK);
    FUZZ_CHECK(sep_encode(context, (struct sep_method){SEP_CODEC_SEP, 9}, plain, plain_size,
                          payload, sizeof payload, &size, &used) == SEP_OK);
    FUZZ_CHECK(sep_decode(context, used.codec, payload, size, again, plain_size) == SEP_OK);
    FUZZ_CHECK(memcmp(plain, again, plain_size) == 0);
    sep_context_clear_models(context);
    if (used.codec == SEP_CODEC_SEP) {
        struct sep_block_info info;

        FUZZ_CHECK(sep_block_inspect(payload, size, &info) == SEP_OK);
        if (info.knowledge != 0)
            FUZZ_CHECK(sep_decode(context, used.codec, payload, size, again, plain_size) ==
                       SEP_ERROR_MODEL_MISSING);
    }
    sep_context_free(context);
}

static void load(const uint8_t *file, size_t size, const uint8_t *plain, size_t plain_size)
{
    struct sep_model *model = NULL, *second = NULL;
    struct sep_model_info info;
    uint8_t *written = NULL;
    size_t written_size = 0;
    uint64_t hash = 0;
    const enum sep_status status = sep_model_load(file, size, &model);

    FUZZ_CHECK((status == SEP_OK) == (model != NULL));
    if (model == NULL)
        return;
    sep_model_describe(model, &info);
    FUZZ_CHECK(info.hash != 0 && strlen(info.name) < SEP_MODEL_NAME_SIZE);
    FUZZ_CHECK(sep_model_peek(file, size, &hash) == SEP_OK && hash == info.hash);
    FUZZ_CHECK(info.states == 0 || sep_model_state_name(model, info.states - 1) != NULL);
    FUZZ_CHECK(sep_model_state_name(model, info.states) == NULL);
    if (plain_size > 0)
        use(model, plain, plain_size);
    FUZZ_CHECK(sep_model_store(model, &written, &written_size) == SEP_OK);
    FUZZ_CHECK(sep_model_load(written, written_size, &second) == SEP_OK);
    FUZZ_CHECK(second->base == model->base && second->kind == model->kind &&
               second->state_count == model->state_count &&
               (second->net == NULL) == (model->net == NULL) &&
               strcmp(second->text, model->text) == 0);
    for (uint32_t s = 0; s < model->state_count; s++) {
        const struct sep_primed *const a = model->state[s], *const b = second->state[s];

        FUZZ_CHECK(a->slot_count == b->slot_count && a->profile == b->profile);
        FUZZ_CHECK(memcmp(a->weight_set, b->weight_set, sizeof a->weight_set) == 0);
        FUZZ_CHECK(memcmp(a->bias2, b->bias2, sizeof a->bias2) == 0);
    }
    sep_model_free(second);
    sep_model_free(model);
    sep_release(written);
}

/* Sets one number of ARRAY, SIZE bytes of elements of WIDTH bytes, to a small or extreme value. */
static void set(struct fuzz_input *input, void *array, size_t size, size_t width)
{
    static const uint64_t extremes[] = {0x7fffffff, 0x80000000, 0x7fff, 0x8000, 0xffffffff, 0x7f};
    const size_t at = fuzz_u16(input) % (size / width);
    const uint8_t choice = fuzz_u8(input);
    uint8_t bytes[8];

    put_number(bytes, choice < 0x80 ? choice : extremes[choice % 6]);
    memcpy((uint8_t *)array + at * width, bytes, width);
}

static void set_state(struct fuzz_input *input, struct sep_primed *state, unsigned which)
{
    switch (which % 6) {
    case 0:
        set(input, state->weight, sizeof state->weight, 4);
        break;
    case 1:
        set(input, state->weight_set, sizeof state->weight_set, 4);
        break;
    case 2:
        set(input, state->bias1, sizeof state->bias1, 2);
        break;
    case 3:
        set(input, state->bias2, sizeof state->bias2, 2);
        break;
    case 4:
        set(input, state->fingerprint, sizeof state->fingerprint, 1);
        break;
    default:
        if (state->slot_count > 0) {
            struct sep_primed_slot *const slot = &state->slots[fuzz_u8(input) % state->slot_count];

            slot->line = fuzz_u16(input);
            slot->check = fuzz_u16(input);
            slot->state = fuzz_u16(input);
            set(input, slot->row, sizeof slot->row, 1);
        }
    }
}

static void set_net(struct fuzz_input *input, struct sep_net *net, unsigned which)
{
    switch (which % 6) {
    case 0:
        net->cut = fuzz_u8(input);
        net->shift = fuzz_u8(input);
        break;
    case 1:
        set(input, net->patch, sizeof net->patch, 1);
        break;
    case 2:
        set(input, net->bias, sizeof net->bias, 2);
        break;
    case 3:
        set(input, net->head_bias, sizeof net->head_bias, 4);
        break;
    case 4:
        set(input, net->head, sizeof net->head, 1);
        break;
    default:
        set(input, net->rows, sep_net_rows_size(net), 1);
    }
}

static void made(struct fuzz_input *input)
{
    struct sep_model *const model = sep_allocate(sizeof *model);
    const uint8_t parts = fuzz_u8(input);
    uint8_t *file = NULL;
    size_t size = 0, plain_size;

    FUZZ_CHECK(model != NULL);
    memset(model, 0, sizeof *model);
    model->kind = 1 + (parts & 1);
    model->text = sep_allocate(2);
    FUZZ_CHECK(model->text != NULL);
    memcpy(model->text, "t", 2);
    if (parts & 2) {
        model->net = sep_net_new(1 + parts % 3, SEP_NET_ROWS_LOG_MIN);
        FUZZ_CHECK(model->net != NULL);
        model->net->shift = 1;
    }
    if ((parts & 4) != 0 || model->net == NULL) {
        model->state[0] = sep_primed_new(parts % 5);
        FUZZ_CHECK(model->state[0] != NULL);
        model->state[0]->profile = fuzz_u8(input) % SEP_PROFILE_COUNT;
        model->state[0]->with_net = (parts & 8) != 0;
        /* all common: the encoder tries the state */
        memset(model->state[0]->fingerprint, 0xff, sizeof model->state[0]->fingerprint);
        model->state_count = 1;
    }
    for (unsigned steps = fuzz_u8(input) % 64; steps > 0; steps--) {
        const uint8_t which = fuzz_u8(input);

        if (model->net != NULL && (which & 0x80) != 0)
            set_net(input, model->net, which & 0x7f);
        else if (model->state_count > 0)
            set_state(input, model->state[0], which & 0x7f);
    }
    uint8_t *const plain = fuzz_take(input, PLAIN_MAX, &plain_size);
    if (sep_model_store(model, &file, &size) == SEP_OK)
        load(file, size, plain, plain_size);
    sep_release(file);
    sep_model_free(model);
    free(plain);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_input input = {data, size};
    const uint8_t mode = fuzz_u8(&input);
    size_t length;

    if (mode & 1) {
        made(&input);
    } else {
        uint8_t *const file = fuzz_take(&input, 1 << 20, &length);

        if (mode & 2)
            mend(file, length);
        load(file, length, (const uint8_t *)"a text, a text", 14);
        free(file);
    }
    return 0;
}
