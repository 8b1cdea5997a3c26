/* SPDX-License-Identifier: BSD-2-Clause
 *
 * fsx_report.c - the history of operations, comparison with the model, and what is printed when they
 * differ. A report is one write to stdout, so that reports of several processes do not mix.
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fsx.h"

uint64_t fsx_random(struct fsx_worker *worker) /* splitmix64 */
{
    uint64_t x = worker->random += UINT64_C(0x9e3779b97f4a7c15);
    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    return x ^ (x >> 31);
}

size_t fsx_below(struct fsx_worker *worker, size_t below)
{
    return (size_t)(fsx_random(worker) % below);
}

static struct fsx_record *current(struct fsx_worker *worker)
{
    return &worker->history[(worker->operations - 1) % FSX_HISTORY];
}

void fsx_log(struct fsx_worker *worker, const struct fsx_file *file, const char *operation,
             size_t offset, size_t length)
{
    worker->operations++;
    *current(worker) = (struct fsx_record){.operation = operation,
                                           .file = file->name,
                                           .offset = offset,
                                           .length = length,
                                           .before = file->size};
}

void fsx_note(struct fsx_worker *worker, const char *format, ...)
{
    struct fsx_record *record = current(worker);
    const size_t used = strlen(record->note);
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(record->note + used, sizeof record->note - used, format, arguments);
    va_end(arguments);
}

static void print_history(FILE *out, const struct fsx_worker *worker)
{
    const uint64_t count = worker->operations < FSX_HISTORY ? worker->operations : FSX_HISTORY;
    fprintf(out, "last %ju operations, offsets and lengths in bytes:\n", (uintmax_t)count);
    for (uint64_t i = worker->operations - count; i < worker->operations; i++) {
        const struct fsx_record *record = &worker->history[i % FSX_HISTORY];
        fprintf(out, "  %8ju %s %-9s offset %8zu length %8zu end %8zu size before %8zu%s\n",
                (uintmax_t)i + 1, record->file, record->operation, record->offset, record->length,
                record->offset + record->length, record->before, record->note);
    }
}

/* Prints MESSAGE with everything needed to find the cause, and ends the process. */
static _Noreturn void give_up(struct fsx_worker *worker, const struct fsx_file *file,
                              const char *message)
{
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    if (out) {
        fprintf(out, "fsx: FAILED: process %u, operation %ju, seed %ju, %s (kept): %s\n",
                worker->number, (uintmax_t)worker->operations, (uintmax_t)worker->seed, file->name,
                message);
        print_history(out, worker);
        fclose(out);
    }
    ssize_t written = text ? write(STDOUT_FILENO, text, size) : -1;
    _exit(written == (ssize_t)size ? 1 : 3);
}

void fsx_fail(struct fsx_worker *worker, const struct fsx_file *file, const char *format, ...)
{
    char message[512];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(message, sizeof message, format, arguments);
    va_end(arguments);
    give_up(worker, file, message);
}

/* Up to 16 bytes from AT in hexadecimal. */
static void hex(char text[49], const unsigned char *at, size_t count)
{
    text[0] = '\0';
    for (size_t i = 0; i < count && i < 16; i++)
        snprintf(text + 3 * i, 4, "%02x ", at[i]);
}

void fsx_compare(struct fsx_worker *worker, const struct fsx_file *file, const unsigned char *got,
                 size_t offset, size_t length, const char *how)
{
    const unsigned char *want = file->model + offset;
    if (memcmp(got, want, length) == 0)
        return;
    size_t first = 0, last = length, wrong = 0;
    while (got[first] == want[first])
        first++;
    while (got[last - 1] == want[last - 1])
        last--;
    for (size_t i = first; i < last; i++)
        wrong += got[i] != want[i];
    char expected[49], seen[49];
    hex(expected, want + first, last - first);
    hex(seen, got + first, last - first);
    fsx_fail(worker, file,
             "%s of %zu bytes at %zu: first wrong byte at offset %zu (0x%zx), last at %zu, %zu in "
             "all\n  expected %s\n  got      %s",
             how, length, offset, offset + first, offset + first, offset + last - 1, wrong,
             expected, seen);
}
