/* SPDX-License-Identifier: BSD-2-Clause
 *
 * options.h - mount options: defaults, parsing, and the text of every refusal. The table of options
 * is data (options.c); the man page and --help are checked against it.
 */
#ifndef FS_OPTIONS_H
#define FS_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "codec/sep.h"

enum fs_compact_mode { FS_COMPACT_AUTO, FS_COMPACT_CPU, FS_COMPACT_OFF };

struct fs_options {
    bool readonly;                /* ro */
    bool allow_other;             /* allow_other */
    uint32_t cold_after;          /* seconds, default 3600 */
    struct sep_method hot;        /* default zstd:3 */
    struct sep_method cold;       /* default sep; codec RAW with cold_off */
    bool cold_off;                /* cold=off: nothing is compacted unless asked for */
    enum fs_compact_mode compact; /* default auto */
    uint64_t cache;               /* bytes of decoded blocks, default 128 MiB */
    uint64_t dirty;               /* bytes of unwritten data, default 64 MiB */
    unsigned threads;             /* codec workers, default: online CPUs */
    unsigned cpu_share; /* percent of all CPUs the compactor may use, default 100 (idle priority) */
    uint32_t block_size;    /* at creation only; 0 = default */
    uint32_t commit;        /* seconds, default 5 */
    uint32_t scrub;         /* seconds in which every block is checked once; 0, the default: off */
    bool writeback;         /* kernel write-back cache */
    bool promote;           /* cold blocks read repeatedly go back to the hot codec */
    bool acl;               /* POSIX ACLs */
    bool nonempty;          /* mount over a directory that has entries */
    bool foreground, debug; /* -f, -d */
    char models[4096];      /* absolute path of the directory of public models, empty: none */
    char fuse[1024];        /* comma-separated options for libfuse and mount(2) */
};

void fs_options_init(struct fs_options *options);

/* Parses one comma-separated -o argument into *options. 0, or -EINVAL with one line in ERROR that
 * names the option and what is accepted. Unknown options that FUSE or mount(8) know go to ->fuse;
 * anything else is refused. */
int fs_options_parse(struct fs_options *options, const char *list, char *error, size_t size);

/* One line for each option of sepfs itself: "  NAME=VALUE    what it does". */
void fs_options_help(FILE *out);

/* "1024", "16K", "1.5G" ... (1024-based). 0 or -EINVAL / -ERANGE. Used by all tools. */
int fs_parse_size(const char *text, uint64_t *bytes);
/* "90", "90s", "5m", "12h", "30d" in seconds. */
int fs_parse_time(const char *text, uint32_t *seconds);

#endif
