/* SPDX-License-Identifier: BSD-2-Clause
 *
 * sep_compress.c - plain bytes to one stream. The entries of the index are kept until the end: 16
 * bytes a block, the only memory that grows with the input.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "sep_tool.h"

struct compressor {
    struct tool *tool;
    const struct input *input;
    struct output *output;
    struct source source;
    uint64_t read; /* plain bytes */
    uint32_t id;
    uint64_t blocks; /* produced */
    bool header_written, ended;
    uint8_t *entries; /* of consumed blocks */
    size_t entries_count, entries_room;
    uint64_t entries_hash;
};

static int produce(void *arg, struct job *job)
{
    struct compressor *const c = arg;
    const struct tool_options *const options = c->tool->options;
    const size_t block_size = options->block_size;
    if (c->ended)
        return 0;
    if (!job_room(job, block_size, CONTAINER_RECORD + sep_bound(block_size))) {
        tool_error(c->tool, c->input->name, "%s", strerror(ENOMEM));
        return -ENOMEM;
    }
    const ssize_t got = source_read(&c->source, job->plain, block_size);
    if (got < 0) {
        if (got != -ECANCELED)
            tool_error(c->tool, c->input->name, "cannot read at byte %llu: %s",
                       (unsigned long long)c->read, strerror((int)-got));
        return (int)got;
    }
    c->ended = (size_t)got < block_size;
    if (got == 0)
        return 0;
    if (c->blocks == CONTAINER_BLOCKS_MAX) {
        tool_error(c->tool, c->input->name, "too large for blocks of %u bytes: use a larger -b",
                   options->block_size);
        return -EFBIG;
    }
    if (c->blocks == 0)
        c->id = container_id(container_hash(job->plain, (size_t)got));
    job->record = (struct container_record){.id = c->id,
                                            .number = (uint32_t)c->blocks++,
                                            .codec = options->method.codec,
                                            .level = options->method.level,
                                            .plain_size = (uint32_t)got};
    c->read += (uint64_t)got;
    return 1;
}

/* Bytes that no codec would shorten are not tried: the sample costs far less than the trial. */
static void encode(struct job *job, struct sep_context *context)
{
    struct container_record *const record = &job->record;
    struct sep_method method = {.codec = record->codec, .level = record->level}, used;
    size_t size;
    if (sep_incompressible(job->plain, record->plain_size))
        method = (struct sep_method){.codec = SEP_CODEC_RAW};
    job->status =
        sep_encode(context, method, job->plain, record->plain_size, job->stored + CONTAINER_RECORD,
                   sep_bound(record->plain_size), &size, &used);
    if (job->status != SEP_OK) {
        job->fault = sep_status_text(job->status);
        return;
    }
    record->codec = used.codec;
    record->level = used.level;
    record->payload_size = (uint32_t)size;
    record->plain_hash = container_hash(job->plain, record->plain_size);
    container_put_record(job->stored, record, job->stored + CONTAINER_RECORD);
}

static int write_header(struct compressor *c)
{
    const struct container_header header = {.block_size = c->tool->options->block_size,
                                            .id = c->id};
    uint8_t bytes[CONTAINER_HEADER];
    if (c->header_written)
        return 0;
    c->header_written = true;
    container_put_header(bytes, &header);
    return output_write(c->tool, c->output, bytes, sizeof bytes);
}

static int entry_keep(struct compressor *c, const struct container_record *record)
{
    const struct container_entry entry = container_entry_of(record);
    if (c->entries_count == c->entries_room) {
        const size_t room = c->entries_room == 0 ? 256 : 2 * c->entries_room;
        uint8_t *const grown = reallocarray(c->entries, room, CONTAINER_ENTRY);
        if (grown == NULL) {
            tool_error(c->tool, c->input->name, "%s", strerror(ENOMEM));
            return -ENOMEM;
        }
        c->entries = grown;
        c->entries_room = room;
    }
    uint8_t *const bytes = c->entries + c->entries_count++ * CONTAINER_ENTRY;
    container_put_entry(bytes, &entry);
    c->entries_hash = container_entries_hash(c->entries_hash, bytes);
    return 0;
}

static int consume(void *arg, struct job *job)
{
    struct compressor *const c = arg;
    if (job->fault != NULL) {
        tool_error(c->tool, c->input->name, "cannot compress block %u: %s", job->record.number,
                   job->fault);
        return job->status == SEP_ERROR_MEMORY ? -ENOMEM : -EIO;
    }
    int error = write_header(c);
    if (error == 0)
        error = entry_keep(c, &job->record);
    if (error == 0)
        error = output_write(c->tool, c->output, job->stored,
                             CONTAINER_RECORD + job->record.payload_size);
    if (error == 0)
        tool_progress(c->tool, c->input, c->read, c->read, c->output->position);
    return error;
}

static int write_end(struct compressor *c)
{
    const size_t entries_size = c->entries_count * CONTAINER_ENTRY;
    uint8_t head[CONTAINER_INDEX], foot[CONTAINER_FOOTER];
    const struct container_footer footer = {
        .id = c->id,
        .block_size = c->tool->options->block_size,
        .blocks = (uint32_t)c->entries_count,
        .plain_size = c->read,
        .stream_size = c->output->position + sizeof head + entries_size + sizeof foot,
        .entries_hash = c->entries_hash,
    };
    container_put_index(head, footer.blocks);
    container_put_footer(foot, &footer);
    int error = output_write(c->tool, c->output, head, sizeof head);
    if (error == 0)
        error = output_write(c->tool, c->output, c->entries, entries_size);
    if (error == 0)
        error = output_write(c->tool, c->output, foot, sizeof foot);
    return error;
}

int compress_file(struct tool *tool, const struct input *input, struct output *output,
                  struct outcome *outcome)
{
    struct compressor c = {.tool = tool, .input = input, .output = output};
    const struct pool_task task = {
        .produce = produce, .work = encode, .consume = consume, .arg = &c, .stop = tool->stop};
    int error = source_open(&c.source, input->fd, 1, input->start, tool->stop);
    if (error != 0) {
        tool_error(tool, input->name, "%s", strerror(-error));
        return error;
    }
    error = pool_run(tool->pool, &task);
    if (error == 0)
        error = write_header(&c); /* of an empty input */
    if (error == 0)
        error = write_end(&c);
    outcome->plain = c.read;
    outcome->stored = output->position;
    free(c.entries);
    source_free(&c.source);
    return error;
}
