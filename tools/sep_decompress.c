/* SPDX-License-Identifier: BSD-2-Clause
 *
 * sep_decompress.c - streams to plain bytes, front to back, so that a pipe will do: records are
 * decoded as they come, and what was read is held against the index and the footer when they come.
 * Nothing that is not verified is written; the first thing wrong ends it.
 *
 * A range is the same, begun at the record where it starts and ended where it ends: the index, which
 * needs a seekable file, says where that is.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sep_index.h"
#include "sep_tool.h"

enum { WINDOW = 64 << 10 };

struct decompressor {
    struct tool *tool;
    const struct input *input;
    struct output *output;
    struct source source;
    /* of the stream that is read */
    bool in_stream;
    uint64_t streams; /* begun */
    uint64_t stream_start;
    struct container_header header;
    uint64_t next;         /* number of the block expected */
    uint64_t plain;        /* bytes of its blocks up to there */
    bool last_seen;        /* a block shorter than block_size was: no more can follow */
    bool entered_within;   /* begun at a later block than 0: the entries before it are unknown */
    uint64_t entries_hash; /* of the entries that the index must have for the blocks so far */

    uint64_t plain_position;         /* of the next block in all of the input's plain bytes */
    uint64_t range_begin, range_end; /* of the plain bytes wanted; 0 and UINT64_MAX: all */
    char fault[256];                 /* found by produce, reported when all before it is written */
    bool reported;                   /* something before it failed, and ended it all */
};

/* ---- work ---------------------------------------------------------------------------------------
 */

/* Names the model that JOB's block needs. */
static const char *missing_model(struct job *job)
{
    struct sep_block_info info = {0};
    sep_block_inspect(job->stored + CONTAINER_RECORD, job->record.payload_size, &info);
    snprintf(job->fault_text, sizeof job->fault_text,
             "it needs model %016" PRIx64 ", to be given with --model", info.model_hash);
    return job->fault_text;
}

static void decode(struct job *job, struct sep_context *context)
{
    const struct container_record *const record = &job->record;
    job->status = sep_decode(context, record->codec, job->stored + CONTAINER_RECORD,
                             record->payload_size, job->plain, record->plain_size);
    if (job->status == SEP_ERROR_MODEL_MISSING)
        job->fault = missing_model(job);
    else if (job->status != SEP_OK)
        job->fault = sep_status_text(job->status);
    else if (container_hash(job->plain, record->plain_size) != record->plain_hash)
        job->fault = "its plain bytes do not match their checksum";
}

void decode_strict(struct job *job, struct sep_context *context)
{
    if (container_record_hash(job->stored, job->stored + CONTAINER_RECORD,
                              job->record.payload_size) != job->record.hash)
        job->fault = "its record does not match its checksum";
    else
        decode(job, context);
}

void decode_lenient(struct job *job, struct sep_context *context)
{
    const struct container_record *const want = &job->record;
    struct container_record is;
    if (job->lost_blocks > 0)
        return;
    job->record_damaged =
        container_get_record(job->stored, &is) != CONTAINER_OK || is.id != want->id ||
        is.number != want->number || is.codec != want->codec || is.level != want->level ||
        is.plain_size != want->plain_size || is.payload_size != want->payload_size ||
        is.plain_hash != want->plain_hash ||
        is.hash !=
            container_record_hash(job->stored, job->stored + CONTAINER_RECORD, want->payload_size);
    decode(job, context);
}

/* ---- reading ------------------------------------------------------------------------------------
 */

/* Keeps what is wrong. Returns -EBADMSG. */
static int fault(struct decompressor *d, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static int fault(struct decompressor *d, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    vsnprintf(d->fault, sizeof d->fault, format, list);
    va_end(list);
    return -EBADMSG;
}

/* Positions in messages count from where the input was when it was opened. */
static uint64_t where(const struct decompressor *d)
{
    return d->source.position - d->input->start;
}

/* SIZE bytes of a structure, to be consumed by the caller. 1, 0 at the end of the input, or an
 * error; fewer bytes are one. */
static int look(struct decompressor *d, size_t size, const char *what)
{
    const ssize_t got = source_fill(&d->source, size);
    if (got == -ECANCELED)
        return (int)got;
    if (got < 0) {
        snprintf(d->fault, sizeof d->fault, "cannot read at byte %" PRIu64 ": %s", where(d),
                 strerror((int)-got));
        return (int)got;
    }
    if ((size_t)got >= size)
        return 1;
    if (got == 0 && !d->in_stream)
        return 0;
    const uint64_t end = where(d) + (uint64_t)got;
    if (!d->in_stream)
        return fault(d,
                     d->streams == 0 ? "not a .sep file: it has %" PRIu64 " bytes only"
                                     : "truncated: it ends at byte %" PRIu64
                                       " within the header of another stream",
                     end);
    return fault(d,
                 "truncated: it ends at byte %" PRIu64 ", in %s (byte %" PRIu64 "); %" PRIu64
                 " blocks were complete",
                 end, what, where(d), d->next);
}

static int begin_stream(struct decompressor *d)
{
    const int seen = look(d, CONTAINER_HEADER, "the header");
    if (seen == 0 && d->streams == 0)
        return fault(d, "not a .sep file: it is empty");
    if (seen != 1)
        return seen;
    const enum container_fault bad = container_get_header(source_bytes(&d->source), &d->header);
    if (bad == CONTAINER_OTHER && d->streams == 0)
        return fault(d, "not a .sep file");
    if (bad == CONTAINER_OTHER)
        return fault(d, "bytes from %" PRIu64 " on, after stream %" PRIu64 ", are no .sep stream",
                     where(d), d->streams);
    if (bad != CONTAINER_OK)
        return fault(d, "the header at byte %" PRIu64 " %s", where(d), container_fault_text(bad));
    d->stream_start = d->source.position;
    source_skip(&d->source, CONTAINER_HEADER);
    d->in_stream = true;
    d->streams++;
    d->next = d->plain = 0;
    d->last_seen = d->entered_within = false;
    d->entries_hash = 0;
    return 1;
}

/* The entries of the index, against the blocks that were read. */
static int check_entries(struct decompressor *d, uint32_t blocks, uint64_t *hash)
{
    uint8_t entry[CONTAINER_ENTRY];
    *hash = 0;
    for (uint32_t i = 0; i < blocks; i++) {
        const int seen = look(d, sizeof entry, "the index");
        if (seen != 1)
            return seen;
        memcpy(entry, source_bytes(&d->source), sizeof entry);
        source_skip(&d->source, sizeof entry);
        *hash = container_entries_hash(*hash, entry);
    }
    return 1;
}

/* The index and the footer, against what was read. */
static int end_stream(struct decompressor *d)
{
    struct container_footer footer;
    uint64_t hash;
    uint32_t blocks = 0;
    const uint64_t index = where(d);
    container_get_index(source_bytes(&d->source), &blocks);
    if (d->entered_within ? blocks < d->next : blocks != d->next)
        return fault(d, "the index at byte %" PRIu64 " has %u entries, after %" PRIu64 " blocks",
                     index, blocks, d->next);
    source_skip(&d->source, CONTAINER_INDEX);
    int seen = check_entries(d, blocks, &hash);
    if (seen == 1)
        seen = look(d, CONTAINER_FOOTER, "the footer");
    if (seen != 1)
        return seen;
    const enum container_fault bad = container_get_footer(source_bytes(&d->source), &footer);
    if (bad != CONTAINER_OK)
        return fault(d, "the footer at byte %" PRIu64 " %s", where(d), container_fault_text(bad));
    source_skip(&d->source, CONTAINER_FOOTER);
    if (footer.entries_hash != hash || (!d->entered_within && d->entries_hash != hash))
        return fault(d, "the index at byte %" PRIu64 " does not agree with the blocks", index);
    if (footer.id != d->header.id || footer.block_size != d->header.block_size ||
        footer.blocks != blocks || footer.stream_size != d->source.position - d->stream_start ||
        (!d->entered_within && footer.plain_size != d->plain))
        return fault(d, "the footer that ends at byte %" PRIu64 " does not agree with the stream",
                     where(d));
    d->in_stream = false;
    return 1;
}

/* The header of a record, against the stream. */
static int check_record(struct decompressor *d, struct container_record *record)
{
    const enum container_fault bad = container_get_record(source_bytes(&d->source), record);
    if (bad == CONTAINER_OTHER)
        return fault(d, "block %" PRIu64 ", at byte %" PRIu64 ": neither a record nor the index",
                     d->next, where(d));
    if (bad != CONTAINER_OK)
        return fault(d, "block %" PRIu64 ", at byte %" PRIu64 ": the header of its record %s",
                     d->next, where(d), container_fault_text(bad));
    if (record->id != d->header.id || record->number != d->next)
        return fault(d, "block %" PRIu64 ", at byte %" PRIu64 ": there is block %u of %s stream",
                     d->next, where(d), record->number,
                     record->id != d->header.id ? "another" : "the");
    if (d->last_seen || record->plain_size > d->header.block_size)
        return fault(d, "block %" PRIu64 ", at byte %" PRIu64 ": its size does not fit the stream",
                     d->next, where(d));
    return 1;
}

static int read_record(struct decompressor *d, struct job *job)
{
    struct container_record *const record = &job->record;
    uint8_t entry[CONTAINER_ENTRY];
    const int seen = look(d, CONTAINER_RECORD, "the header of a record");
    const int good = seen == 1 ? check_record(d, record) : seen;
    if (good != 1)
        return good;
    job->position = where(d);
    const size_t size = CONTAINER_RECORD + record->payload_size;
    if (!job_room(job, record->plain_size, size)) {
        snprintf(d->fault, sizeof d->fault, "%s", strerror(ENOMEM));
        return -ENOMEM;
    }
    const ssize_t got = source_read(&d->source, job->stored, size);
    if (got == -ECANCELED)
        return (int)got;
    if (got < 0) {
        snprintf(d->fault, sizeof d->fault, "cannot read at byte %" PRIu64 ": %s", where(d),
                 strerror((int)-got));
        return (int)got;
    }
    if ((size_t)got < size)
        return fault(d,
                     "truncated: it ends at byte %" PRIu64 ", in block %" PRIu64 " (bytes %" PRIu64
                     " to %" PRIu64 ", plain bytes %" PRIu64 " to %" PRIu64 ")",
                     where(d), d->next, job->position, job->position + size - 1, d->plain_position,
                     d->plain_position + record->plain_size - 1);
    const struct container_entry own = container_entry_of(record);
    container_put_entry(entry, &own);
    d->entries_hash = container_entries_hash(d->entries_hash, entry);
    job->plain_position = d->plain_position;
    d->next++;
    d->plain += record->plain_size;
    d->plain_position += record->plain_size;
    d->last_seen = record->plain_size < d->header.block_size;
    return 1;
}

static int produce(void *arg, struct job *job)
{
    struct decompressor *const d = arg;
    while (d->plain_position < d->range_end) {
        int seen;
        if (!d->in_stream) {
            seen = begin_stream(d);
        } else if ((seen = look(d, CONTAINER_INDEX, "the stream")) == 1) {
            if (!container_is_index(source_bytes(&d->source)))
                return read_record(d, job);
            seen = end_stream(d);
        }
        if (seen != 1)
            return seen;
    }
    return 0;
}

/* ---- writing ------------------------------------------------------------------------------------
 */

static int write_block(struct decompressor *d, const struct job *job)
{
    const struct container_record *const record = &job->record;
    const uint64_t begin = job->plain_position, end = begin + record->plain_size;
    if (job->fault != NULL) {
        tool_error(d->tool, d->input->name,
                   "block %u (bytes %" PRIu64 " to %" PRIu64 ", plain bytes %" PRIu64 " to %" PRIu64
                   "): %s",
                   record->number, job->position,
                   job->position + CONTAINER_RECORD + record->payload_size - 1, begin, end - 1,
                   job->fault);
        return job->status == SEP_ERROR_MEMORY ? -ENOMEM : -EBADMSG;
    }
    const uint64_t from = begin > d->range_begin ? begin : d->range_begin;
    const uint64_t to = end < d->range_end ? end : d->range_end;
    const int error =
        from < to ? output_write(d->tool, d->output, job->plain + (from - begin), to - from) : 0;
    if (error == 0)
        tool_progress(d->tool, d->input, where(d), end, where(d));
    return error;
}

static int consume(void *arg, struct job *job)
{
    struct decompressor *const d = arg;
    const int error = write_block(d, job);
    d->reported = error != 0;
    return error;
}

/* ---- ranges -------------------------------------------------------------------------------------
 */

/* Goes to the record of the block where the range begins, by the index. 1; 0: the range is empty. */
static int enter(struct decompressor *d)
{
    struct streams streams;
    const struct tool_options *const options = d->tool->options;
    int result = streams_read(d->tool, d->input, &streams);
    if (result != 0)
        return result;
    if (options->range_end != UINT64_MAX && options->range_end > streams.plain)
        tool_warn(d->tool, d->input->name, "has %" PRIu64 " plain bytes: the range ends at its end",
                  streams.plain);
    d->range_begin = options->range_begin;
    d->range_end = options->range_end < streams.plain ? options->range_end : streams.plain;
    if (d->range_begin >= d->range_end)
        goto out;
    struct place place;
    result = streams_find(d->tool, d->input, &streams, d->range_begin, &place);
    if (result != 0)
        goto out;
    if (lseek(d->input->fd, (off_t)(d->input->start + place.position), SEEK_SET) < 0) {
        result = -errno;
        tool_error(d->tool, d->input->name, "cannot seek: %s", strerror(-result));
        goto out;
    }
    d->source.position = d->input->start + place.position;
    d->stream_start = d->input->start + place.stream->start;
    d->header = (struct container_header){.block_size = place.stream->footer.block_size,
                                          .id = place.stream->footer.id};
    d->in_stream = true;
    d->entered_within = true;
    d->streams = 1 + (uint64_t)(place.stream - streams.list);
    d->next = place.number;
    d->plain_position = place.plain_position;
    result = 1;
out:
    streams_free(&streams);
    return result;
}

int decompress_file(struct tool *tool, const struct input *input, struct output *output,
                    struct outcome *outcome)
{
    struct decompressor d = {
        .tool = tool, .input = input, .output = output, .range_end = UINT64_MAX};
    const struct pool_task task = {.produce = produce,
                                   .work = decode_strict,
                                   .consume = consume,
                                   .arg = &d,
                                   .stop = tool->stop};
    int error = source_open(&d.source, input->fd, WINDOW, input->start, tool->stop);
    if (error != 0) {
        tool_error(tool, input->name, "%s", strerror(-error));
        return error;
    }
    int ready = 1;
    if (tool->options->has_range)
        ready = enter(&d);
    error = ready == 1 ? pool_run(tool->pool, &task) : ready;
    if (error != 0 && error != -ECANCELED && d.fault[0] != '\0' && !d.reported)
        tool_error(tool, input->name, "%s", d.fault);
    outcome->plain = output->position;
    outcome->stored = where(&d);
    source_free(&d.source);
    return error;
}
