/* SPDX-License-Identifier: BSD-2-Clause
 *
 * fuzz.c - see fuzz.h.
 */
#include "fuzz.h"

#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void fuzz_broken(const char *file, int line, const char *condition)
{
    fprintf(stderr, "%s:%d: this does not hold: %s\n", file, line, condition);
    abort();
}

uint8_t fuzz_u8(struct fuzz_input *input)
{
    if (input->left == 0)
        return 0;
    input->left--;
    return *input->at++;
}

uint16_t fuzz_u16(struct fuzz_input *input)
{
    const unsigned low = fuzz_u8(input);

    return (uint16_t)(low | (unsigned)fuzz_u8(input) << 8);
}

uint32_t fuzz_u32(struct fuzz_input *input)
{
    const uint32_t low = fuzz_u16(input);

    return low | (uint32_t)fuzz_u16(input) << 16;
}

static void *room(size_t size)
{
    void *const memory = malloc(size);

    if (memory == NULL && size > 0)
        abort();
    return memory != NULL ? memory : room(1);
}

uint8_t *fuzz_take(struct fuzz_input *input, size_t size, size_t *got)
{
    uint8_t *copy;

    *got = size < input->left ? size : input->left;
    copy = room(*got);
    if (*got > 0)
        memcpy(copy, input->at, *got);
    input->at += *got;
    input->left -= *got;
    return copy;
}

char *fuzz_text(struct fuzz_input *input)
{
    char *text = room(input->left + 1);

    if (input->left > 0)
        memcpy(text, input->at, input->left);
    text[input->left] = '\0';
    input->at += input->left;
    input->left = 0;
    return text;
}

static char scratch[64];

static int remove_entry(const char *path, const struct stat *status, int type, struct FTW *ftw)
{
    (void)status;
    (void)type;
    (void)ftw;
    return remove(path);
}

static void remove_scratch(void)
{
    nftw(scratch, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
}

const char *fuzz_scratch(void)
{
    if (scratch[0] == '\0') {
        snprintf(scratch, sizeof scratch, "%s/sepfs-fuzz-XXXXXX",
                 access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
        if (mkdtemp(scratch) == NULL)
            abort();
        atexit(remove_scratch);
    }
    return scratch;
}
