/* SPDX-License-Identifier: BSD-2-Clause
 *
 * samples.c - deterministic inputs, made with integers only.
 */
#include "samples.h"

#include <string.h>

const char *const sample_names[SAMPLE_COUNT] = {"zeros", "random", "text", "records",
                                                "pcm",   "code",   "mixed"};

uint64_t sample_random(uint64_t *state)
{
    *state ^= *state >> 12;
    *state ^= *state << 25;
    *state ^= *state >> 27;
    return *state * 0x2545f4914f6cdd1du;
}

static void put(uint8_t *bytes, size_t size, size_t *at, const void *piece, size_t length)
{
    const size_t room = size - *at < length ? size - *at : length;

    memcpy(bytes + *at, piece, room);
    *at += room;
}

static void fill_random(uint8_t *bytes, size_t size, uint64_t seed)
{
    for (size_t i = 0; i < size; i++)
        bytes[i] = (uint8_t)(sample_random(&seed) >> 56);
}

static void fill_text(uint8_t *bytes, size_t size, uint64_t seed)
{
    static const char *const words[] = {"the",   "block",   "of",     "a",     "store", "reads",
                                        "cold",  "data",    "and",    "bytes", "index", "writes",
                                        "every", "pattern", "record", "slow",  "map",   "Therefore",
                                        "which", "never",   "1024",   "of",    "to",    "is"};

    for (size_t at = 0; at < size;) {
        const uint64_t r = sample_random(&seed) >> 40;
        const char *word = words[(r & 1023) % (sizeof words / sizeof words[0])];

        put(bytes, size, &at, word, strlen(word));
        put(bytes, size, &at,
            (r >> 10 & 15) == 0   ? ".\n"
            : (r >> 10 & 15) == 1 ? ", "
                                  : " ",
            (r >> 10 & 15) < 2 ? 2 : 1);
    }
}

static void fill_records(uint8_t *bytes, size_t size, uint64_t seed)
{
    uint32_t counter = 1000;

    for (size_t at = 0; at < size;) {
        const uint64_t r = sample_random(&seed);
        uint8_t record[24] = {0};

        counter += (uint32_t)(r >> 62);
        for (unsigned k = 0; k < 4; k++)
            record[k] = (uint8_t)(counter >> (8 * k));
        record[6] = 0x40;
        record[8] = (uint8_t)(r >> 8);
        memcpy(record + 12, (r >> 20 & 3) == 0 ? "open    " : "closed  ", 8);
        record[20] = (uint8_t)(r >> 32 & 7);
        put(bytes, size, &at, record, sizeof record);
    }
}

static void fill_pcm(uint8_t *bytes, size_t size, uint64_t seed)
{
    int32_t position[2] = {0, 5000}, speed[2] = {300, 170};

    for (size_t at = 0; at < size;) {
        uint8_t frame[4];

        for (unsigned channel = 0; channel < 2; channel++) {
            const int32_t noise = (int32_t)(sample_random(&seed) >> 59) - 16;
            int32_t value;

            speed[channel] -= position[channel] / 256;
            position[channel] += speed[channel];
            value = position[channel] + noise;
            frame[channel * 2] = (uint8_t)value;
            frame[channel * 2 + 1] = (uint8_t)(value >> 8);
        }
        put(bytes, size, &at, frame, sizeof frame);
    }
}

static void fill_code(uint8_t *bytes, size_t size, uint64_t seed)
{
    static const uint8_t others[4][4] = {{0x48, 0x89, 0xc7, 0x90},
                                         {0x31, 0xc0, 0x85, 0xff},
                                         {0x5b, 0x5d, 0xc3, 0x55},
                                         {0x48, 0x83, 0xec, 0x18}};

    for (size_t at = 0; at < size;) {
        const uint64_t r = sample_random(&seed) >> 32;
        const uint32_t target = 0x1000 + (uint32_t)(r & 15) * 0x340 - (uint32_t)at - 5;
        const uint8_t call[5] = {0xe8, (uint8_t)target, (uint8_t)(target >> 8),
                                 (uint8_t)(target >> 16), (uint8_t)(target >> 24)};

        put(bytes, size, &at, call, sizeof call);
        for (unsigned k = 0; k < 1 + (r >> 8 & 3); k++)
            put(bytes, size, &at, others[r >> (12 + 2 * k) & 3], 4);
    }
}

static void fill_mixed(uint8_t *bytes, size_t size, uint64_t seed)
{
    uint8_t piece[700];

    for (size_t at = 0; at < size;) {
        const uint64_t r = sample_random(&seed) >> 32;
        const size_t length = 1 + (r >> 8) % sizeof piece;

        if ((r & 7) == 7 && at > length) {
            memmove(piece, bytes + at - length, length);
        } else {
            const uint64_t piece_seed = (r >> 20) % 40 + 1;

            switch (r & 7) {
            case 0:
                fill_random(piece, length, piece_seed);
                break;
            case 1:
            case 2:
                fill_records(piece, length, piece_seed);
                break;
            case 3:
                fill_code(piece, length, piece_seed);
                break;
            case 4:
                memset(piece, (int)piece_seed, length);
                break;
            default:
                fill_text(piece, length, piece_seed);
                break;
            }
        }
        put(bytes, size, &at, piece, length);
    }
}

void sample_fill(enum sample kind, uint8_t *bytes, size_t size)
{
    switch (kind) {
    case SAMPLE_RANDOM:
        fill_random(bytes, size, 11);
        break;
    case SAMPLE_TEXT:
        fill_text(bytes, size, 12);
        break;
    case SAMPLE_RECORDS:
        fill_records(bytes, size, 13);
        break;
    case SAMPLE_PCM:
        fill_pcm(bytes, size, 14);
        break;
    case SAMPLE_CODE:
        fill_code(bytes, size, 15);
        break;
    case SAMPLE_MIXED:
        fill_mixed(bytes, size, 16);
        break;
    default:
        memset(bytes, 0, size);
        break;
    }
}
