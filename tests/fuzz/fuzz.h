/* SPDX-License-Identifier: BSD-2-Clause
 *
 * fuzz.h - what the fuzz targets share. A target is a program with one function that takes any
 * bytes; libFuzzer drives it where clang has it (meson option fuzz), replay.c with the committed
 * inputs and mutations of them everywhere else.
 *
 * A target holds what it runs to a property, not only to not crashing: FUZZ_CHECK ends the process
 * when it does not hold, which either driver reports with the input.
 */
#ifndef TESTS_FUZZ_FUZZ_H
#define TESTS_FUZZ_FUZZ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define FUZZ_CHECK(condition) ((condition) ? (void)0 : fuzz_broken(__FILE__, __LINE__, #condition))
_Noreturn void fuzz_broken(const char *file, int line, const char *condition);

/* Takes the input apart from its start. Behind its end all numbers are 0 and all slices empty. */
struct fuzz_input {
    const uint8_t *at;
    size_t left;
};
uint8_t fuzz_u8(struct fuzz_input *input);
uint16_t fuzz_u16(struct fuzz_input *input);
uint32_t fuzz_u32(struct fuzz_input *input);
/* A fresh copy of up to SIZE bytes, of exactly *got bytes so that a sanitizer sees one too many; the
 * caller frees it. Never NULL. */
uint8_t *fuzz_take(struct fuzz_input *input, size_t size, size_t *got);
/* The same for all that is left, as text: with a NUL behind it. */
char *fuzz_text(struct fuzz_input *input);

/* A directory of this process, on a memory file system where there is one; removed at exit. */
const char *fuzz_scratch(void);

#endif
