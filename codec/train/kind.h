/* SPDX-License-Identifier: BSD-2-Clause
 *
 * kind.h - what kind of data a block is, from its bytes.
 */
#ifndef TRAIN_KIND_H
#define TRAIN_KIND_H

#include <stddef.h>
#include <stdint.h>

#include "sample.h"

/* The stride that the encoder would find; 0 but for records. */
uint16_t train_stride_of(const struct train_block *block);

enum train_kind train_kind_of(const uint8_t *bytes, size_t size);

#endif
