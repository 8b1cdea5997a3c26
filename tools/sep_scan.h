/* SPDX-License-Identifier: BSD-2-Clause
 *
 * sep_scan.h - finds the intact records of a damaged .sep file by reading it once, front to back: a
 * pipe, or a part of a file whose footer or index is lost.
 */
#ifndef TOOLS_SEP_SCAN_H
#define TOOLS_SEP_SCAN_H

#include "sep_tool.h"

struct scan {
    struct tool *tool;
    const struct input *input;
    struct source source;

    bool in_stream;
    bool id_known;         /* of the stream: its header or a record of it was seen */
    uint32_t id;           /* if id_known */
    bool sized;            /* block_size is that of its header; else the largest record's so far */
    uint32_t block_size;   /* 0: not known yet */
    uint64_t start;        /* of its header, if sized */
    bool incomplete;       /* blocks of it are lost, or do not fit; if not: */
    uint64_t plain;        /* bytes of its blocks so far */
    uint64_t records_hash; /* of the entries that its index must have for them */
    uint64_t next;         /* number of the block expected */
    bool has_index;        /* the head of the index was seen: */
    uint32_t blocks;       /* what it says */
    uint64_t entries_hash; /* of its entries */
    bool has_broken;       /* a record with an intact header and a damaged payload was seen: */
    struct container_record broken;

    uint64_t streams; /* entered */
    bool damaged;     /* something was not as it should be */
    bool open_ended;  /* a stream had no end: how many blocks are lost after its last is unknown */
};

/* Scans bytes [begin, end) of INPUT, which is seekable unless BEGIN is where it is; END UINT64_MAX:
 * to its end. Reports on failure. Free with scan_end in any case. */
int scan_begin(struct scan *scan, struct tool *tool, const struct input *input, uint64_t begin,
               uint64_t end);
void scan_end(struct scan *scan);

/* The next record, for decode_lenient, or the next run of lost blocks. 1; 0: no more. Damaged ranges
 * of bytes are reported as warnings, errors as such. */
int scan_next(struct scan *scan, struct job *job);

#endif
