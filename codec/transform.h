/* SPDX-License-Identifier: BSD-2-Clause
 *
 * transform.h - reversible transforms of a whole block, applied before modelling.
 *
 * Each is exact on any bytes: undo(apply(x)) = x, in place, in time proportional to the size.
 */
#ifndef SEP_TRANSFORM_H
#define SEP_TRANSFORM_H

#include <stddef.h>
#include <stdint.h>

/* Stored in the block header: never renumber. */
enum sep_transform {
    SEP_TRANSFORM_NONE,
    SEP_TRANSFORM_X86, /* relative addresses of x86-64 calls, jumps and data become absolute */
    SEP_TRANSFORM_COUNT
};

void sep_transform_apply(unsigned transform, uint8_t *bytes, size_t size);
void sep_transform_undo(unsigned transform, uint8_t *bytes, size_t size);

#endif
