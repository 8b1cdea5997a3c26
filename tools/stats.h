/* SPDX-License-Identifier: BSD-2-Clause
 *
 * stats.h - what sepfs-stats measures (stats_collect.c, stats_tree.c) and how it is printed
 * (stats_print.c, stats_prometheus.c). Sizes are bytes. "Plain" is what users wrote, "stored" what
 * lies in packs for it, record headers included.
 */
#ifndef TOOLS_STATS_H
#define TOOLS_STATS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "index/index.h"

/* One way of storing blocks. */
struct stats_method {
    uint8_t codec, level;
    uint64_t model; /* 0 = none */
    uint64_t blocks, plain, stored;
};

struct stats_methods {
    struct stats_method *rows; /* owned; in order of first appearance until sorted */
    size_t count;
};

struct stats_failure { /* a block that compaction could not store */
    uint64_t block;
    uint8_t codec, level;
    char reason[64];
};
#define STATS_FAILURES_MAX 16 /* kept; all are counted */

/* A whole store. */
struct stats_store {
    struct index_space space;
    uint32_t block_size;
    uint64_t files, directories, symlinks, others;
    uint64_t logical;                    /* sizes of regular files */
    uint64_t mapped;                     /* of them covered by extents */
    uint64_t inline_files, inline_bytes; /* content kept in the inode record */
    uint64_t holes;                      /* logical that is neither mapped nor inline */
    uint64_t blocks, plain, stored;      /* each stored block once */
    uint64_t shared_blocks;              /* with more than one reference */
    uint64_t dedup_plain, dedup_stored;  /* what further references would have cost */
    uint64_t dead_plain; /* of stored blocks, covered by no extent (parts overwritten) */
    uint64_t incompressible_blocks;
    uint64_t hot_blocks, hot_plain, hot_stored; /* on the hot list: compaction will look at them */
    uint64_t packs, garbage;                    /* bytes of packs that nothing refers to */
    uint64_t declined, failed;                  /* compaction: did not get smaller, went wrong */
    uint64_t packs_on_disk, index_on_disk;      /* allocated on the host */
    struct stats_methods methods;
    struct index_scrub scrub; /* as the index has it: the daemon may be some seconds ahead */
    struct stats_failure failures[STATS_FAILURES_MAX];
    size_t failure_count;
};

#define STATS_CODECS 5 /* codec numbers 0..3, and any other */

/* A file, or a directory with everything below it; a file with several names counts once. */
struct stats_tree {
    uint64_t files, directories, symlinks, others;
    uint64_t logical, mapped, inline_bytes, holes;
    uint64_t stored; /* share of the blocks that its extents cover, and inline bytes */
    struct {
        uint64_t plain, stored;
    } codecs[STATS_CODECS];
};

/* One key=value of the daemon's answer. */
struct stats_field {
    char *key, *value; /* owned */
};

struct stats_fields {
    struct stats_field *rows; /* owned */
    size_t count;
    bool failed; /* memory ran out */
};

/* What one PATH gave. */
struct stats_result {
    char *path;
    char *store; /* the store it lies on */
    bool mounted, whole;
    struct stats_store total;   /* when whole */
    struct stats_fields daemon; /* when whole and mounted */
    struct stats_tree tree;     /* otherwise */
};

/* Adds one to the counter for inodes of this type. */
void stats_count_type(uint32_t mode, uint64_t *files, uint64_t *directories, uint64_t *symlinks,
                      uint64_t *others);

int stats_collect_store(struct index *index, const volatile bool *stop, struct stats_store *store);

/* Called for each entry below the directory asked for, children before their directory. */
typedef void (*stats_row_fn)(void *arg, const char *path, const struct stats_tree *tree);

/* PATH is used to build the paths given to ROW (may be NULL). -ENOENT when there is no such inode
 * (anymore). */
int stats_collect_tree(struct index *index, uint64_t ino, const char *path,
                       const volatile bool *stop, stats_row_fn row, void *arg,
                       struct stats_tree *tree);

void stats_result_free(struct stats_result *result);

/* Text: a whole store as a page; files and directories as a table, one row each. */
void stats_print_store(const struct stats_result *result);
void stats_print_tree_header(void);
void stats_print_tree(const char *path, const struct stats_tree *tree);

/* JSON: members of the object that is open. */
struct json;
void stats_json_store(struct json *json, const struct stats_result *result);
void stats_json_tree(struct json *json, const struct stats_tree *tree);

/* Text exposition format of all results: each metric once, a sample for each result. */
void stats_print_prometheus(const struct stats_result *results, size_t count);

#endif
