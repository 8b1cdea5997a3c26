/* SPDX-License-Identifier: BSD-2-Clause
 *
 * range.h - 32-bit range coder with carry (Martin 1979; carry handling as in LZMA).
 *
 * A symbol owns [start, start + size) of 65536. The range is at least 2^24 before each symbol, so
 * a step of the range, range >> 16, is at least 256. The encoder ends with as few bytes as still
 * name a number inside the last range; the decoder reads zeros behind the payload.
 */
#ifndef SEP_RANGE_H
#define SEP_RANGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SEP_RANGE_BITS 16
#define SEP_RANGE_TAIL 4u /* bytes of zeros that a decoder may read behind the payload */

struct sep_range_encoder {
    uint64_t low; /* 33 bits: the top one is a carry into bytes already decided */
    uint32_t range;
    uint8_t cache;  /* last decided byte, which a carry may still raise */
    bool started;   /* the byte before the first is not written */
    size_t pending; /* bytes 0xff behind the cache */
    uint8_t *output;
    size_t written; /* counted beyond CAPACITY, stored only below it */
    size_t capacity;
};

static inline void sep_range_encode_begin(struct sep_range_encoder *c, uint8_t *output,
                                          size_t capacity)
{
    *c = (struct sep_range_encoder){.range = 0xffffffffu, .output = output, .capacity = capacity};
}

static inline void sep_range_put(struct sep_range_encoder *c, uint8_t byte)
{
    if (c->written < c->capacity)
        c->output[c->written] = byte;
    c->written++;
}

static inline void sep_range_shift(struct sep_range_encoder *c)
{
    if (c->low < 0xff000000u || c->low > 0xffffffffu) {
        const uint8_t carry = (uint8_t)(c->low >> 32);

        if (c->started)
            sep_range_put(c, (uint8_t)(c->cache + carry));
        for (; c->pending > 0; c->pending--)
            sep_range_put(c, (uint8_t)(0xff + carry));
        c->started = true;
        c->cache = (uint8_t)(c->low >> 24);
    } else {
        c->pending++;
    }
    c->low = (c->low & 0x00ffffffu) << 8;
}

static inline void sep_range_encode(struct sep_range_encoder *c, uint32_t start, uint32_t size)
{
    const uint32_t step = c->range >> SEP_RANGE_BITS;

    c->low += (uint64_t)step * start;
    c->range = step * size;
    while (c->range < 1u << 24) {
        c->range <<= 8;
        sep_range_shift(c);
    }
}

/* Returns the size of the whole output; it was cut when this is above the capacity. */
static inline size_t sep_range_encode_end(struct sep_range_encoder *c)
{
    /* The number in the range with most zeros at its end: range >= 2^24, so 24 of them exist. Three
     * bytes of zeros are not written at all, and a fourth is taken back. */
    c->low = (c->low + 0x00ffffffu) & ~(uint64_t)0x00ffffffu;
    sep_range_shift(c);
    sep_range_shift(c);
    if (c->written > 0 && c->written <= c->capacity && c->output[c->written - 1] == 0)
        c->written--;
    return c->written;
}

struct sep_range_decoder {
    uint32_t code; /* the number minus the low end of the range; below range unless corrupt */
    uint32_t range;
    const uint8_t *input;
    size_t input_size;
    size_t read; /* counted beyond input_size */
};

static inline uint8_t sep_range_get(struct sep_range_decoder *c)
{
    const uint8_t byte = c->read < c->input_size ? c->input[c->read] : 0;

    c->read++;
    return byte;
}

static inline void sep_range_decode_begin(struct sep_range_decoder *c, const uint8_t *input,
                                          size_t input_size)
{
    *c = (struct sep_range_decoder){.range = 0xffffffffu, .input = input, .input_size = input_size};
    for (unsigned k = 0; k < 4; k++)
        c->code = c->code << 8 | sep_range_get(c);
}

/* Where in [0, 65536) the number lies; more only when the payload is corrupt. */
static inline uint32_t sep_range_target(const struct sep_range_decoder *c)
{
    return c->code / (c->range >> SEP_RANGE_BITS);
}

static inline void sep_range_decode(struct sep_range_decoder *c, uint32_t start, uint32_t size)
{
    const uint32_t step = c->range >> SEP_RANGE_BITS;

    c->code -= step * start;
    c->range = step * size;
    while (c->range < 1u << 24) {
        c->range <<= 8;
        c->code = c->code << 8 | sep_range_get(c);
    }
}

/* The payload was all needed and no more than the zeros that the encoder cuts was missing. */
static inline bool sep_range_decode_fits(const struct sep_range_decoder *c)
{
    return c->read >= c->input_size && c->read - c->input_size <= SEP_RANGE_TAIL;
}

#endif
