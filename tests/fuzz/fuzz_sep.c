/* SPDX-License-Identifier: BSD-2-Clause
 *
 * fuzz_sep.c - whole .sep files through the command sep: its index, its decoder from front to back
 * and its recovery (tools/sep_index.c, sep_scan.c, sep_decompress.c, sep_recover.c).
 *
 * Input: byte 0 the mode. In one mode the rest is a file, with the checksums of its structures made
 * right if byte 0 says so; in the other it says what stream to make and which of its bytes to
 * damage. Properties: what is decoded without an error is what recovery gives, and what a range of
 * all gives; recovery writes at least every block whose record nothing touched, at its place
 * as long as the footer is intact. sep.c and sep_file.c are left out: output goes to memory here.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define XXH_STATIC_LINKING_ONLY
#include <xxhash.h>

#include "fuzz.h"
#include "tools/sep_index.h"
#include "tools/sep_tool.h"

enum { BLOCK = SEP_BLOCK_SIZE_MIN, BLOCKS = 4, FILE_MAX = 1 << 18, RESULT_MAX = 1 << 20 };

/* ---- what sep.c and sep_file.c do ---- */

struct result {
    uint8_t bytes[RESULT_MAX]; /* the first of them */
    uint64_t size;
    int error;
};

static struct result *writes_to;

void tool_error(struct tool *tool, const char *subject, const char *format, ...)
{
    char line[1024];
    va_list list;

    (void)subject;
    va_start(list, format);
    vsnprintf(line, sizeof line, format, list);
    va_end(list);
    tool->exit_code = EXIT_FAILED;
}

void tool_warn(struct tool *tool, const char *subject, const char *format, ...)
{
    (void)subject;
    (void)format;
    if (tool->exit_code == EXIT_FINE)
        tool->exit_code = EXIT_WARNED;
}

void tool_progress(struct tool *tool, const struct input *input, uint64_t done, uint64_t plain,
                   uint64_t stored)
{
    (void)tool;
    (void)input;
    (void)done;
    (void)plain;
    (void)stored;
}

int output_write(struct tool *tool, struct output *output, const void *bytes, size_t size)
{
    (void)tool;
    if (output->position < RESULT_MAX) {
        const size_t room = RESULT_MAX - (size_t)output->position;

        memcpy(writes_to->bytes + output->position, bytes, size < room ? size : room);
    }
    output->position += size;
    return 0;
}

int output_zeros(struct tool *tool, struct output *output, uint64_t size)
{
    (void)tool;
    if (output->position < RESULT_MAX) {
        const uint64_t room = RESULT_MAX - output->position;

        memset(writes_to->bytes + output->position, 0, size < room ? size : room);
    }
    return __builtin_add_overflow(output->position, size, &output->position) ? -EFBIG : 0;
}

/* ---- running ---- */

static volatile sig_atomic_t never;
static struct pool *pool;
static const struct model_files no_models;

/* FD's SIZE bytes through one of the decoders. */
static void decode(int fd, size_t size, bool recover, bool range, struct result *result)
{
    struct tool_options options = {.mode = MODE_DECOMPRESS, .recover = recover, .threads = 1};
    struct tool tool = {.options = &options, .stop = &never, .pool = pool};
    const struct input input = {.fd = fd, .name = "fuzz", .size = size, .regular = true};
    struct output output = {.fd = -1, .name = "memory"};
    struct outcome outcome = {0};

    if (range) {
        options.has_range = true;
        options.range_end = UINT64_MAX;
    }
    writes_to = result;
    FUZZ_CHECK(lseek(fd, 0, SEEK_SET) == 0);
    result->error = recover ? recover_file(&tool, &input, &output, &outcome)
                            : decompress_file(&tool, &input, &output, &outcome);
    result->size = output.position;
    FUZZ_CHECK(result->error == 0 || tool.exit_code == EXIT_FAILED);
}

static bool same(const struct result *a, const struct result *b)
{
    return a->size == b->size &&
           memcmp(a->bytes, b->bytes, a->size < RESULT_MAX ? a->size : RESULT_MAX) == 0;
}

static void run(const uint8_t *file, size_t size, struct result *recovered)
{
    static struct result forward, ranged;
    static int fd = -1;

    if (fd < 0)
        fd = memfd_create("sep", MFD_CLOEXEC);
    if (pool == NULL)
        pool = pool_new(1, &no_models);
    FUZZ_CHECK(fd >= 0 && pool != NULL);
    FUZZ_CHECK(ftruncate(fd, (off_t)size) == 0);
    FUZZ_CHECK(pwrite(fd, file, size, 0) == (ssize_t)size);
    decode(fd, size, false, false, &forward);
    decode(fd, size, true, false, recovered);
    if (forward.error != 0)
        return;
    FUZZ_CHECK(same(&forward, recovered) || size == 0);
    if (size > 0 && forward.size > 0) {
        decode(fd, size, false, true, &ranged);
        FUZZ_CHECK(ranged.error == 0 && same(&forward, &ranged));
    }
}

/* ---- any bytes ---- */

static void put_hash(uint8_t *at, uint64_t hash, size_t size)
{
    for (size_t i = 0; i < size; i++)
        at[i] = (uint8_t)(hash >> (8 * i));
}

/* Makes right what guards each structure that begins anywhere, so that the values in it count. */
static void mend(uint8_t *bytes, size_t size)
{
    for (size_t i = 0; i + 4 <= size; i++) {
        uint8_t *const at = bytes + i;
        const size_t left = size - i;
        struct container_record record;

        if (at[0] != 0xf3)
            continue;
        if (left >= CONTAINER_HEADER && at[1] == 'S' && at[2] == 'E')
            put_hash(at + 20, XXH3_64bits(at, 20), 4);
        if (left >= CONTAINER_FOOTER && at[1] == 'S' && at[2] == 'f')
            put_hash(at + 40, XXH3_64bits(at, 40), 8);
        if (left >= CONTAINER_RECORD && container_is_record(at)) {
            put_hash(at + 32, XXH3_64bits(at, 32), 4);
            if (container_get_record(at, &record) == CONTAINER_OK &&
                record.payload_size <= left - CONTAINER_RECORD)
                put_hash(at + 36,
                         container_record_hash(at, at + CONTAINER_RECORD, record.payload_size), 8);
        }
    }
}

/* ---- a stream made and damaged ---- */

struct made {
    uint8_t file[FILE_MAX];
    size_t size, footer;
    unsigned blocks;
    uint8_t plain[BLOCKS][BLOCK];
    size_t plain_size[BLOCKS], start[BLOCKS], end[BLOCKS];
};

static void make(struct fuzz_input *input, struct made *made)
{
    static struct sep_context *context;
    struct container_footer footer = {.block_size = BLOCK};
    uint8_t entries[BLOCKS][CONTAINER_ENTRY];

    if (context == NULL)
        context = sep_context_new();
    FUZZ_CHECK(context != NULL);
    made->blocks = footer.blocks = 1 + fuzz_u8(input) % BLOCKS;
    made->size = CONTAINER_HEADER;
    for (unsigned i = 0; i < made->blocks; i++) {
        const struct sep_method method = {.codec = fuzz_u8(input) % SEP_CODEC_SEP, .level = 0};
        uint8_t *const at = made->file + made->size;
        struct sep_method used;
        size_t size;

        made->plain_size[i] = i + 1 < made->blocks ? BLOCK : 1 + fuzz_u16(input) % BLOCK;
        for (size_t k = 0; k < made->plain_size[i]; k++)
            made->plain[i][k] = (uint8_t)(i * 31 + k / 97 * (k % 7));
        made->plain[i][0] = fuzz_u8(input);
        FUZZ_CHECK(sep_encode(context, method, made->plain[i], made->plain_size[i],
                              at + CONTAINER_RECORD, sep_bound(BLOCK), &size, &used) == SEP_OK);
        const uint64_t hash = container_hash(made->plain[i], made->plain_size[i]);
        if (i == 0)
            footer.id = container_id(hash);
        struct container_record record = {.id = footer.id,
                                          .number = i,
                                          .codec = used.codec,
                                          .level = used.level,
                                          .plain_size = (uint32_t)made->plain_size[i],
                                          .payload_size = (uint32_t)size,
                                          .plain_hash = hash};
        container_put_record(at, &record, at + CONTAINER_RECORD);
        const struct container_entry entry = container_entry_of(&record);
        container_put_entry(entries[i], &entry);
        footer.entries_hash = container_entries_hash(footer.entries_hash, entries[i]);
        footer.plain_size += made->plain_size[i];
        made->start[i] = made->size;
        made->size += CONTAINER_RECORD + size;
        made->end[i] = made->size;
    }
    container_put_header(made->file,
                         &(struct container_header){.block_size = BLOCK, .id = footer.id});
    container_put_index(made->file + made->size, footer.blocks);
    made->size += CONTAINER_INDEX;
    memcpy(made->file + made->size, entries, footer.blocks * CONTAINER_ENTRY);
    made->size += footer.blocks * CONTAINER_ENTRY;
    made->footer = made->size;
    footer.stream_size = made->size + CONTAINER_FOOTER;
    container_put_footer(made->file + made->size, &footer);
    made->size += CONTAINER_FOOTER;
}

static void damage(struct fuzz_input *input)
{
    static struct made made;
    static struct result recovered;
    uint8_t *intact;
    unsigned edits;

    make(input, &made);
    intact = malloc(made.size);
    FUZZ_CHECK(intact != NULL);
    memcpy(intact, made.file, made.size);
    edits = fuzz_u8(input) % 6;
    for (unsigned i = 0; i < edits; i++) {
        size_t at = fuzz_u32(input) % made.size;
        const size_t run_length = fuzz_u8(input);
        const uint8_t change = fuzz_u8(input);

        for (size_t k = 0; k <= run_length && at < made.size; k++, at++)
            made.file[at] ^= change;
    }
    run(made.file, made.size, &recovered);
    const bool sized = memcmp(made.file + made.footer, intact + made.footer, CONTAINER_FOOTER) == 0;
    for (unsigned i = 0; i < made.blocks; i++) {
        const size_t place = (size_t)i * BLOCK;

        if (memcmp(made.file + made.start[i], intact + made.start[i],
                   made.end[i] - made.start[i]) != 0)
            continue;
        FUZZ_CHECK(recovered.error == 0);
        if (sized)
            FUZZ_CHECK(recovered.size >= place + made.plain_size[i] &&
                       memcmp(recovered.bytes + place, made.plain[i], made.plain_size[i]) == 0);
        else
            FUZZ_CHECK(memmem(recovered.bytes,
                              recovered.size < RESULT_MAX ? (size_t)recovered.size : RESULT_MAX,
                              made.plain[i], made.plain_size[i]) != NULL);
    }
    free(intact);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct result recovered;
    struct fuzz_input input = {data, size};
    const uint8_t mode = fuzz_u8(&input);

    if (mode & 1) {
        damage(&input);
    } else {
        size_t length;
        uint8_t *const file = fuzz_take(&input, FILE_MAX, &length);

        if (mode & 2)
            mend(file, length);
        run(file, length, &recovered);
        free(file);
    }
    return 0;
}
