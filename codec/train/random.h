/* SPDX-License-Identifier: BSD-2-Clause
 *
 * random.h - numbers that follow from a seed alone: splitmix64 (Steele, Lea, Flood 2014) as a
 * generator and as a hash.
 */
#ifndef TRAIN_RANDOM_H
#define TRAIN_RANDOM_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

static inline uint64_t train_mix(uint64_t x)
{
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

static inline uint64_t train_random(uint64_t *state)
{
    return train_mix(*state += 0x9e3779b97f4a7c15u);
}

/* Below LIMIT, which is not 0. Uneven by at most LIMIT / 2^64. */
static inline uint64_t train_random_below(uint64_t *state, uint64_t limit)
{
    return (uint64_t)((unsigned __int128)train_random(state) * limit >> 64);
}

/* In [-1, 1), 24 bits. */
static inline float train_random_float(uint64_t *state)
{
    return (float)(train_random(state) >> 40) / 8388608.0F - 1.0F;
}

/* Of SIZE bytes; SEED and the bytes give the same value on every machine. */
static inline uint64_t train_hash(uint64_t seed, const void *bytes, size_t size)
{
    const uint8_t *at = bytes;
    uint64_t hash = train_mix(seed + 0x9e3779b97f4a7c15u * (size + 1));

    for (; size >= 8; at += 8, size -= 8) {
        uint64_t word = 0;

        for (unsigned k = 0; k < 8; k++)
            word |= (uint64_t)at[k] << 8 * k;
        hash = train_mix((hash ^ word) + 0x9e3779b97f4a7c15u);
    }
    for (; size > 0; at++, size--)
        hash = train_mix((hash ^ *at) + 0x9e3779b97f4a7c15u);
    return hash;
}

#endif
