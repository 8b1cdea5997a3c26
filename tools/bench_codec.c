/* SPDX-License-Identifier: BSD-2-Clause
 *
 * bench_codec.c - sepfs-bench codec: size and speed of codecs on files, all in the same run. Each
 * file is cut into blocks and each block coded alone; --whole adds programs that see all of it.
 */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bench.h"
#include "bench_codec.h"
#include "cli.h"
#include "json.h"

static int read_file(struct bench_file *file)
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
    printf("%-28s %-15s %12s %7s %11s %11s\n", "file", "codec", "bytes", "ratio", "encode",
           "decode");
}

static void print_row(const char *file, const char *coder, uint64_t plain_size,
                      const struct bench_result *result)
{
    printf("%-28s %-15s %12llu %7.3f %6.1f MB/s %6.1f MB/s\n", file, coder,
           (unsigned long long)result->payload_size,
           (double)plain_size / (double)result->payload_size,
           speed(plain_size, result->encode_seconds), speed(plain_size, result->decode_seconds));
}

static void json_row(struct json *json, const struct bench_coder *coder, uint64_t plain_size,
                     const struct bench_result *result)
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
    double ratio_logs[BENCH_CODERS_MAX];
    struct bench_result sums[BENCH_CODERS_MAX];
};

/* 0 or a negative errno after one line on stderr. */
static int measure(const struct bench *bench, const struct bench_coder *coder,
                   const struct bench_file *file, struct bench_result *result)
{
    enum sep_status status;
    int error;

    if (coder->kind == BENCH_WHOLE) {
        error = bench_whole(bench, coder, file, result);
        if (error != 0)
            cli_error(BENCH_NAME, file->path, "%s: %s", coder->name,
                      error == -EBADMSG ? "other bytes came back" : strerror(-error));
        return error;
    }
    status = bench_blocks(bench, coder, file, result);
    if (status != SEP_OK)
        cli_error(BENCH_NAME, file->path, "%s: %s", coder->name, sep_status_text(status));
    return status != SEP_OK ? -EIO : 0;
}

static int bench_file(const struct bench *bench, const char *path, struct totals *totals,
                      struct json *json)
{
    const char *name = strrchr(path, '/') != NULL ? strrchr(path, '/') + 1 : path;
    struct bench_file file = {.path = path};
    struct bench_result results[BENCH_CODERS_MAX] = {0};
    int result = read_file(&file);

    if (result != 0) {
        cli_error(BENCH_NAME, path, "%s", result == -ENODATA ? "empty file" : strerror(-result));
        goto out;
    }
    for (unsigned k = 0; k < bench->coder_count; k++) {
        result = measure(bench, &bench->coders[k], &file, &results[k]);
        if (result != 0)
            goto out;
        totals->ratio_logs[k] += log((double)file.size / (double)results[k].payload_size);
        totals->sums[k].payload_size += results[k].payload_size;
        totals->sums[k].encode_seconds += results[k].encode_seconds;
        totals->sums[k].decode_seconds += results[k].decode_seconds;
        if (!bench->json)
            print_row(k == 0 ? name : "", bench->coders[k].name, file.size, &results[k]);
    }
    totals->files++;
    totals->plain_size += file.size;
    if (bench->xz >= 0)
        totals->wins += results[bench->ours].payload_size < results[bench->xz].payload_size;
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
            printf("%-28s %-15s %12s %7.3f geometric mean of the files\n", "", "", "", mean);
        }
    }
    if (bench->json) {
        json_end(json);
        json_u64(json, "files", totals->files);
        if (bench->xz >= 0)
            json_u64(json, "files_smaller_than_xz", totals->wins);
    } else if (bench->xz >= 0) {
        printf("%s is smaller than xz -9e on the same blocks for %u of %u files\n",
               bench->coders[bench->ours].name, totals->wins, totals->files);
    }
}

enum {
    OPTION_BLOCK_SIZE = CLI_LONG_ONLY,
    OPTION_LEVEL,
    OPTION_MODEL,
    OPTION_WHOLE,
    OPTION_PLOT,
    OPTION_THREADS,
    OPTION_JSON
};

static const struct cli_option options[] = {
    {OPTION_BLOCK_SIZE, "block-size", "SIZE", "16K to 4M; default 128K"},
    {OPTION_LEVEL, "level", "N", "level of sep, 1 to 9; default 5"},
    {OPTION_MODEL, "model", "FILE", "model for one more row of sep; may be given several times"},
    {OPTION_WHOLE, "whole", NULL,
     "also zstd, xz, bzip2, brotli, zpaq, where installed, on whole files"},
    {OPTION_PLOT, "plot", "FILE", "draw ratio against decoding speed as SVG"},
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

static struct bench_coder *add_coder(struct bench *bench, enum bench_kind kind, const char *name)
{
    struct bench_coder *coder = &bench->coders[bench->coder_count++];

    snprintf(coder->name, sizeof coder->name, "%s", name);
    coder->kind = kind;
    return coder;
}

static void add_method(struct bench *bench, const char *text, bool models)
{
    struct bench_coder *coder = add_coder(bench, BENCH_METHOD, text);

    (void)sep_method_parse(text, &coder->method); /* all of them are valid */
    coder->models = models;
    if (models)
        snprintf(coder->name, sizeof coder->name, "%s model", text);
}

/* The rows of the table; at most BENCH_CODERS_MAX. */
static void add_coders(struct bench *bench, unsigned level, bool whole)
{
    const struct bench_program *peer = NULL;
    char sep[16];

    snprintf(sep, sizeof sep, "sep:%u", level);
    bench->xz = -1;
    add_method(bench, "lz4", false);
    add_method(bench, "zstd:3", false);
    add_method(bench, "zstd:19", false);
#ifdef SEPFS_HAVE_LZMA
    bench->xz = (int)bench->coder_count;
    add_coder(bench, BENCH_XZ_BLOCK, "xz -9e");
#endif
    bench->ours = bench->coder_count;
    add_method(bench, sep, false);
    if (bench->models.count > 0) {
        bench->ours = bench->coder_count;
        add_method(bench, sep, true);
    }
    while (whole && (peer = bench_program_next(peer)) != NULL)
        add_coder(bench, BENCH_WHOLE, bench_program_name(peer))->program = peer;
}

static bool make_work(struct bench *bench)
{
    const char *directory = getenv("TMPDIR");

    if (snprintf(bench->work, sizeof bench->work, "%s/sepfs-bench-XXXXXX",
                 directory != NULL && strlen(directory) < 40 ? directory : "/tmp") > 0 &&
        mkdtemp(bench->work) != NULL)
        return true;
    cli_error(BENCH_NAME, bench->work, "%s", strerror(errno));
    return false;
}

static int plot(const struct bench *bench, const struct totals *totals, const char *path)
{
    struct bench_point points[BENCH_CODERS_MAX];
    int error;

    for (unsigned k = 0; k < bench->coder_count; k++) {
        points[k] =
            (struct bench_point){bench->coders[k].name, exp(totals->ratio_logs[k] / totals->files),
                                 speed(totals->plain_size, totals->sums[k].decode_seconds),
                                 bench->coders[k].kind == BENCH_METHOD &&
                                     bench->coders[k].method.codec == SEP_CODEC_SEP};
    }
    error = bench_plot(path, points, bench->coder_count);
    if (error != 0)
        cli_error(BENCH_NAME, path, "%s", strerror(-error));
    return error;
}

/* What the options ask for beyond struct bench. */
struct request {
    unsigned level;
    bool whole;
    const char *plot;
};

/* -1, or an exit code. */
static int parse(struct cli *cli, struct bench *bench, struct request *request)
{
    uint64_t value;

    for (int id; (id = cli_next(cli)) != CLI_END;) {
        switch (id) {
        case OPTION_BLOCK_SIZE:
            if (!parse_block_size(cli->value, &bench->block_size))
                return cli_usage(cli, "--block-size: %s is not a size from 16K to 4M", cli->value);
            break;
        case OPTION_LEVEL:
            if (!cli_parse_u64(cli->value, 1, 9, &value))
                return cli_usage(cli, "--level: %s is not a level from 1 to 9", cli->value);
            request->level = (unsigned)value;
            break;
        case OPTION_MODEL:
            if (!model_files_add(&bench->models, BENCH_NAME, cli->value))
                return 1;
            break;
        case OPTION_WHOLE:
            request->whole = true;
            break;
        case OPTION_PLOT:
            request->plot = cli->value;
            break;
        case OPTION_THREADS:
            if (!cli_parse_u64(cli->value, 1, BENCH_THREADS_MAX, &value))
                return cli_usage(cli, "--threads: %s is not a number from 1 to 256", cli->value);
            bench->threads = (unsigned)value;
            break;
        case OPTION_JSON:
            bench->json = true;
            break;
        default:
            return cli->exit_code;
        }
    }
    return cli->count < 1 ? cli_usage(cli, "a file is needed") : -1;
}

static bool run(struct bench *bench, const struct cli *cli, struct totals *totals)
{
    struct json json;
    bool good = true;

    if (bench->json) {
        json_begin(&json, stdout);
        json_object(&json, NULL);
        json_u64(&json, "block_size", bench->block_size);
        json_u64(&json, "threads", bench->threads);
        json_string(&json, "simd", sep_simd_name());
        json_array(&json, "results");
    } else {
        print_head(bench);
    }
    for (int k = 0; k < cli->count; k++)
        good &= bench_file(bench, cli->arguments[k], totals, &json) == 0;
    if (bench->json)
        json_end(&json);
    if (totals->files > 0)
        print_totals(bench, totals, &json);
    if (bench->json)
        json_end(&json);
    return good;
}

int bench_codec(int argc, char **argv)
{
    struct bench bench = {.block_size = SEP_BLOCK_SIZE_DEFAULT, .threads = 1};
    struct request request = {.level = 5};
    struct totals totals = {0};
    struct cli cli;
    bool good = false;
    int code;

    cli_begin(&cli, &program, argc, argv);
    code = parse(&cli, &bench, &request);
    if (code >= 0)
        goto out;
    add_coders(&bench, request.level, request.whole);
    if (!request.whole || make_work(&bench))
        good = run(&bench, &cli, &totals);
    if (request.plot != NULL && totals.files > 0)
        good &= plot(&bench, &totals, request.plot) == 0;
    if (bench.work[0] != '\0')
        rmdir(bench.work);
    code = cli_finish(BENCH_NAME, good ? 0 : 1, 1);
out:
    model_files_free(&bench.models);
    return code;
}
