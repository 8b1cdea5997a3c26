/* SPDX-License-Identifier: BSD-2-Clause
 *
 * transform.c - x86-64 addresses.
 *
 * A function called from many places has a different displacement at each of them and the same
 * address. Where a 32-bit displacement has a highest byte of 00 or ff, its other three bytes, taken
 * as a number modulo 2^24, get the position of the instruction's end added and are stored with the
 * highest byte first, so that the bytes that repeat come first.
 *
 * Why it is exact: whether a place is changed depends only on its opcode bytes and on the highest
 * displacement byte, which its own change leaves alone. The transform walks from the end to the
 * start and the inverse from the start to the end, so each change is undone in a block that is just
 * as it was when the change was made.
 */
#include <stdbool.h>

#include "transform.h"

#define PLACE_MAX 7u /* opcode and displacement of the longest form */

/* Length of the opcode before a displacement at BYTES; 0 when there is none. Reads PLACE_MAX bytes.
 */
static unsigned opcode_length(const uint8_t *bytes)
{
    unsigned length = 0;

    if ((bytes[0] & 0xfe) == 0xe8)
        length = 1; /* call, jmp */
    else if (bytes[0] == 0x0f && (bytes[1] & 0xf0) == 0x80)
        length = 2; /* conditional jump */
    else if ((bytes[0] & 0xf8) == 0x48 && (bytes[2] & 0xc7) == 0x05 &&
             (bytes[1] == 0x8b || bytes[1] == 0x8d || bytes[1] == 0x89 || bytes[1] == 0x3b))
        length = 3; /* mov, lea, cmp with an address relative to rip */
    if (length != 0 && bytes[length + 3] != 0 && bytes[length + 3] != 0xff)
        length = 0;
    return length;
}

static void x86_apply(uint8_t *bytes, size_t size)
{
    for (size_t i = size < PLACE_MAX ? 0 : size - PLACE_MAX + 1; i-- > 0;) {
        const unsigned length = opcode_length(bytes + i);
        uint8_t *field = bytes + i + length;
        uint32_t address;

        if (length == 0)
            continue;
        address = field[0] | (uint32_t)field[1] << 8 | (uint32_t)field[2] << 16;
        address += (uint32_t)i + length + 4;
        field[0] = (uint8_t)(address >> 16);
        field[1] = (uint8_t)(address >> 8);
        field[2] = (uint8_t)address;
    }
}

static void x86_undo(uint8_t *bytes, size_t size)
{
    for (size_t i = 0; i + PLACE_MAX <= size; i++) {
        const unsigned length = opcode_length(bytes + i);
        uint8_t *field = bytes + i + length;
        uint32_t address;

        if (length == 0)
            continue;
        address = (uint32_t)field[0] << 16 | (uint32_t)field[1] << 8 | field[2];
        address -= (uint32_t)i + length + 4;
        field[0] = (uint8_t)address;
        field[1] = (uint8_t)(address >> 8);
        field[2] = (uint8_t)(address >> 16);
    }
}

void sep_transform_apply(unsigned transform, uint8_t *bytes, size_t size)
{
    if (transform == SEP_TRANSFORM_X86)
        x86_apply(bytes, size);
}

void sep_transform_undo(unsigned transform, uint8_t *bytes, size_t size)
{
    if (transform == SEP_TRANSFORM_X86)
        x86_undo(bytes, size);
}
