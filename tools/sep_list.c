/* SPDX-License-Identifier: BSD-2-Clause
 *
 * sep_list.c - what .sep files hold, by their footers and indexes alone: no block is read. Text is a
 * line a file and one for the total; --verbose adds a line a codec and a line a block.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "sep_index.h"

enum { CODECS = 8, LEVELS = 256 };

struct count {
    uint64_t blocks, plain, payload;
};

struct listing {
    const struct input *input;
    struct streams streams;
    uint64_t blocks;
    uint32_t block_size_max;
    struct count counts[CODECS][LEVELS]; /* the last row is for all codecs from there on */
};

static struct count *count_of(struct listing *listing, uint8_t codec, uint8_t level)
{
    return &listing->counts[codec < CODECS ? codec : CODECS - 1][level];
}

static void codec_text(unsigned codec, unsigned level, char *text, size_t size)
{
    if (level > 0)
        snprintf(text, size, "%s:%u", sep_codec_name(codec), level);
    else
        snprintf(text, size, "%s", sep_codec_name(codec));
}

/* ---- collecting ---------------------------------------------------------------------------------
 */

static int count_stream(struct tool *tool, struct listing *listing, const struct stream *stream)
{
    struct cursor cursor;
    int result = index_verify(tool, listing->input, stream);
    cursor_begin(&cursor, tool, listing->input, stream);
    if (result == 0) {
        while ((result = cursor_next(&cursor)) == 1) {
            struct count *const count = count_of(listing, cursor.entry.codec, cursor.entry.level);
            count->blocks++;
            count->plain += cursor.plain_size;
            count->payload += cursor.entry.payload_size;
        }
    }
    listing->blocks += stream->footer.blocks;
    if (stream->footer.block_size > listing->block_size_max)
        listing->block_size_max = stream->footer.block_size;
    if (result == -EBADMSG)
        tool_error(tool, listing->input->name,
                   "the index of the stream at byte %" PRIu64 " is damaged", stream->start);
    else if (result != 0 && result != -ECANCELED)
        tool_error(tool, listing->input->name, "cannot read: %s", strerror(-result));
    return result;
}

/* ---- printing -----------------------------------------------------------------------------------
 */

static void print_codecs_json(struct json *json, const struct listing *listing)
{
    json_array(json, "codecs");
    for (unsigned codec = 0; codec < CODECS; codec++) {
        for (unsigned level = 0; level < LEVELS; level++) {
            const struct count *const count = &listing->counts[codec][level];
            if (count->blocks == 0)
                continue;
            json_object(json, NULL);
            json_string(json, "codec", sep_codec_name(codec));
            json_u64(json, "level", level);
            json_u64(json, "blocks", count->blocks);
            json_u64(json, "plain_bytes", count->plain);
            json_u64(json, "payload_bytes", count->payload);
            json_end(json);
        }
    }
    json_end(json);
}

static void print_block_json(struct json *json, uint64_t stream, const struct cursor *cursor)
{
    json_object(json, NULL);
    json_u64(json, "stream", stream);
    json_u64(json, "block", cursor->number);
    json_u64(json, "position", cursor->position);
    json_u64(json, "plain_position",
             cursor->stream->plain_start +
                 (uint64_t)cursor->number * cursor->stream->footer.block_size);
    json_u64(json, "plain_bytes", cursor->plain_size);
    json_u64(json, "payload_bytes", cursor->entry.payload_size);
    json_string(json, "codec", sep_codec_name(cursor->entry.codec));
    json_u64(json, "level", cursor->entry.level);
    json_end(json);
}

static void print_block_text(uint64_t stream, const struct cursor *cursor)
{
    char codec[32];
    codec_text(cursor->entry.codec, cursor->entry.level, codec, sizeof codec);
    printf("  %6" PRIu64 " %10u %14" PRIu64 " %14" PRIu64 " %8u %8u %7.2f  %s\n", stream,
           cursor->number, cursor->position,
           cursor->stream->plain_start +
               (uint64_t)cursor->number * cursor->stream->footer.block_size,
           cursor->plain_size, cursor->entry.payload_size,
           cli_ratio(cursor->plain_size, cursor->entry.payload_size), codec);
}

/* Every index was verified: an error now means that the file changed. */
static int print_blocks(struct tool *tool, struct listing *listing)
{
    int result = 0;
    if (tool->options->as_json)
        json_array(&tool->json, "block_list");
    else
        printf("  %6s %10s %14s %14s %8s %8s %7s  %s\n", "stream", "block", "position",
               "plain position", "plain", "payload", "ratio", "codec");
    for (size_t i = 0; i < listing->streams.count && result == 0; i++) {
        struct cursor cursor;
        cursor_begin(&cursor, tool, listing->input, &listing->streams.list[i]);
        while ((result = cursor_next(&cursor)) == 1) {
            if (tool->options->as_json)
                print_block_json(&tool->json, i + 1, &cursor);
            else
                print_block_text(i + 1, &cursor);
        }
    }
    if (tool->options->as_json)
        json_end(&tool->json);
    if (result < 0 && result != -ECANCELED)
        tool_error(tool, listing->input->name, "changed while it was read");
    return result;
}

static int print_json(struct tool *tool, struct listing *listing)
{
    struct json *const json = &tool->json;
    json_object(json, NULL);
    json_string(json, "name", listing->input->path != NULL ? listing->input->path : "-");
    json_u64(json, "streams", listing->streams.count);
    json_u64(json, "blocks", listing->blocks);
    json_u64(json, "block_size", listing->block_size_max);
    json_u64(json, "plain_bytes", listing->streams.plain);
    json_u64(json, "compressed_bytes", listing->input->size);
    json_double(json, "ratio", cli_ratio(listing->streams.plain, listing->input->size));
    print_codecs_json(json, listing);
    const int error = tool->options->verbose > 0 ? print_blocks(tool, listing) : 0;
    json_end(json);
    return error;
}

/* "sep:5 17, raw 2" */
static void print_codecs_text(const struct listing *listing)
{
    const char *between = "";
    for (unsigned codec = 0; codec < CODECS; codec++) {
        for (unsigned level = 0; level < LEVELS; level++) {
            char text[32];
            if (listing->counts[codec][level].blocks == 0)
                continue;
            codec_text(codec, level, text, sizeof text);
            printf("%s%s %" PRIu64, between, text, listing->counts[codec][level].blocks);
            between = ", ";
        }
    }
}

static void print_line(const char *head, uint64_t blocks, uint64_t plain, uint64_t stored)
{
    char plain_text[CLI_TEXT], stored_text[CLI_TEXT];
    printf("%7s %9" PRIu64 " %10s %10s %7.2f  ", head, blocks, cli_bytes(plain, plain_text),
           cli_bytes(stored, stored_text), cli_ratio(plain, stored));
}

static int print_text(struct tool *tool, struct listing *listing)
{
    char streams[24];
    if (tool->listed == 0)
        printf("%7s %9s %10s %10s %7s  %s\n", "streams", "blocks", "plain", "compressed", "ratio",
               "name: blocks by codec");
    snprintf(streams, sizeof streams, "%zu", listing->streams.count);
    print_line(streams, listing->blocks, listing->streams.plain, listing->input->size);
    cli_put(stdout, listing->input->name);
    fputs(": ", stdout);
    print_codecs_text(listing);
    putchar('\n');
    return tool->options->verbose > 0 ? print_blocks(tool, listing) : 0;
}

/* ---- the calls ----------------------------------------------------------------------------------
 */

int list_file(struct tool *tool, const struct input *input)
{
    struct listing *const listing = calloc(1, sizeof *listing);
    if (listing == NULL) {
        tool_error(tool, input->name, "%s", strerror(ENOMEM));
        return -ENOMEM;
    }
    listing->input = input;
    int error = streams_read(tool, input, &listing->streams);
    for (size_t i = 0; i < listing->streams.count && error == 0; i++)
        error = count_stream(tool, listing, &listing->streams.list[i]);
    if (error == 0) {
        error = tool->options->as_json ? print_json(tool, listing) : print_text(tool, listing);
        tool->listed++;
        tool->listed_blocks += listing->blocks;
        tool->listed_plain += listing->streams.plain;
        tool->listed_stored += input->size;
    }
    streams_free(&listing->streams);
    free(listing);
    return error;
}

void list_begin(struct tool *tool)
{
    if (!tool->options->as_json)
        return;
    json_begin(&tool->json, stdout);
    json_object(&tool->json, NULL);
    json_array(&tool->json, "files");
}

void list_end(struct tool *tool)
{
    if (tool->options->as_json) {
        json_end(&tool->json);
        json_u64(&tool->json, "plain_bytes", tool->listed_plain);
        json_u64(&tool->json, "compressed_bytes", tool->listed_stored);
        json_u64(&tool->json, "exit", (uint64_t)tool->exit_code);
        json_end(&tool->json);
    } else if (tool->listed > 1) {
        print_line("", tool->listed_blocks, tool->listed_plain, tool->listed_stored);
        printf("%" PRIu64 " files\n", tool->listed);
    }
}
