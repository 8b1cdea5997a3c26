/* SPDX-License-Identifier: BSD-2-Clause
 *
 * samples.h - deterministic inputs for the codec tests, one for each kind of data.
 *
 * The bytes depend on the kind and on nothing else: sample k of n bytes is the start of sample k of
 * more bytes. Golden hashes rest on that.
 */
#ifndef TEST_SAMPLES_H
#define TEST_SAMPLES_H

#include <stddef.h>
#include <stdint.h>

enum sample {
    SAMPLE_ZEROS,
    SAMPLE_RANDOM,
    SAMPLE_TEXT,    /* sentences of a small vocabulary */
    SAMPLE_RECORDS, /* 24-byte records: counter, constant, noise, text field */
    SAMPLE_PCM,     /* 16-bit stereo, two slow waves and noise */
    SAMPLE_CODE,    /* x86-64 calls to few targets between other instructions */
    SAMPLE_MIXED,   /* pieces of all of these, with far repeats */
    SAMPLE_COUNT
};

extern const char *const sample_names[SAMPLE_COUNT];

/* xorshift64*: the generator of all test data. *STATE must not be 0. */
uint64_t sample_random(uint64_t *state);

void sample_fill(enum sample kind, uint8_t *bytes, size_t size);

#endif
