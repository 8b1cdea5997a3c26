/* SPDX-License-Identifier: BSD-2-Clause
 *
 * sep_index.c - streams by their footers, blocks by their index. What a footer says is known to fit
 * the limits (container_get_footer) and is held against the file's size before it is followed; an
 * index is read in small pieces and used only when all of it was verified.
 */
#include "sep_index.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* SIZE bytes at POSITION, all of which the file has. */
static int read_at(const struct tool *tool, const struct input *input, void *bytes, size_t size,
                   uint64_t position)
{
    const ssize_t got = io_pread(input->fd, bytes, size, input->start + position, tool->stop);
    if (got < 0)
        return (int)got;
    return (size_t)got == size ? 0 : -EIO; /* the file got shorter meanwhile */
}

/* ---- streams ------------------------------------------------------------------------------------
 */

static int add(struct streams *streams, const struct stream *stream)
{
    if ((streams->count & (streams->count - 1)) == 0) { /* room for a power of two */
        const size_t room = streams->count == 0 ? 1 : 2 * streams->count;
        struct stream *const grown = reallocarray(streams->list, room, sizeof *grown);
        if (grown == NULL)
            return -ENOMEM;
        streams->list = grown;
    }
    streams->list[streams->count++] = *stream;
    return 0;
}

/* The stream that ends at END. 1; 0: there is none, the reason is in streams->fault. */
static int stream_before(const struct tool *tool, const struct input *input, uint64_t end,
                         struct streams *streams, struct stream *stream)
{
    uint8_t foot[CONTAINER_FOOTER], head[CONTAINER_HEADER];
    struct container_header header;
    if (end < CONTAINER_STREAM_MIN) {
        snprintf(streams->fault, sizeof streams->fault,
                 "%" PRIu64 " bytes are too few for a stream", end);
        return 0;
    }
    int error = read_at(tool, input, foot, sizeof foot, end - sizeof foot);
    if (error != 0)
        return error;
    const enum container_fault bad = container_get_footer(foot, &stream->footer);
    if (bad != CONTAINER_OK || stream->footer.stream_size > end) {
        snprintf(streams->fault, sizeof streams->fault,
                 "the footer that should end at byte %" PRIu64 " %s", end,
                 container_fault_text(bad != CONTAINER_OK ? bad : CONTAINER_INVALID));
        return 0;
    }
    stream->start = end - stream->footer.stream_size;
    error = read_at(tool, input, head, sizeof head, stream->start);
    if (error != 0)
        return error;
    stream->header_intact = container_get_header(head, &header) == CONTAINER_OK &&
                            header.id == stream->footer.id &&
                            header.block_size == stream->footer.block_size;
    if (!stream->header_intact)
        snprintf(streams->fault, sizeof streams->fault,
                 "the header at byte %" PRIu64 " does not agree with the footer", stream->start);
    return stream->header_intact || stream->start == 0;
}

int streams_walk(struct tool *tool, const struct input *input, struct streams *streams)
{
    uint64_t end = input->size;
    int result = 1;
    *streams = (struct streams){0};
    while (end > 0 && result == 1) {
        struct stream stream;
        result = stream_before(tool, input, end, streams, &stream);
        if (result == 1) {
            end = stream.start;
            result = add(streams, &stream) == 0 ? 1 : -ENOMEM;
        }
    }
    streams->uncovered = end;
    for (size_t i = 0; i < streams->count / 2; i++) {
        const struct stream other = streams->list[i];
        streams->list[i] = streams->list[streams->count - 1 - i];
        streams->list[streams->count - 1 - i] = other;
    }
    for (size_t i = 0; i < streams->count; i++) {
        streams->list[i].plain_start = streams->plain;
        if (__builtin_add_overflow(streams->plain, streams->list[i].footer.plain_size,
                                   &streams->plain))
            result = -EOVERFLOW;
    }
    if (result < 0) {
        if (result != -ECANCELED)
            tool_error(tool, input->name, "cannot read: %s", strerror(-result));
        streams_free(streams);
        return result;
    }
    return 0;
}

int streams_read(struct tool *tool, const struct input *input, struct streams *streams)
{
    if (!input->regular) {
        tool_error(tool, input->name, "not a regular file: its index cannot be read");
        return -ESPIPE;
    }
    const int error = streams_walk(tool, input, streams);
    if (error != 0)
        return error;
    if (streams->uncovered == 0 && (streams->count > 0 && streams->list[0].header_intact))
        return 0;
    if (input->size == 0)
        tool_error(tool, input->name, "not a .sep file: it is empty");
    else
        tool_error(tool, input->name, "not a .sep file, or damaged or truncated: %s",
                   streams->fault);
    streams_free(streams);
    return -EBADMSG;
}

void streams_free(struct streams *streams)
{
    free(streams->list);
    streams->list = NULL;
    streams->count = 0;
}

/* ---- index --------------------------------------------------------------------------------------
 */

/* Position of the first entry, which stream_size has room for. */
static uint64_t entries_start(const struct stream *stream)
{
    return stream->start + stream->footer.stream_size - CONTAINER_FOOTER -
           (uint64_t)stream->footer.blocks * CONTAINER_ENTRY;
}

void cursor_begin(struct cursor *cursor, const struct tool *tool, const struct input *input,
                  const struct stream *stream)
{
    *cursor = (struct cursor){.tool = tool,
                              .input = input,
                              .stream = stream,
                              .chunk = entries_start(stream),
                              .number = UINT32_MAX,
                              .position = stream->start + CONTAINER_HEADER};
}

int cursor_next(struct cursor *cursor)
{
    const uint32_t blocks = cursor->stream->footer.blocks;
    const uint32_t number = cursor->number + 1; /* from UINT32_MAX: 0 */
    if (number >= blocks)
        return 0;
    if (cursor->used == cursor->filled) {
        const uint64_t left = (uint64_t)(blocks - number) * CONTAINER_ENTRY;
        cursor->filled = left < sizeof cursor->bytes ? (size_t)left : sizeof cursor->bytes;
        cursor->used = 0;
        const int error =
            read_at(cursor->tool, cursor->input, cursor->bytes, cursor->filled, cursor->chunk);
        if (error != 0)
            return error;
        cursor->chunk += cursor->filled;
    }
    if (number > 0)
        cursor->position += CONTAINER_RECORD + cursor->entry.payload_size;
    const uint8_t *const bytes = cursor->bytes + cursor->used;
    cursor->used += CONTAINER_ENTRY;
    cursor->number = number;
    cursor->plain_size = container_block_plain(&cursor->stream->footer, number);
    cursor->hash = container_entries_hash(cursor->hash, bytes);
    return container_get_entry(bytes, cursor->plain_size, &cursor->entry) == CONTAINER_OK
               ? 1
               : -EBADMSG;
}

int index_verify(const struct tool *tool, const struct input *input, const struct stream *stream)
{
    struct cursor cursor;
    uint8_t head[CONTAINER_INDEX];
    uint32_t blocks;
    uint64_t end = stream->start + CONTAINER_HEADER;
    const uint64_t index = entries_start(stream) - CONTAINER_INDEX;
    int result = read_at(tool, input, head, sizeof head, index);
    if (result != 0)
        return result;
    if (container_get_index(head, &blocks) != CONTAINER_OK || blocks != stream->footer.blocks)
        return -EBADMSG;
    cursor_begin(&cursor, tool, input, stream);
    while ((result = cursor_next(&cursor)) == 1)
        end = cursor.position + CONTAINER_RECORD + cursor.entry.payload_size;
    if (result < 0)
        return result;
    return cursor.hash == stream->footer.entries_hash && end == index ? 0 : -EBADMSG;
}

int streams_find(struct tool *tool, const struct input *input, const struct streams *streams,
                 uint64_t offset, struct place *place)
{
    size_t i = 0;
    while (i + 1 < streams->count && streams->list[i + 1].plain_start <= offset)
        i++;
    const struct stream *const stream = &streams->list[i];
    const uint32_t number = (uint32_t)((offset - stream->plain_start) / stream->footer.block_size);
    struct cursor cursor;
    int result = index_verify(tool, input, stream);
    cursor_begin(&cursor, tool, input, stream);
    while (result == 0) {
        result = cursor_next(&cursor);
        if (result == 1 && cursor.number < number)
            result = 0;
        else if (result == 0)
            result = -EBADMSG; /* changed since it was verified */
    }
    if (result == 1) {
        *place = (struct place){.stream = stream,
                                .number = number,
                                .position = cursor.position,
                                .plain_position = stream->plain_start +
                                                  (uint64_t)number * stream->footer.block_size};
        return 0;
    }
    if (result == -EBADMSG)
        tool_error(tool, input->name, "the index of the stream at byte %" PRIu64 " is damaged",
                   stream->start);
    else if (result != -ECANCELED)
        tool_error(tool, input->name, "cannot read: %s", strerror(-result));
    return result;
}
