/* SPDX-License-Identifier: BSD-2-Clause
 *
 * kind.c - groups blocks: text by which bytes it is made of, the rest by the codec's own analysis.
 *
 * Shares of bytes, measured on the training corpus: markup has an angle bracket in 12 to 40 bytes
 * and prose none in 300; source has a bracket, brace, semicolon, equals sign or underline in 9 to 20
 * bytes and prose one in 80; tables and logs are digits and separators to a fifth or more.
 */
#include "kind.h"

#include "codec/block.h"

const char *train_kind_name(enum train_kind kind)
{
    static const char *const names[TRAIN_KIND_COUNT] = {"text",   "markup",  "source", "table",
                                                        "x86-64", "records", "binary"};

    return names[kind];
}

static enum train_kind text_kind(const uint8_t *bytes, size_t size)
{
    static const char marks[] = "(){}[];=_";
    bool is_mark[256] = {false};
    size_t angles = 0, digits = 0, signs = 0, letters = 0;

    for (const char *mark = marks; *mark != '\0'; mark++)
        is_mark[(uint8_t)*mark] = true;
    for (size_t i = 0; i < size; i++) {
        const uint8_t byte = bytes[i];

        angles += byte == '<' || byte == '>';
        digits += byte >= '0' && byte <= '9';
        signs += is_mark[byte];
        letters += (byte | 32) >= 'a' && (byte | 32) <= 'z';
    }
    if (angles * 60 > size)
        return TRAIN_KIND_MARKUP;
    if (digits * 5 > size || letters * 2 < size)
        return TRAIN_KIND_TABLE;
    return signs * 30 > size ? TRAIN_KIND_SOURCE : TRAIN_KIND_TEXT;
}

enum train_kind train_kind_of(const uint8_t *bytes, size_t size)
{
    struct sep_analysis analysis;

    sep_analyse(bytes, size, &analysis);
    if (analysis.text)
        return text_kind(bytes, size);
    if (analysis.x86)
        return TRAIN_KIND_X86;
    return analysis.stride != 0 ? TRAIN_KIND_RECORDS : TRAIN_KIND_BINARY;
}

uint16_t train_stride_of(const struct train_block *block)
{
    struct sep_analysis analysis;

    if (block->kind != TRAIN_KIND_RECORDS)
        return 0;
    sep_analyse(block->bytes, block->size, &analysis);
    return analysis.stride;
}
