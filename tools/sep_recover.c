/* SPDX-License-Identifier: BSD-2-Clause
 *
 * sep_recover.c - writes every block of a damaged .sep file whose plain bytes are still right, zeros
 * of the same length for the others, and says which those are.
 *
 * In a seekable file the footers lead to the streams. A stream with an intact index needs nothing
 * else: the index says where each block lies and what it must decode to, so that damage to a header,
 * a record's header or a checksum costs nothing. Everything else is scanned (sep_scan.c). What counts
 * in the end is the hash of the plain bytes: nothing is written that does not match one.
 */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "sep_index.h"
#include "sep_scan.h"
#include "sep_tool.h"

/* Consecutive lost blocks, not yet reported. */
struct run {
    uint64_t blocks, bytes;
    uint32_t first;
    bool missing;      /* not found at all: */
    uint64_t position; /* of the first, or of what was found after them */
    uint64_t plain_position;
    const char *fault;
};

struct recovery {
    struct tool *tool;
    const struct input *input;
    struct output *output;
    struct streams streams;
    /* the part that is read: before the first stream found, then each stream */
    size_t part; /* 0: what is before, i: streams.list[i - 1] */
    bool scanning, indexed;
    struct scan scan;
    struct cursor cursor;

    struct run run;
    uint64_t good_blocks, lost_blocks, lost_bytes, mended_blocks;
    uint64_t streams_found;
    bool damaged, open_ended;
};

/* ---- reading ------------------------------------------------------------------------------------
 */

static int read_indexed(struct recovery *r, struct job *job)
{
    const int next = cursor_next(&r->cursor);
    if (next != 1)
        return next;
    const struct container_entry *const entry = &r->cursor.entry;
    const size_t size = CONTAINER_RECORD + entry->payload_size;
    if (!job_room(job, r->cursor.plain_size, size))
        return -ENOMEM;
    job->record = (struct container_record){.id = r->cursor.stream->footer.id,
                                            .number = r->cursor.number,
                                            .codec = entry->codec,
                                            .level = entry->level,
                                            .plain_size = r->cursor.plain_size,
                                            .payload_size = entry->payload_size,
                                            .plain_hash = entry->plain_hash};
    job->position = r->cursor.position;
    const ssize_t got =
        io_pread(r->input->fd, job->stored, size, r->input->start + job->position, r->tool->stop);
    return got < 0 ? (int)got : (size_t)got == size ? 1 : -EIO;
}

static int begin_scan(struct recovery *r, uint64_t begin, uint64_t end)
{
    r->scanning = true;
    return scan_begin(&r->scan, r->tool, r->input, begin, end);
}

static void end_scan(struct recovery *r)
{
    if (!r->scanning)
        return;
    r->damaged |= r->scan.damaged;
    r->open_ended |= r->scan.open_ended;
    r->streams_found += r->scan.streams;
    scan_end(&r->scan);
    r->scanning = false;
}

/* Begins part r->part. 1; 0: there are no more. */
static int begin_part(struct recovery *r)
{
    if (r->part > r->streams.count)
        return 0;
    if (r->part == 0) {
        const int error = !r->input->regular         ? begin_scan(r, 0, UINT64_MAX)
                          : r->streams.uncovered > 0 ? begin_scan(r, 0, r->streams.uncovered)
                                                     : 0;
        return error == 0 ? 1 : error;
    }
    const struct stream *const stream = &r->streams.list[r->part - 1];
    int error = index_verify(r->tool, r->input, stream);
    if (error == 0) {
        r->indexed = true;
        r->streams_found++;
        cursor_begin(&r->cursor, r->tool, r->input, stream);
        if (!stream->header_intact) {
            r->damaged = true;
            tool_warn(r->tool, r->input->name, "the header of the stream is damaged");
        }
    } else if (error == -EBADMSG) {
        r->damaged = true;
        tool_warn(r->tool, r->input->name,
                  "the index of the stream at byte %" PRIu64 " is damaged: searching its blocks",
                  stream->start);
        error = begin_scan(r, stream->start, stream->start + stream->footer.stream_size);
    }
    return error == 0 ? 1 : error;
}

static int produce(void *arg, struct job *job)
{
    struct recovery *const r = arg;
    for (;;) {
        int result = r->scanning ? scan_next(&r->scan, job) : r->indexed ? read_indexed(r, job) : 0;
        if (result < 0 && r->indexed && result != -ECANCELED)
            tool_error(r->tool, r->input->name, "cannot read: %s", strerror(-result));
        if (result != 0)
            return result;
        end_scan(r);
        r->indexed = false;
        result = begin_part(r);
        r->part++;
        if (result != 1)
            return result;
    }
}

/* ---- writing ------------------------------------------------------------------------------------
 */

static void report_run(struct recovery *r)
{
    const struct run *const run = &r->run;
    const char *const side = run->missing ? "before" : "at";
    const uint64_t last = run->first + run->blocks - 1;
    if (run->blocks == 0)
        return;
    if (run->blocks == 1)
        tool_error(r->tool, r->input->name,
                   "block %u, %s byte %" PRIu64 ", is lost (plain bytes %" PRIu64 " to %" PRIu64
                   "): %s",
                   run->first, side, run->position, run->plain_position,
                   run->plain_position + run->bytes - 1, run->fault);
    else
        tool_error(r->tool, r->input->name,
                   "blocks %u to %" PRIu64 ", %s byte %" PRIu64 ", are lost (plain bytes %" PRIu64
                   " to %" PRIu64 "): %s",
                   run->first, last, side, run->position, run->plain_position,
                   run->plain_position + run->bytes - 1, run->fault);
    r->run.blocks = 0;
}

static int lost(struct recovery *r, const struct job *job)
{
    struct run *const run = &r->run;
    const uint64_t blocks = job->lost_blocks > 0 ? job->lost_blocks : 1;
    const uint64_t bytes = job->lost_blocks > 0 ? job->lost_bytes : job->record.plain_size;
    if (run->blocks > 0 &&
        (run->first + run->blocks != job->record.number || strcmp(run->fault, job->fault) != 0))
        report_run(r);
    if (run->blocks == 0)
        *run = (struct run){.first = job->record.number,
                            .missing = job->lost_blocks > 0,
                            .position = job->position,
                            .plain_position = r->output->position,
                            .fault = job->fault};
    run->blocks += blocks;
    run->bytes += bytes;
    r->lost_blocks += blocks;
    r->lost_bytes += bytes;
    return output_zeros(r->tool, r->output, bytes);
}

static int consume(void *arg, struct job *job)
{
    struct recovery *const r = arg;
    int error;
    if (job->status == SEP_ERROR_MEMORY) {
        tool_error(r->tool, r->input->name, "block %u: %s", job->record.number, job->fault);
        return -ENOMEM;
    }
    if (job->fault != NULL) {
        error = lost(r, job);
    } else {
        report_run(r);
        r->good_blocks++;
        r->mended_blocks += job->record_damaged;
        error = output_write(r->tool, r->output, job->plain, job->record.plain_size);
    }
    if (error == 0)
        tool_progress(r->tool, r->input, job->position, r->output->position, job->position);
    return error;
}

/* ---- the outcome --------------------------------------------------------------------------------
 */

/* 0; -EBADMSG: there is nothing worth keeping. */
static int conclude(struct recovery *r)
{
    report_run(r);
    if (r->mended_blocks > 0) {
        r->damaged = true;
        tool_warn(r->tool, r->input->name,
                  "%" PRIu64 " damaged records lost nothing: their plain bytes are right",
                  r->mended_blocks);
    }
    if (r->open_ended)
        tool_error(r->tool, r->input->name,
                   "a stream has no end: blocks after its last one are lost, if there were any");
    r->damaged |= r->lost_blocks > 0 || r->open_ended;
    if (r->good_blocks == 0 && (r->damaged || r->streams_found == 0)) {
        tool_error(r->tool, r->input->name, "no intact block was found");
        return -EBADMSG;
    }
    if (r->lost_blocks > 0)
        tool_error(r->tool, r->input->name,
                   "recovered %" PRIu64 " of %" PRIu64 " blocks, %" PRIu64 " of %" PRIu64
                   " plain bytes; the others are zeros",
                   r->good_blocks, r->good_blocks + r->lost_blocks,
                   r->output->position - r->lost_bytes, r->output->position);
    else if (r->damaged)
        tool_warn(r->tool, r->input->name,
                  "recovered all %" PRIu64 " blocks that were found, %" PRIu64 " plain bytes",
                  r->good_blocks, r->output->position);
    return 0;
}

int recover_file(struct tool *tool, const struct input *input, struct output *output,
                 struct outcome *outcome)
{
    struct recovery r = {.tool = tool, .input = input, .output = output};
    const struct pool_task task = {.produce = produce,
                                   .work = decode_lenient,
                                   .consume = consume,
                                   .arg = &r,
                                   .stop = tool->stop};
    int error = input->regular ? streams_walk(tool, input, &r.streams) : 0;
    if (error == 0)
        error = pool_run(tool->pool, &task);
    end_scan(&r);
    if (error == 0)
        error = conclude(&r);
    streams_free(&r.streams);
    outcome->plain = output->position;
    outcome->stored = input->size;
    outcome->damaged = r.damaged;
    return error;
}
