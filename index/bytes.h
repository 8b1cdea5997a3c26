/* SPDX-License-Identifier: BSD-2-Clause
 *
 * bytes.h - puts numbers into bytes and reads them back: little-endian integers and base-128
 * varints (seven bits a byte, lowest first, the top bit set on all but the last byte).
 *
 * A reader never moves past its end. Reading too much, or a varint that does not fit, sets `bad`
 * and yields zeros, so a caller checks once at the end. A writer's caller provides the room.
 */
#ifndef INDEX_BYTES_H
#define INDEX_BYTES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

static inline uint16_t index_load_u16(const uint8_t *bytes)
{
    return (uint16_t)(bytes[0] | bytes[1] << 8);
}

static inline uint32_t index_load_u32(const uint8_t *bytes)
{
    return (uint32_t)index_load_u16(bytes) | (uint32_t)index_load_u16(bytes + 2) << 16;
}

static inline uint64_t index_load_u64(const uint8_t *bytes)
{
    return (uint64_t)index_load_u32(bytes) | (uint64_t)index_load_u32(bytes + 4) << 32;
}

struct index_writer {
    uint8_t *at;
};

static inline void index_write_u8(struct index_writer *w, uint8_t value)
{
    *w->at++ = value;
}

static inline void index_write_u16(struct index_writer *w, uint16_t value)
{
    index_write_u8(w, (uint8_t)value);
    index_write_u8(w, (uint8_t)(value >> 8));
}

static inline void index_write_u32(struct index_writer *w, uint32_t value)
{
    index_write_u16(w, (uint16_t)value);
    index_write_u16(w, (uint16_t)(value >> 16));
}

static inline void index_write_u64(struct index_writer *w, uint64_t value)
{
    index_write_u32(w, (uint32_t)value);
    index_write_u32(w, (uint32_t)(value >> 32));
}

static inline void index_write_bytes(struct index_writer *w, const void *data, size_t size)
{
    if (size > 0)
        memcpy(w->at, data, size);
    w->at += size;
}

static inline void index_write_varint(struct index_writer *w, uint64_t value)
{
    while (value >= 128) {
        index_write_u8(w, (uint8_t)(value | 128));
        value >>= 7;
    }
    index_write_u8(w, (uint8_t)value);
}

/* A signed number in two's complement: small magnitudes of either sign take few bytes. */
static inline void index_write_signed(struct index_writer *w, uint64_t value)
{
    index_write_varint(w, value << 1 ^ (0 - (value >> 63)));
}

struct index_reader {
    const uint8_t *at, *end;
    bool bad;
};

static inline struct index_reader index_reader(const void *data, size_t size)
{
    const uint8_t *const bytes = data;
    return (struct index_reader){.at = bytes, .end = bytes + size};
}

static inline size_t index_reader_left(const struct index_reader *r)
{
    return (size_t)(r->end - r->at);
}

/* Everything was there, and nothing is left over. */
static inline bool index_reader_done(const struct index_reader *r)
{
    return !r->bad && r->at == r->end;
}

static inline void index_read_bytes(struct index_reader *r, void *data, size_t size)
{
    if (index_reader_left(r) < size) {
        r->bad = true;
        r->at = r->end;
        memset(data, 0, size);
        return;
    }
    memcpy(data, r->at, size);
    r->at += size;
}

static inline uint8_t index_read_u8(struct index_reader *r)
{
    uint8_t byte;
    index_read_bytes(r, &byte, 1);
    return byte;
}

static inline uint16_t index_read_u16(struct index_reader *r)
{
    uint8_t bytes[2];
    index_read_bytes(r, bytes, sizeof bytes);
    return index_load_u16(bytes);
}

static inline uint32_t index_read_u32(struct index_reader *r)
{
    uint8_t bytes[4];
    index_read_bytes(r, bytes, sizeof bytes);
    return index_load_u32(bytes);
}

static inline uint64_t index_read_u64(struct index_reader *r)
{
    uint8_t bytes[8];
    index_read_bytes(r, bytes, sizeof bytes);
    return index_load_u64(bytes);
}

static inline uint64_t index_read_varint(struct index_reader *r)
{
    uint64_t value = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
        const uint8_t byte = index_read_u8(r);
        if (shift == 63 && byte > 1)
            break;
        value |= (uint64_t)(byte & 127u) << shift;
        if (byte < 128)
            return r->bad ? 0 : value;
    }
    r->bad = true;
    return 0;
}

static inline uint32_t index_read_varint32(struct index_reader *r)
{
    const uint64_t value = index_read_varint(r);
    if (value > UINT32_MAX) {
        r->bad = true;
        return 0;
    }
    return (uint32_t)value;
}

static inline uint64_t index_read_signed(struct index_reader *r)
{
    const uint64_t value = index_read_varint(r);
    return value >> 1 ^ (0 - (value & 1));
}

#endif
