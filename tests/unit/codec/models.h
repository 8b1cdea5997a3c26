/* SPDX-License-Identifier: BSD-2-Clause
 *
 * models.h - small models for the codec tests, the same on every machine: a net of random numbers and
 * primed states made from sample data.
 */
#ifndef TEST_MODELS_H
#define TEST_MODELS_H

#include <stdint.h>

#include "codec/model_file.h"
#include "samples.h"

/* A net with features of every kind of patch. */
struct sep_net *model_net(unsigned features, unsigned rows_log, uint64_t seed);

/* What a profile learns from four blocks of a sample kind; NET may be NULL. */
struct sep_primed *model_primed(enum sample kind, unsigned profile, const struct sep_net *net,
                                uint32_t slots_max);

/* Net and states for text (with and without the net, a fast one), records and code; as a file, from
 * malloc. */
uint8_t *model_make(enum sep_model_kind kind, uint64_t seed, size_t *size);

#endif
