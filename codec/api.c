/* SPDX-License-Identifier: BSD-2-Clause
 *
 * api.c - the public calls: argument checks, the codec table, the fall-back to raw.
 */
#include <stdio.h>
#include <string.h>

#include "codec.h"

static const struct sep_codec_ops *const codecs[SEP_CODEC_COUNT] = {
    [SEP_CODEC_RAW] = &sep_raw_ops,
    [SEP_CODEC_LZ4] = &sep_lz4_ops,
    [SEP_CODEC_ZSTD] = &sep_zstd_ops,
    [SEP_CODEC_SEP] = &sep_sep_ops,
};

const char *sep_status_text(enum sep_status status)
{
    static const char *const texts[SEP_STATUS_COUNT] = {
        [SEP_OK] = "success",
        [SEP_ERROR_ARGUMENT] = "size, level or pointer out of range",
        [SEP_ERROR_MEMORY] = "out of memory",
        [SEP_ERROR_CAPACITY] = "output buffer too small",
        [SEP_ERROR_CODEC] = "codec unknown to this build",
        [SEP_ERROR_VERSION] = "block written by a newer codec version",
        [SEP_ERROR_HEADER] = "block header contradicts itself",
        [SEP_ERROR_CORRUPT] = "payload does not decode to the recorded size",
        [SEP_ERROR_MODEL_MISSING] = "block needs a model that is not loaded",
        [SEP_ERROR_MODEL] = "not a sound model file",
    };

    return (unsigned)status < SEP_STATUS_COUNT ? texts[status] : "unknown status";
}

const char *sep_codec_name(unsigned codec)
{
    return codec < SEP_CODEC_COUNT ? codecs[codec]->name : "unknown";
}

enum sep_status sep_method_parse(const char *text, struct sep_method *method)
{
    const char *colon;
    size_t name_length;
    unsigned level = 0;

    if (text == NULL || method == NULL)
        return SEP_ERROR_ARGUMENT;
    colon = strchr(text, ':');
    name_length = colon != NULL ? (size_t)(colon - text) : strlen(text);
    for (unsigned codec = 0; codec < SEP_CODEC_COUNT; codec++) {
        const struct sep_codec_ops *ops = codecs[codec];

        if (strlen(ops->name) != name_length || memcmp(text, ops->name, name_length) != 0)
            continue;
        if (colon == NULL) {
            level = ops->level_default;
        } else {
            /* One or two digits, no sign, no leading zero. */
            if (colon[1] < '1' || colon[1] > '9')
                return SEP_ERROR_ARGUMENT;
            for (const char *digit = colon + 1; *digit != '\0'; digit++) {
                if (*digit < '0' || *digit > '9' || level > 9)
                    return SEP_ERROR_ARGUMENT;
                level = level * 10 + (unsigned)(*digit - '0');
            }
            if (level > ops->level_max)
                return SEP_ERROR_ARGUMENT;
        }
        method->codec = (uint8_t)codec;
        method->level = (uint8_t)level;
        return SEP_OK;
    }
    return SEP_ERROR_CODEC;
}

int sep_method_format(struct sep_method method, char *text, size_t size)
{
    unsigned level = method.level;

    if (level == 0 && method.codec < SEP_CODEC_COUNT)
        level = codecs[method.codec]->level_default;
    if (level == 0)
        return snprintf(text, size, "%s", sep_codec_name(method.codec));
    return snprintf(text, size, "%s:%u", sep_codec_name(method.codec), level);
}

size_t sep_bound(size_t plain_size)
{
    return plain_size + SEP_EXPANSION_MAX;
}

enum sep_status sep_encode(struct sep_context *context, struct sep_method method, const void *plain,
                           size_t plain_size, void *payload, size_t capacity, size_t *payload_size,
                           struct sep_method *used)
{
    const struct sep_codec_ops *ops;
    enum sep_status status;
    /* A payload as large as the block is worth nothing: raw would do. */
    const size_t room = capacity < plain_size ? capacity : plain_size - 1;

    if (context == NULL || plain == NULL || payload == NULL || payload_size == NULL ||
        used == NULL || plain_size == 0 || plain_size > SEP_BLOCK_SIZE_MAX)
        return SEP_ERROR_ARGUMENT;
    if (method.codec >= SEP_CODEC_COUNT)
        return SEP_ERROR_CODEC;
    ops = codecs[method.codec];
    if (method.level > ops->level_max)
        return SEP_ERROR_ARGUMENT;
    if (method.level == 0)
        method.level = ops->level_default;
    if (method.codec != SEP_CODEC_RAW) {
        status = room == 0 ? SEP_ERROR_CAPACITY
                           : ops->encode(context, method.level, plain, plain_size, payload, room,
                                         payload_size);
        if (status != SEP_ERROR_CAPACITY) {
            *used = method;
            return status;
        }
    }
    status = sep_raw_ops.encode(context, 0, plain, plain_size, payload, capacity, payload_size);
    *used = (struct sep_method){.codec = SEP_CODEC_RAW};
    return status;
}

enum sep_status sep_decode(struct sep_context *context, unsigned codec, const void *payload,
                           size_t payload_size, void *plain, size_t plain_size)
{
    if (context == NULL || payload == NULL || plain == NULL || plain_size == 0 ||
        plain_size > SEP_BLOCK_SIZE_MAX)
        return SEP_ERROR_ARGUMENT;
    if (codec >= SEP_CODEC_COUNT)
        return SEP_ERROR_CODEC;
    return codecs[codec]->decode(context, payload, payload_size, plain, plain_size);
}
