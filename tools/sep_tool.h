/* SPDX-License-Identifier: BSD-2-Clause
 *
 * sep_tool.h - what the files of the command sep share. sep.c reads the options and walks the
 * operands; sep_file.c opens, names and finishes files; the others do one thing each with an open
 * input and an open output:
 *
 *     sep_compress.c    plain bytes to a stream
 *     sep_decompress.c  streams to plain bytes, front to back; a range of them; test
 *     sep_recover.c     what is intact in damaged streams, by index (sep_index.c) or search
 *                       (sep_scan.c)
 *     sep_list.c        what streams hold, by index
 *
 * They report each failure themselves, once, and return 0 or a negative errno; -ECANCELED: a signal
 * asked to stop, nothing was reported.
 */
#ifndef TOOLS_SEP_TOOL_H
#define TOOLS_SEP_TOOL_H

#include <sys/stat.h>

#include "cli.h"
#include "container.h"
#include "json.h"
#include "sep_io.h"
#include "sep_pool.h"

enum { EXIT_FINE = 0, EXIT_FAILED = 1, EXIT_WARNED = 2 };

enum tool_mode { MODE_COMPRESS, MODE_DECOMPRESS, MODE_TEST, MODE_LIST };

struct tool_options {
    enum tool_mode mode;
    bool keep, force, to_stdout, recover, as_json;
    unsigned quiet;   /* 1: no warnings and no summary of recovery; 2: no errors either */
    unsigned verbose; /* 1: a line for each file */
    unsigned threads; /* 1 .. POOL_THREADS_MAX */
    uint32_t block_size;
    struct sep_method method;
    struct model_files models;
    const char *output; /* NULL: by the input's name */
    bool has_range;
    uint64_t range_begin, range_end; /* plain bytes [begin, end) to decode */
};

struct tool {
    const struct tool_options *options;
    io_stop stop;
    struct pool *pool;
    struct cli_progress progress;
    struct json json;                                            /* of --list --json */
    uint64_t listed, listed_blocks, listed_plain, listed_stored; /* files, and their sums */
    int exit_code;
};

/* Errors make the exit code 1, warnings 2 if it is 0. SUBJECT: a file's name as shown. */
void tool_error(struct tool *tool, const char *subject, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
void tool_warn(struct tool *tool, const char *subject, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* A line on stderr that is neither: the summary of --verbose. */
void tool_note(struct tool *tool, const char *subject, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

struct input {
    int fd;
    const char *path; /* NULL: standard input */
    const char *name; /* as shown in messages */
    struct stat stat;
    uint64_t start; /* offset of fd when it was opened; positions count from here */
    uint64_t size;  /* bytes from start on, when regular; else 0 */
    bool regular;   /* seekable, and its size is known */
};

struct output {
    int fd;
    const char *name;
    char *path;        /* being written, removed unless finished; NULL: not ours to remove */
    char *replaces;    /* the path to rename it to at the end, or NULL */
    bool discard;      /* test: nothing is written */
    bool regular;      /* created by us: holes are possible */
    bool hole_at_end;  /* the size must be set at the end */
    uint64_t position; /* bytes written */
};

/* Reads or writes all; failures are reported with the file's name. */
int output_write(struct tool *tool, struct output *output, const void *bytes, size_t size);
int output_zeros(struct tool *tool, struct output *output, uint64_t size);

/* One operand: opens, works, and keeps or removes files as the mode and the outcome say. PATH NULL:
 * standard input. Returns -ECANCELED or 0. */
int file_process(struct tool *tool, const char *path);

/* What happened to a file, for summaries. */
struct outcome {
    uint64_t plain, stored; /* bytes */
    bool damaged;           /* recover: something was wrong, even if nothing was lost */
};

int compress_file(struct tool *tool, const struct input *input, struct output *output,
                  struct outcome *outcome);
int decompress_file(struct tool *tool, const struct input *input, struct output *output,
                    struct outcome *outcome);
/* Returns 0 also when blocks were lost, which are reported; errors of reading and writing count. */
int recover_file(struct tool *tool, const struct input *input, struct output *output,
                 struct outcome *outcome);
int list_file(struct tool *tool, const struct input *input);
/* Before the first and after the last list_file. */
void list_begin(struct tool *tool);
void list_end(struct tool *tool);

/* The work of decoders (sep_decompress.c): checks the record's hash, decodes, checks the plain
 * bytes' hash. The other accepts a record whose own bytes are damaged if the plain bytes are right.
 * job->fault says what is wrong. */
void decode_strict(struct job *job, struct sep_context *context);
void decode_lenient(struct job *job, struct sep_context *context);

/* The progress line of a file: DONE of its input->size bytes read, PLAIN and STORED bytes so far. */
void tool_progress(struct tool *tool, const struct input *input, uint64_t done, uint64_t plain,
                   uint64_t stored);

#endif
