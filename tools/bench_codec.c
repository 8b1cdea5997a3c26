/* SPDX-License-Identifier: BSD-2-Clause
 *
 * bench_codec.c - sepfs-bench codec: size and speed of the block codecs on files.
 *
 * Each file is cut into blocks and each block is coded alone, by every codec in the same run, then
 * decoded and compared. xz is the peer: one .xz stream a block, as `xz -9e` would write it. Speed is
 * plain bytes a second of wall time with --threads threads; reading the file is not counted.
 */
#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#ifdef SEPFS_HAVE_LZMA
#include <lzma.h>
#endif

#include "bench.h"
#include "cli.h"
#include "codec/sep.h"
#include "json.h"

#define BENCH_NAME  "sepfs-bench codec"
#define CODERS_MAX  6u
#define THREADS_MAX 256u

/* What a column of the table is. */
struct coder {
    char name[16];
    bool xz; /* else METHOD */
    struct sep_method method;
};

struct result {
    uint64_t payload_size;
    double encode_seconds, decode_seconds;
};

struct file {
    const char *path;
    uint8_t *plain;
    size_t size;
};

struct bench {
    size_t block_size;
    unsigned threads;
    bool json;
    struct coder coders[CODERS_MAX];
    unsigned coder_count;
};

/* One pass over a file: every thread takes the next block until none is left. */
struct pass {
    const struct bench *bench;
    const struct coder *coder;
    const struct file *file;
    bool decode;
    size_t blocks;
    atomic_size_t next;
    atomic_int failure; /* 0 or an enum sep_status */
    uint8_t *payloads;  /* blocks times sep_bound(block_size) */
    size_t *sizes;      /* of the payloads */
    uint8_t *codecs;    /* that the payloads are in */
};

static enum sep_status xz_encode(const uint8_t *plain, size_t plain_size, uint8_t *payload,
                                 size_t capacity, size_t *payload_size)
{
#ifdef SEPFS_HAVE_LZMA
    *payload_size = 0;
    return lzma_easy_buffer_encode(9 | LZMA_PRESET_EXTREME, LZMA_CHECK_CRC64, NULL, plain,
                                   plain_size, payload, payload_size, capacity) == LZMA_OK
               ? SEP_OK
               : SEP_ERROR_CAPACITY;
#else
    return SEP_ERROR_CODEC;
#endif
}

static enum sep_status xz_decode(const uint8_t *payload, size_t payload_size, uint8_t *plain,
                                 size_t plain_size)
{
#ifdef SEPFS_HAVE_LZMA
    uint64_t memory = UINT64_MAX;
    size_t read = 0, written = 0;

    return lzma_stream_buffer_decode(&memory, 0, NULL, payload, &read, payload_size, plain,
                                     &written, plain_size) == LZMA_OK &&
                   written == plain_size
               ? SEP_OK
               : SEP_ERROR_CORRUPT;
#else
    return SEP_ERROR_CODEC;
#endif
}

/* Room for a block in any coder: .xz adds up to 1 KiB to data that does not compress. */
static size_t payload_room(size_t block_size)
{
    return sep_bound(block_size) + 1024;
}

static enum sep_status run_block(struct pass *pass, struct sep_context *context, size_t block,
                                 uint8_t *plain)
{
    const size_t start = block * pass->bench->block_size;
    const size_t left = pass->file->size - start;
    const size_t size = left < pass->bench->block_size ? left : pass->bench->block_size;
    const uint8_t *source = pass->file->plain + start;
    uint8_t *payload = pass->payloads + block * payload_room(pass->bench->block_size);
    struct sep_method used;
    enum sep_status status;

    if (!pass->decode) {
        if (pass->coder->xz)
            return xz_encode(source, size, payload, payload_room(pass->bench->block_size),
                             &pass->sizes[block]);
        status = sep_encode(context, pass->coder->method, source, size, payload, sep_bound(size),
                            &pass->sizes[block], &used);
        pass->codecs[block] = used.codec;
        return status;
    }
    status = pass->coder->xz ? xz_decode(payload, pass->sizes[block], plain, size)
                             : sep_decode(context, pass->codecs[block], payload, pass->sizes[block],
                                          plain, size);
    return status == SEP_OK && memcmp(plain, source, size) != 0 ? SEP_ERROR_CORRUPT : status;
}

static void *run_thread(void *argument)
{
    struct pass *pass = argument;
    struct sep_context *context = sep_context_new();
    uint8_t *plain = malloc(pass->bench->block_size);
    enum sep_status status = context == NULL || plain == NULL ? SEP_ERROR_MEMORY : SEP_OK;

    while (status == SEP_OK) {
        const size_t block = atomic_fetch_add(&pass->next, 1);

        if (block >= pass->blocks)
            break;
        status = run_block(pass, context, block, plain);
    }
    if (status != SEP_OK)
        atomic_store(&pass->failure, (int)status);
    free(plain);
    sep_context_free(context);
    return NULL;
}

static double seconds_now(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

/* Returns the status of the pass and how long it took. */
static enum sep_status run_pass(struct pass *pass, double *seconds)
{
    pthread_t threads[THREADS_MAX];
    unsigned started = 0;
    const double begin = seconds_now();

    atomic_store(&pass->next, 0);
    while (started + 1 < pass->bench->threads &&
           pthread_create(&threads[started], NULL, run_thread, pass) == 0)
        started++;
    run_thread(pass);
    for (unsigned k = 0; k < started; k++)
        pthread_join(threads[k], NULL);
    *seconds = seconds_now() - begin;
    return (enum sep_status)atomic_load(&pass->failure);
}

static enum sep_status measure(const struct bench *bench, const struct coder *coder,
                               const struct file *file, struct result *result)
{
    struct pass pass = {.bench = bench, .coder = coder, .file = file};
    enum sep_status status = SEP_ERROR_MEMORY;

    pass.blocks = (file->size + bench->block_size - 1) / bench->block_size;
    pass.payloads = calloc(pass.blocks, payload_room(bench->block_size));
    pass.sizes = calloc(pass.blocks, sizeof *pass.sizes);
    pass.codecs = calloc(pass.blocks, 1);
    if (pass.payloads != NULL && pass.sizes != NULL && pass.codecs != NULL)
        status = run_pass(&pass, &result->encode_seconds);
    if (status == SEP_OK) {
        pass.decode = true;
        status = run_pass(&pass, &result->decode_seconds);
    }
    result->payload_size = 0;
    for (size_t k = 0; k < pass.blocks && status == SEP_OK; k++)
        result->payload_size += pass.sizes[k];
    free(pass.payloads);
    free(pass.sizes);
    free(pass.codecs);
    return status;
}

static int read_file(struct file *file)
{
    FILE *stream = fopen(file->path, "rb");
    size_t capacity = 1u << 20;
    int error = 0;

    file->size = 0;
    file->plain = stream != NULL ? malloc(capacity) : NULL;
    if (file->plain == NULL)
        error = errno;
    while (error == 0) {
        uint8_t *grown;

        file->size += fread(file->plain + file->size, 1, capacity - file->size, stream);
        if (ferror(stream))
            error = errno;
        if (file->size < capacity || error != 0)
            break;
        capacity *= 2;
        grown = realloc(file->plain, capacity);
        if (grown == NULL)
            error = ENOMEM;
        else
            file->plain = grown;
    }
    if (stream != NULL)
        fclose(stream);
    if (error == 0 && file->size == 0)
        error = ENODATA;
    return -error;
}

static double speed(uint64_t plain_size, double seconds)
{
    return seconds > 0 ? (double)plain_size / 1e6 / seconds : INFINITY;
}

static void print_head(const struct bench *bench)
{
    printf("blocks of %zu bytes, %u thread%s, SEP on %s; MB = 10^6 bytes\n", bench->block_size,
           bench->threads, bench->threads == 1 ? "" : "s", sep_simd_name());
    printf("%-28s %-8s %12s %7s %10s %10s\n", "file", "codec", "bytes", "ratio", "encode",
           "decode");
}

static void print_row(const char *file, const char *coder, uint64_t plain_size,
                      const struct result *result)
{
    printf("%-28s %-8s %12llu %7.3f %5.1f MB/s %5.1f MB/s\n", file, coder,
           (unsigned long long)result->payload_size,
           (double)plain_size / (double)result->payload_size,
           speed(plain_size, result->encode_seconds), speed(plain_size, result->decode_seconds));
}

static void json_row(struct json *json, const struct coder *coder, uint64_t plain_size,
                     const struct result *result)
{
    json_object(json, NULL);
    json_string(json, "codec", coder->name);
    json_u64(json, "bytes", result->payload_size);
    json_double(json, "ratio", (double)plain_size / (double)result->payload_size);
    json_double(json, "encode_mb_per_s", speed(plain_size, result->encode_seconds));
    json_double(json, "decode_mb_per_s", speed(plain_size, result->decode_seconds));
    json_end(json);
}

/* Sums over all files, for the last lines. */
struct totals {
    unsigned files, wins; /* files where sep is smaller than xz */
    uint64_t plain_size;
    double ratio_logs[CODERS_MAX];
    struct result sums[CODERS_MAX];
};

static int bench_file(const struct bench *bench, const char *path, struct totals *totals,
                      struct json *json)
{
    const char *name = strrchr(path, '/') != NULL ? strrchr(path, '/') + 1 : path;
    struct file file = {.path = path};
    struct result results[CODERS_MAX] = {0};
    int result = read_file(&file);

    if (result != 0) {
        cli_error(BENCH_NAME, path, "%s", result == -ENODATA ? "empty file" : strerror(-result));
        goto out;
    }
    for (unsigned k = 0; k < bench->coder_count; k++) {
        const enum sep_status status = measure(bench, &bench->coders[k], &file, &results[k]);

        if (status != SEP_OK) {
            cli_error(BENCH_NAME, path, "%s: %s", bench->coders[k].name, sep_status_text(status));
            result = -EIO;
            goto out;
        }
        totals->ratio_logs[k] += log((double)file.size / (double)results[k].payload_size);
        totals->sums[k].payload_size += results[k].payload_size;
        totals->sums[k].encode_seconds += results[k].encode_seconds;
        totals->sums[k].decode_seconds += results[k].decode_seconds;
        if (!bench->json)
            print_row(k == 0 ? name : "", bench->coders[k].name, file.size, &results[k]);
    }
    totals->files++;
    totals->plain_size += file.size;
    /* sep is the last coder, xz, when built in, the one before. */
    if (bench->coders[bench->coder_count - 2].xz)
        totals->wins += results[bench->coder_count - 1].payload_size <
                        results[bench->coder_count - 2].payload_size;
    if (bench->json) {
        json_object(json, NULL);
        json_string(json, "file", path);
        json_u64(json, "bytes", file.size);
        json_array(json, "codecs");
        for (unsigned k = 0; k < bench->coder_count; k++)
            json_row(json, &bench->coders[k], file.size, &results[k]);
        json_end(json);
        json_end(json);
    } else {
        fflush(stdout);
    }
out:
    free(file.plain);
    return result;
}

static void print_totals(const struct bench *bench, const struct totals *totals, struct json *json)
{
    const bool xz = bench->coders[bench->coder_count - 2].xz;

    if (bench->json)
        json_array(json, "all");
    for (unsigned k = 0; k < bench->coder_count; k++) {
        const double mean = exp(totals->ratio_logs[k] / totals->files);

        if (bench->json) {
            json_object(json, NULL);
            json_string(json, "codec", bench->coders[k].name);
            json_double(json, "geometric_mean_ratio", mean);
            json_u64(json, "bytes", totals->sums[k].payload_size);
            json_double(json, "encode_mb_per_s",
                        speed(totals->plain_size, totals->sums[k].encode_seconds));
            json_double(json, "decode_mb_per_s",
                        speed(totals->plain_size, totals->sums[k].decode_seconds));
            json_end(json);
        } else {
            print_row(k == 0 ? "all files" : "", bench->coders[k].name, totals->plain_size,
                      &totals->sums[k]);
            printf("%-28s %-8s %12s %7.3f geometric mean of the files\n", "", "", "", mean);
        }
    }
    if (bench->json) {
        json_end(json);
        json_u64(json, "files", totals->files);
        if (xz)
            json_u64(json, "files_smaller_than_xz", totals->wins);
    } else if (xz) {
        printf("%s is smaller than xz -9e on the same blocks for %u of %u files\n",
               bench->coders[bench->coder_count - 1].name, totals->wins, totals->files);
    }
}

enum { OPTION_BLOCK_SIZE = CLI_LONG_ONLY, OPTION_LEVEL, OPTION_THREADS, OPTION_JSON };

static const struct cli_option options[] = {
    {OPTION_BLOCK_SIZE, "block-size", "SIZE", "16K to 4M; default 128K"},
    {OPTION_LEVEL, "level", "N", "level of sep, 1 to 9; default 5"},
    {OPTION_THREADS, "threads", "N", "threads that code blocks; default 1"},
    {OPTION_JSON, "json", NULL, "print JSON"},
    {0},
};

static const struct cli_program program = {
    .name = BENCH_NAME,
    .purpose = "compares the block codecs on files: size and speed",
    .synopsis = "[OPTION...] FILE...",
    .options = options,
    .notes = "Every block is coded alone, decoded and compared. xz is measured when built with it.",
    .usage_exit = 2,
};

/* "131072", "128K", "4M". */
static bool parse_block_size(const char *text, size_t *size)
{
    char digits[16];
    size_t length = strlen(text);
    uint64_t value, unit = 1;

    if (length > 1 && (text[length - 1] == 'K' || text[length - 1] == 'M'))
        unit = text[--length] == 'K' ? 1u << 10 : 1u << 20;
    if (length == 0 || length >= sizeof digits)
        return false;
    memcpy(digits, text, length);
    digits[length] = '\0';
    if (!cli_parse_u64(digits, 1, SEP_BLOCK_SIZE_MAX, &value))
        return false;
    *size = (size_t)(value * unit);
    return value * unit >= SEP_BLOCK_SIZE_MIN && value * unit <= SEP_BLOCK_SIZE_MAX;
}

static void add_coder(struct bench *bench, const char *text)
{
    struct coder *coder = &bench->coders[bench->coder_count++];

    snprintf(coder->name, sizeof coder->name, "%s", text);
    coder->xz = sep_method_parse(text, &coder->method) != SEP_OK;
}

int bench_codec(int argc, char **argv)
{
    struct bench bench = {.block_size = SEP_BLOCK_SIZE_DEFAULT, .threads = 1};
    struct totals totals = {0};
    char sep_name[16] = "sep:5";
    struct json json;
    struct cli cli;
    uint64_t value;
    int failed = 0;

    cli_begin(&cli, &program, argc, argv);
    for (int id; (id = cli_next(&cli)) != CLI_END;) {
        switch (id) {
        case OPTION_BLOCK_SIZE:
            if (!parse_block_size(cli.value, &bench.block_size))
                return cli_usage(&cli, "--block-size: %s is not a size from 16K to 4M", cli.value);
            break;
        case OPTION_LEVEL:
            if (!cli_parse_u64(cli.value, 1, 9, &value))
                return cli_usage(&cli, "--level: %s is not a level from 1 to 9", cli.value);
            snprintf(sep_name, sizeof sep_name, "sep:%u", (unsigned)value);
            break;
        case OPTION_THREADS:
            if (!cli_parse_u64(cli.value, 1, THREADS_MAX, &value))
                return cli_usage(&cli, "--threads: %s is not a number from 1 to 256", cli.value);
            bench.threads = (unsigned)value;
            break;
        case OPTION_JSON:
            bench.json = true;
            break;
        default:
            return cli.exit_code;
        }
    }
    if (cli.count < 1)
        return cli_usage(&cli, "a file is needed");
    add_coder(&bench, "lz4");
    add_coder(&bench, "zstd:3");
    add_coder(&bench, "zstd:19");
#ifdef SEPFS_HAVE_LZMA
    add_coder(&bench, "xz -9e");
#endif
    add_coder(&bench, sep_name);
    if (bench.json) {
        json_begin(&json, stdout);
        json_object(&json, NULL);
        json_u64(&json, "block_size", bench.block_size);
        json_u64(&json, "threads", bench.threads);
        json_string(&json, "simd", sep_simd_name());
        json_array(&json, "results");
    } else {
        print_head(&bench);
    }
    for (int k = 0; k < cli.count; k++)
        failed |= bench_file(&bench, cli.arguments[k], &totals, &json) != 0;
    if (bench.json)
        json_end(&json);
    if (totals.files > 0)
        print_totals(&bench, &totals, &json);
    if (bench.json)
        json_end(&json);
    return cli_finish(BENCH_NAME, failed, 1);
}
