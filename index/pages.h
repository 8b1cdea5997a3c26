/* SPDX-License-Identifier: BSD-2-Clause
 *
 * pages.h - LMDB's data file, read without LMDB: its pages are checked before LMDB, which believes
 * whatever they say, is let near them, and what is intact in a damaged file is taken out of it.
 *
 * The layout is that of LMDB 0.9 (data version 1) on 64-bit little-endian hosts, with pages of 4 to
 * 32 KiB: what mdb.c of 0.9.22 to 0.9.33 writes. Another layout has another version in its headers
 * and is refused.
 *
 *   page      u64 number, u16 pad, u16 flags, u16 lower and u16 upper (or u32 pages of an overflow
 *             run), then node offsets (u16 each) up to lower, and nodes from upper on
 *   node      u16 low, u16 high, u16 flags, u16 key bytes, key, data. In a branch: low, high and
 *             flags are the child's number. In a leaf: low and high are the bytes of data, which
 *             follow, or lie in a run of overflow pages whose number follows
 *   header    pages 0 and 1: magic, version, address, map size, the trees of the free list and of
 *             the tables, last page, commit. The one with the later commit counts; the other is the
 *             commit before, whose pages are all still there
 *   free list commit -> count, and so many page numbers, descending
 */
#ifndef INDEX_PAGES_H
#define INDEX_PAGES_H

#include "io.h"
#include "record.h"

#define INDEX_PAGE_KEY_MAX 511u /* bytes: LMDB's limit */
#define INDEX_PAGE_LEVELS  32u  /* LMDB's limit of a tree's depth */

struct index_tree { /* LMDB's record of a tree */
    uint32_t pad;
    uint16_t flags, depth;
    uint64_t branch_pages, leaf_pages, overflow_pages, entries, root;
};

struct index_page_header {
    bool sane; /* every field is one that LMDB could have written for this store */
    uint64_t commit, last_page;
    struct index_tree free, main;
};

struct index_pages {
    const struct index_io *io;
    int fd; /* the caller's */
    uint32_t page_size;
    uint64_t file_size;
    struct index_page_header header[2];
    uint8_t *whole; /* a small file, read at once */
    uint64_t whole_size;
    uint8_t *level[INDEX_PAGE_LEVELS + 1]; /* otherwise: a page each, of the way down a tree */
    int unread;        /* 0, or the negative errno of a page that could not be read */
    char problem[192]; /* after -EUCLEAN or -EIO: "page 12: what is wrong with it" */
};

/* Reads and checks both headers and the length of the file. -EUCLEAN and -EIO leave a problem; the
 * headers that are sane may still be used by index_pages_salvage. Close in any case. */
int index_pages_open(struct index_pages *pages, const struct index_io *io, int fd);
void index_pages_close(struct index_pages *pages);

/* Walks every tree and the free list as of COMMIT (0: the later one). -ESTALE: neither header is of
 * this commit any more. The pages must not change: nobody writes, or an LMDB reader pins COMMIT. */
int index_pages_check(struct index_pages *pages, uint64_t commit);

/* What a damaged file still holds. Functions return 0 or an error that ends the walk. */
struct index_pages_visit {
    void *arg;
    /* A record whose seal matches; value with its seal. Ascending keys within a table. */
    int (*record)(void *arg, enum index_db db, const MDB_val *key, const MDB_val *value);
    /* Records of the table between two keys, exclusive, are lost. LOW->mv_size 0: from the first
     * on; HIGH->mv_size 0: to the last. */
    int (*gap)(void *arg, enum index_db db, const MDB_val *low, const MDB_val *high);
    void (*damage)(void *arg, const char *text); /* what is wrong with a page or record */
};
/* *later: the other header is damaged, so a later commit than this may have been lost. -EUCLEAN: both
 * headers are damaged. */
int index_pages_salvage(struct index_pages *pages, const struct index_pages_visit *visit,
                        bool *later);

/* ---- for pages_walk.c: pages and nodes ---- */

enum index_page_kind { INDEX_PAGE_BRANCH = 1, INDEX_PAGE_LEAF = 2, INDEX_PAGE_OVERFLOW = 4 };

struct index_node {
    MDB_val key;
    uint64_t child; /* branch: page. Leaf: first page of an overflow run, 0 when data is here */
    uint64_t data_size;
    const uint8_t *data;
    bool table; /* data is the record of a tree */
};

/* Page NUMBER, good until the next page of this LEVEL. NULL: cannot be read. */
const uint8_t *index_page_at(struct index_pages *pages, uint64_t number, unsigned level);
/* What is wrong with the header of a branch or leaf page, or NULL; *count: its nodes. */
const char *index_page_header(const struct index_pages *pages, const uint8_t *page, uint64_t number,
                              enum index_page_kind kind, unsigned *count);
/* The same for the first page of a run that is to hold SIZE bytes; *run: its pages. */
const char *index_page_overflow(const struct index_pages *pages, const uint8_t *page,
                                uint64_t number, uint64_t size, uint64_t *run);
/* Reads node I of a page whose header is good; what is wrong with it, or NULL. */
const char *index_page_node(const struct index_pages *pages, const uint8_t *page,
                            enum index_page_kind kind, unsigned i, struct index_node *node);
/* Bytes that the node takes in its page. */
size_t index_page_node_size(enum index_page_kind kind, const struct index_node *node);
void index_tree_get(const uint8_t bytes[48], struct index_tree *tree);
#define INDEX_TREE_SIZE 48u

#endif
