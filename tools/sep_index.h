/* SPDX-License-Identifier: BSD-2-Clause
 *
 * sep_index.h - the streams of a seekable .sep file and their indexes, found from the end of the
 * file: footer by footer, each of which leads to the start of its stream.
 */
#ifndef TOOLS_SEP_INDEX_H
#define TOOLS_SEP_INDEX_H

#include "sep_tool.h"

struct stream {
    uint64_t start; /* byte of its header in the file */
    uint64_t plain_start;
    struct container_footer footer;
    bool header_intact; /* and it agrees with the footer */
};

struct streams {
    struct stream *list; /* in the order of the file, end to start */
    size_t count;
    uint64_t plain;     /* bytes of all */
    uint64_t uncovered; /* bytes at the start of the file before the first of them */
    char fault[128];    /* why the bytes before `uncovered` are no stream */
};

/* Follows the footers as far as they go; not reaching the start is no error. A stream whose header is
 * damaged counts only at the very start of the file: elsewhere its start may be wrong. */
int streams_walk(struct tool *tool, const struct input *input, struct streams *streams);
/* The same, and reports when the file is not entirely streams with intact headers. */
int streams_read(struct tool *tool, const struct input *input, struct streams *streams);
void streams_free(struct streams *streams);

/* Goes through the entries of a stream's index in order. */
struct cursor {
    const struct tool *tool;
    const struct input *input;
    const struct stream *stream;
    uint64_t chunk;      /* position in the file of the next bytes to read */
    uint8_t bytes[4096]; /* entries read */
    size_t used, filled; /* of bytes */
    uint64_t hash;       /* of the entries so far */
    /* of the entry that cursor_next gave last */
    struct container_entry entry;
    uint32_t number, plain_size;
    uint64_t position; /* of its record in the file */
};

void cursor_begin(struct cursor *cursor, const struct tool *tool, const struct input *input,
                  const struct stream *stream);
/* 1; 0 after the last; -EBADMSG when the entry cannot be right; another negative errno. */
int cursor_next(struct cursor *cursor);

/* Reads the whole index. 0: every entry is right, and their sum is the stream; -EBADMSG: not. */
int index_verify(const struct tool *tool, const struct input *input, const struct stream *stream);

/* The block that holds the plain byte OFFSET < streams->plain. The index that says so is verified. */
struct place {
    const struct stream *stream;
    uint32_t number;
    uint64_t position; /* of its record */
    uint64_t plain_position;
};
int streams_find(struct tool *tool, const struct input *input, const struct streams *streams,
                 uint64_t offset, struct place *place);

#endif
