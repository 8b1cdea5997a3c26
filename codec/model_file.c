/* SPDX-License-Identifier: BSD-2-Clause
 *
 * model_file.c - model files: reading with every check, and writing. docs/format-model.md.
 *
 * A section is unpacked as a whole, then read through a cursor that knows its end; what it may unpack
 * to is bounded by its kind before any memory is asked for.
 */
#include <string.h>
#include <xxhash.h>
#include <zstd.h>

#include "codec.h"
#include "model_file.h"

#define MAGIC        "SEPMODEL"
#define VERSION      1u
#define HASHED_FROM  24u
#define HEADER_SIZE  112u
#define ENTRY_SIZE   24u
#define SECTIONS_MAX (SEP_MODEL_STATES_MAX + 2u)
#define ZSTD_LEVEL   19

enum section_type {
    SECTION_TEXT = 1,
    SECTION_PRIMED = 2,
    SECTION_NET = 3,
};

#define PRIMED_HEAD 24u
#define PRIMED_FIXED                                                                               \
    (PRIMED_HEAD + SEP_FINGERPRINT_BYTES + 4u * 2u * 2u * SEP_EXPERTS_MAX * SEP_CONFIDENCES +      \
     4u * 2u * SEP_WEIGHT_SETS * SEP_SET_CONTEXTS * SEP_EXPERTS_MAX + 2u * 256u * 17u * 16u +      \
     2u * 16u * (1u << SEP_BIAS2_LOG_MAX))
#define PRIMED_SLOT 22u
#define NET_FIXED                                                                                  \
    (8u + SEP_NET_FEATURES_MAX + 2u * SEP_NET_WIDTH + 4u * SEP_NET_HEADS * SEP_SYMBOLS +           \
     SEP_NET_HEADS * SEP_SYMBOLS * SEP_NET_WIDTH)
#define NET_MAX (NET_FIXED + (SEP_NET_FEATURES_MAX << SEP_NET_ROWS_LOG_MAX) * SEP_NET_WIDTH)

/* Bytes being read or written; never past END. A read past it gives zeros and sets SHORT. */
struct cursor {
    uint8_t *at, *end;
    bool short_of;
};

static uint64_t get(struct cursor *c, unsigned bytes)
{
    uint64_t value = 0;

    if ((size_t)(c->end - c->at) < bytes) {
        c->short_of = true;
        c->at = c->end;
        return 0;
    }
    for (unsigned k = 0; k < bytes; k++)
        value |= (uint64_t)c->at[k] << (8 * k);
    c->at += bytes;
    return value;
}

static void get_bytes(struct cursor *c, void *to, size_t size)
{
    if ((size_t)(c->end - c->at) < size) {
        c->short_of = true;
        c->at = c->end;
        return;
    }
    memcpy(to, c->at, size);
    c->at += size;
}

static void put(struct cursor *c, uint64_t value, unsigned bytes)
{
    for (unsigned k = 0; k < bytes; k++)
        c->at[k] = (uint8_t)(value >> (8 * k));
    c->at += bytes;
}

static void put_bytes(struct cursor *c, const void *from, size_t size)
{
    memcpy(c->at, from, size);
    c->at += size;
}

static void get_i32(struct cursor *c, int32_t *to, size_t count)
{
    for (size_t k = 0; k < count; k++)
        to[k] = (int32_t)(uint32_t)get(c, 4);
}

static void get_i16(struct cursor *c, int16_t *to, size_t count)
{
    for (size_t k = 0; k < count; k++)
        to[k] = (int16_t)(uint16_t)get(c, 2);
}

static void put_i32(struct cursor *c, const int32_t *from, size_t count)
{
    for (size_t k = 0; k < count; k++)
        put(c, (uint32_t)from[k], 4);
}

static void put_i16(struct cursor *c, const int16_t *from, size_t count)
{
    for (size_t k = 0; k < count; k++)
        put(c, (uint16_t)from[k], 2);
}

#define COUNT(array, type) (sizeof(array) / sizeof(type))

/* Slots in order, in sound states, at most SEP_WAYS of a line. */
static bool slots_are_sound(const struct sep_primed *primed)
{
    uint32_t in_line = 0;

    for (uint32_t k = 0; k < primed->slot_count; k++) {
        const struct sep_primed_slot *slot = &primed->slots[k];
        const uint32_t count = slot->state & 15;

        if (k > 0 && slot->line < slot[-1].line)
            return false;
        in_line = k > 0 && slot->line == slot[-1].line ? in_line + 1 : 1;
        if (in_line > SEP_WAYS || count == 0 || count > SEP_COUNT_LIMIT || slot->state > 0xfff)
            return false;
    }
    return true;
}

static bool ends_in_zero(const char *text, size_t size)
{
    return text[size - 1] == '\0';
}

static enum sep_status read_primed(struct cursor *c, struct sep_primed **result)
{
    const size_t size = (size_t)(c->end - c->at);
    const uint8_t profile = (uint8_t)get(c, 1), with_net = (uint8_t)get(c, 1);
    const uint16_t unused = (uint16_t)get(c, 2);
    const uint32_t slots = (uint32_t)get(c, 4);
    struct sep_primed *primed;

    if (c->short_of || profile >= SEP_PROFILE_COUNT || with_net > 1 || unused != 0 ||
        slots > SEP_PRIMED_SLOTS_MAX || size != PRIMED_FIXED + (size_t)slots * PRIMED_SLOT)
        return SEP_ERROR_MODEL;
    primed = sep_primed_new(slots);
    if (primed == NULL)
        return SEP_ERROR_MEMORY;
    *result = primed;
    primed->profile = profile;
    primed->with_net = with_net != 0;
    get_bytes(c, primed->label, sizeof primed->label);
    get_bytes(c, primed->fingerprint, sizeof primed->fingerprint);
    get_i32(c, &primed->weight[0][0][0].row, COUNT(primed->weight, int32_t));
    get_i32(c, &primed->weight_set[0][0][0][0], COUNT(primed->weight_set, int32_t));
    get_i16(c, &primed->bias1[0][0][0], COUNT(primed->bias1, int16_t));
    get_i16(c, &primed->bias2[0][0], COUNT(primed->bias2, int16_t));
    for (uint32_t k = 0; k < slots; k++)
        primed->slots[k].line = (uint16_t)get(c, 2);
    for (uint32_t k = 0; k < slots; k++)
        primed->slots[k].check = (uint16_t)get(c, 2);
    for (uint32_t k = 0; k < slots; k++)
        primed->slots[k].state = (uint16_t)get(c, 2);
    for (uint32_t k = 0; k < slots; k++)
        get_bytes(c, primed->slots[k].row, SEP_SYMBOLS);
    if (c->short_of || !ends_in_zero(primed->label, sizeof primed->label) ||
        !slots_are_sound(primed))
        return SEP_ERROR_MODEL;
    return SEP_OK;
}

static void write_primed(struct cursor *c, const struct sep_primed *primed)
{
    put(c, primed->profile, 1);
    put(c, primed->with_net, 1);
    put(c, 0, 2);
    put(c, primed->slot_count, 4);
    put_bytes(c, primed->label, sizeof primed->label);
    put_bytes(c, primed->fingerprint, sizeof primed->fingerprint);
    put_i32(c, &primed->weight[0][0][0].row, COUNT(primed->weight, int32_t));
    put_i32(c, &primed->weight_set[0][0][0][0], COUNT(primed->weight_set, int32_t));
    put_i16(c, &primed->bias1[0][0][0], COUNT(primed->bias1, int16_t));
    put_i16(c, &primed->bias2[0][0], COUNT(primed->bias2, int16_t));
    for (uint32_t k = 0; k < primed->slot_count; k++)
        put(c, primed->slots[k].line, 2);
    for (uint32_t k = 0; k < primed->slot_count; k++)
        put(c, primed->slots[k].check, 2);
    for (uint32_t k = 0; k < primed->slot_count; k++)
        put(c, primed->slots[k].state, 2);
    for (uint32_t k = 0; k < primed->slot_count; k++)
        put_bytes(c, primed->slots[k].row, SEP_SYMBOLS);
}

static enum sep_status read_net(struct cursor *c, struct sep_net **result)
{
    const size_t size = (size_t)(c->end - c->at);
    const uint8_t backbone = (uint8_t)get(c, 1), features = (uint8_t)get(c, 1);
    const uint8_t rows_log = (uint8_t)get(c, 1), width = (uint8_t)get(c, 1);
    const uint8_t cut = (uint8_t)get(c, 1), shift = (uint8_t)get(c, 1);
    const uint16_t unused = (uint16_t)get(c, 2);
    struct sep_net *net;

    if (c->short_of || backbone != SEP_NET_MLP || width != SEP_NET_WIDTH || unused != 0 ||
        features == 0 || features > SEP_NET_FEATURES_MAX || rows_log < SEP_NET_ROWS_LOG_MIN ||
        rows_log > SEP_NET_ROWS_LOG_MAX ||
        size != NET_FIXED + ((size_t)features << rows_log) * SEP_NET_WIDTH)
        return SEP_ERROR_MODEL;
    net = sep_net_new(features, rows_log);
    if (net == NULL)
        return SEP_ERROR_MEMORY;
    *result = net;
    net->cut = cut;
    net->shift = shift;
    get_bytes(c, net->patch, sizeof net->patch);
    get_i16(c, net->bias, SEP_NET_WIDTH);
    get_i32(c, &net->head_bias[0][0], SEP_NET_HEADS * SEP_SYMBOLS);
    get_bytes(c, net->head, sizeof net->head);
    get_bytes(c, net->rows, sep_net_rows_size(net));
    return !c->short_of && sep_net_prepare(net) ? SEP_OK : SEP_ERROR_MODEL;
}

static void write_net(struct cursor *c, const struct sep_net *net)
{
    put(c, net->backbone, 1);
    put(c, net->features, 1);
    put(c, net->rows_log, 1);
    put(c, SEP_NET_WIDTH, 1);
    put(c, net->cut, 1);
    put(c, net->shift, 1);
    put(c, 0, 2);
    put_bytes(c, net->patch, sizeof net->patch);
    put_i16(c, net->bias, SEP_NET_WIDTH);
    put_i32(c, &net->head_bias[0][0], SEP_NET_HEADS * SEP_SYMBOLS);
    put_bytes(c, net->head, sizeof net->head);
    put_bytes(c, net->rows, sep_net_rows_size(net));
}

static enum sep_status read_text(struct cursor *c, char **text)
{
    const size_t size = (size_t)(c->end - c->at);

    *text = sep_allocate(size + 1);
    if (*text == NULL)
        return SEP_ERROR_MEMORY;
    get_bytes(c, *text, size);
    return strlen(*text) == size ? SEP_OK : SEP_ERROR_MODEL;
}

static enum sep_status read_section(struct sep_model *model, uint32_t type, struct cursor *c)
{
    switch (type) {
    case SECTION_TEXT:
        return model->text == NULL ? read_text(c, &model->text) : SEP_ERROR_MODEL;
    case SECTION_PRIMED:
        if (model->state_count == SEP_MODEL_STATES_MAX)
            return SEP_ERROR_MODEL;
        return read_primed(c, &model->state[model->state_count++]);
    case SECTION_NET:
        return model->net == NULL ? read_net(c, &model->net) : SEP_ERROR_MODEL;
    default:
        return SEP_ERROR_MODEL;
    }
}

static size_t section_limit(uint32_t type)
{
    switch (type) {
    case SECTION_TEXT:
        return SEP_MODEL_TEXT_MAX;
    case SECTION_PRIMED:
        return PRIMED_FIXED + SEP_PRIMED_SLOTS_MAX * PRIMED_SLOT;
    case SECTION_NET:
        return NET_MAX;
    default:
        return 0;
    }
}

/* Unpacks STORED to PLAIN_SIZE bytes, which the type allows, and reads them. */
static enum sep_status unpack_section(struct sep_model *model, uint32_t type, uint8_t *stored,
                                      size_t stored_size, size_t plain_size)
{
    struct cursor c = {stored, stored + stored_size, false};
    enum sep_status status = SEP_ERROR_MODEL;
    uint8_t *plain = NULL;

    if (plain_size > section_limit(type) || stored_size > plain_size)
        return SEP_ERROR_MODEL;
    if (stored_size < plain_size) {
        plain = sep_allocate(plain_size);
        if (plain == NULL)
            return SEP_ERROR_MEMORY;
        if (ZSTD_decompress(plain, plain_size, stored, stored_size) != plain_size)
            goto out;
        c = (struct cursor){plain, plain + plain_size, false};
    }
    status = read_section(model, type, &c);
    if (status == SEP_OK && c.at != c.end)
        status = SEP_ERROR_MODEL;
out:
    sep_release(plain);
    return status;
}

/* States that need a net can have one. */
static bool is_whole(const struct sep_model *model)
{
    bool sound = model->text != NULL && (model->net != NULL || model->state_count > 0) &&
                 (model->kind == SEP_MODEL_PUBLIC || model->kind == SEP_MODEL_PRIVATE) &&
                 model->hash != 0 && ends_in_zero(model->name, sizeof model->name);

    for (uint32_t s = 0; s < model->state_count && sound; s++)
        sound = !model->state[s]->with_net || model->net != NULL || model->base != 0;
    return sound;
}

static enum sep_status read_file(struct sep_model *model, struct cursor *file, uint8_t *bytes)
{
    uint64_t unused;
    uint32_t sections;
    enum sep_status status = SEP_OK;
    struct cursor table;
    size_t offset;

    model->base = get(file, 8);
    model->kind = (uint8_t)get(file, 1);
    unused = get(file, 3);
    sections = (uint32_t)get(file, 4);
    get_bytes(file, model->name, sizeof model->name);
    for (unsigned k = 0; k < 2; k++)
        unused |= get(file, 8);
    offset = HEADER_SIZE + (size_t)sections * ENTRY_SIZE;
    if (file->short_of || unused != 0 || sections > SECTIONS_MAX || offset > model->file_size)
        return SEP_ERROR_MODEL;
    table = (struct cursor){file->at, bytes + offset, false};
    for (uint32_t k = 0; k < sections && status == SEP_OK; k++) {
        const uint32_t type = (uint32_t)get(&table, 4), zero = (uint32_t)get(&table, 4);
        const uint64_t stored = get(&table, 8), plain = get(&table, 8);

        if (zero != 0 || stored > model->file_size - offset || plain > SIZE_MAX)
            return SEP_ERROR_MODEL;
        status = unpack_section(model, type, bytes + offset, (size_t)stored, (size_t)plain);
        offset += (size_t)stored;
    }
    if (status == SEP_OK && (offset != model->file_size || !is_whole(model)))
        status = SEP_ERROR_MODEL;
    return status;
}

enum sep_status sep_model_peek(const void *bytes, size_t size, uint64_t *hash)
{
    struct cursor c = {(uint8_t *)bytes + 8, (uint8_t *)bytes + HASHED_FROM, false};

    if (bytes == NULL || hash == NULL)
        return SEP_ERROR_ARGUMENT;
    if (size < HASHED_FROM || memcmp(bytes, MAGIC, 8) != 0)
        return SEP_ERROR_MODEL;
    if (get(&c, 4) > VERSION)
        return SEP_ERROR_VERSION;
    (void)get(&c, 4);
    *hash = get(&c, 8);
    return SEP_OK;
}

enum sep_status sep_model_load(const void *bytes, size_t size, struct sep_model **model)
{
    /* Read only: the cursor's pointers are shared with the writer. */
    uint8_t *const start = (uint8_t *)bytes;
    struct cursor c;
    struct sep_model *loaded;
    uint64_t hash;
    enum sep_status status =
        model == NULL ? SEP_ERROR_ARGUMENT : sep_model_peek(bytes, size, &hash);

    if (status != SEP_OK)
        return status;
    c = (struct cursor){start + 8, start + size, false};
    if (size < HEADER_SIZE || size > SEP_MODEL_FILE_MAX || get(&c, 4) != VERSION ||
        get(&c, 4) != 0 || XXH3_64bits(start + HASHED_FROM, size - HASHED_FROM) != hash)
        return SEP_ERROR_MODEL;
    c.at = start + HASHED_FROM;
    if (get(&c, 8) != size)
        return SEP_ERROR_MODEL;
    loaded = sep_allocate(sizeof *loaded);
    if (loaded == NULL)
        return SEP_ERROR_MEMORY;
    loaded->hash = hash;
    loaded->file_size = size;
    status = read_file(loaded, &c, start);
    if (status != SEP_OK) {
        sep_model_free(loaded);
        return status;
    }
    *model = loaded;
    return SEP_OK;
}

void sep_model_free(struct sep_model *model)
{
    if (model == NULL)
        return;
    for (uint32_t s = 0; s < model->state_count; s++)
        sep_primed_free(model->state[s]);
    sep_net_free(model->net);
    sep_release(model->text);
    sep_release(model);
}

/* Appends one section, packed when that makes it smaller. */
static enum sep_status store_section(struct cursor *table, struct cursor *data, uint32_t type,
                                     const uint8_t *plain, size_t size)
{
    const size_t packed =
        ZSTD_compress(data->at, (size_t)(data->end - data->at), plain, size, ZSTD_LEVEL);
    size_t stored = size;

    if (ZSTD_isError(packed))
        return SEP_ERROR_MEMORY;
    if (packed < size)
        stored = packed;
    else
        memcpy(data->at, plain, size);
    data->at += stored;
    put(table, type, 4);
    put(table, 0, 4);
    put(table, stored, 8);
    put(table, size, 8);
    return SEP_OK;
}

static enum sep_status store_sections(const struct sep_model *model, struct cursor *table,
                                      struct cursor *data, uint8_t *scratch)
{
    const char *text = model->text != NULL ? model->text : "";
    enum sep_status status =
        store_section(table, data, SECTION_TEXT, (const uint8_t *)text, strlen(text));
    struct cursor c = {scratch, NULL, false};

    if (status == SEP_OK && model->net != NULL) {
        write_net(&c, model->net);
        status = store_section(table, data, SECTION_NET, scratch, (size_t)(c.at - scratch));
    }
    for (uint32_t s = 0; s < model->state_count && status == SEP_OK; s++) {
        c.at = scratch;
        write_primed(&c, model->state[s]);
        status = store_section(table, data, SECTION_PRIMED, scratch, (size_t)(c.at - scratch));
    }
    return status;
}

enum sep_status sep_model_store(struct sep_model *model, uint8_t **bytes, size_t *size)
{
    const uint32_t sections = 1u + (model->net != NULL ? 1u : 0u) + model->state_count;
    const size_t table_end = HEADER_SIZE + (size_t)sections * ENTRY_SIZE;
    size_t largest = PRIMED_FIXED + SEP_PRIMED_SLOTS_MAX * PRIMED_SLOT;
    size_t room = table_end + ZSTD_compressBound(SEP_MODEL_TEXT_MAX);
    enum sep_status status = SEP_ERROR_MEMORY;
    struct cursor header, table, data;
    uint8_t *scratch = NULL;

    if (model->text != NULL && strlen(model->text) > SEP_MODEL_TEXT_MAX)
        return SEP_ERROR_ARGUMENT;
    for (uint32_t s = 0; s < model->state_count; s++)
        room +=
            ZSTD_compressBound(PRIMED_FIXED + (size_t)model->state[s]->slot_count * PRIMED_SLOT);
    if (model->net != NULL) {
        room += ZSTD_compressBound(NET_FIXED + sep_net_rows_size(model->net));
        if (NET_FIXED + sep_net_rows_size(model->net) > largest)
            largest = NET_FIXED + sep_net_rows_size(model->net);
    }
    *bytes = sep_allocate(room);
    scratch = sep_allocate(largest);
    if (*bytes == NULL || scratch == NULL)
        goto out;
    table = (struct cursor){*bytes + HEADER_SIZE, *bytes + table_end, false};
    data = (struct cursor){*bytes + table_end, *bytes + room, false};
    status = store_sections(model, &table, &data, scratch);
    if (status != SEP_OK)
        goto out;
    model->file_size = (size_t)(data.at - *bytes);
    header = (struct cursor){*bytes, *bytes + HEADER_SIZE, false};
    put_bytes(&header, MAGIC, 8);
    put(&header, VERSION, 4);
    put(&header, 0, 4);
    header.at += 8;
    put(&header, model->file_size, 8);
    put(&header, model->base, 8);
    put(&header, model->kind, 1);
    put(&header, 0, 3);
    put(&header, sections, 4);
    put_bytes(&header, model->name, sizeof model->name);
    put(&header, 0, 8);
    put(&header, 0, 8);
    model->hash = XXH3_64bits(*bytes + HASHED_FROM, model->file_size - HASHED_FROM);
    header.at = *bytes + 16;
    put(&header, model->hash, 8);
    *size = model->file_size;
out:
    sep_release(scratch);
    if (status != SEP_OK) {
        sep_release(*bytes);
        *bytes = NULL;
    }
    return status;
}

uint64_t sep_model_hash(const struct sep_model *model)
{
    return model->hash;
}

void sep_model_describe(const struct sep_model *model, struct sep_model_info *info)
{
    *info = (struct sep_model_info){
        .hash = model->hash,
        .base = model->base,
        .kind = model->kind,
        .name = model->name,
        .text = model->text != NULL ? model->text : "",
        .backbone = model->net != NULL ? "mlp" : "none",
        .states = model->state_count,
        .file_size = model->file_size,
        .memory = sizeof *model,
    };
    if (model->net != NULL)
        info->memory += sizeof *model->net + sep_net_rows_size(model->net);
    for (uint32_t s = 0; s < model->state_count; s++)
        info->memory +=
            sizeof *model->state[s] + model->state[s]->slot_count * sizeof(struct sep_primed_slot);
}

const char *sep_model_state_name(const struct sep_model *model, unsigned state)
{
    return state < model->state_count ? model->state[state]->label : NULL;
}
