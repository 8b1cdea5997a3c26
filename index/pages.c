/* SPDX-License-Identifier: BSD-2-Clause
 *
 * pages.c - headers, pages and nodes of LMDB's data file: the layout in pages.h, every field held to
 * what LMDB could have written.
 *
 * LMDB has no checksums, so a header is believed for what it cannot help showing: the two commits
 * follow each other and lie on the pages of their parity, and each tree's state record names the
 * commit that put it (pages_walk.c).
 */
#include "pages.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bytes.h"

#define MAGIC       0xbeefc0deu
#define VERSION     1u
#define PAGE_MIN    4096u
#define PAGE_MAX    32768u
#define PAGE_HEAD   16u /* bytes before a page's node offsets */
#define NODE_HEAD   8u  /* bytes before a node's key */
#define FLAG_META   8u
#define FREE_FLAGS  8u      /* the free list's keys are integers */
#define FILE_FLAG   0x4000u /* made as a file, not in a directory: says nothing of the pages */
#define NODE_BIG    1u      /* data lies in an overflow run */
#define NODE_TREE   2u      /* data is the record of a tree */
#define META_FREE   40u
#define META_MAIN   (META_FREE + INDEX_TREE_SIZE)
#define META_LAST   (META_MAIN + INDEX_TREE_SIZE)
#define META_COMMIT (META_LAST + 8)
#define META_END    (META_COMMIT + 8)

#define FILE_MAX  (UINT64_C(1) << 44) /* bytes; 16 times the map: bounds the memory of a walk */
#define WHOLE_MAX (UINT64_C(4) << 20) /* bytes up to which a file is read at once */
#define RETRIES   100u                /* of reading headers that a writer is changing */

static int problem(struct index_pages *pages, int error, uint64_t page, const char *text)
{
    snprintf(pages->problem, sizeof pages->problem, "page %ju: %s", (uintmax_t)page, text);
    return error;
}

/* ---- headers ------------------------------------------------------------------------------- */

void index_tree_get(const uint8_t bytes[INDEX_TREE_SIZE], struct index_tree *tree)
{
    *tree = (struct index_tree){
        .pad = index_load_u32(bytes),
        .flags = index_load_u16(bytes + 4),
        .depth = index_load_u16(bytes + 6),
        .branch_pages = index_load_u64(bytes + 8),
        .leaf_pages = index_load_u64(bytes + 16),
        .overflow_pages = index_load_u64(bytes + 24),
        .entries = index_load_u64(bytes + 32),
        .root = index_load_u64(bytes + 40),
    };
}

static const char *header_problem(struct index_pages *pages, const uint8_t *bytes, uint64_t number,
                                  struct index_page_header *header)
{
    index_tree_get(bytes + META_FREE, &header->free);
    index_tree_get(bytes + META_MAIN, &header->main);
    header->last_page = index_load_u64(bytes + META_LAST);
    header->commit = index_load_u64(bytes + META_COMMIT);
    const uint32_t size = header->free.pad;
    if (index_load_u64(bytes) != number || index_load_u16(bytes + 10) != FLAG_META)
        return "is no header";
    if (index_load_u32(bytes + 16) != MAGIC || index_load_u32(bytes + 20) != VERSION)
        return "is a header of another format";
    if (size < PAGE_MIN || size > PAGE_MAX || (size & (size - 1)) != 0 ||
        (pages->page_size != 0 && pages->page_size != size))
        return "the page size in the header is damaged";
    if ((header->free.flags & ~FILE_FLAG) != FREE_FLAGS || header->main.flags != 0 ||
        header->main.pad != 0 || index_load_u64(bytes + 24) != 0)
        return "flags in the header are damaged";
    if (header->last_page < 1 || header->last_page >= FILE_MAX / size)
        return "the last page in the header is damaged";
    if ((header->commit & 1) != number && header->commit != 0)
        return "the commit in the header is damaged";
    return NULL;
}

static int read_header(struct index_pages *pages, uint64_t number)
{
    uint8_t bytes[META_END];
    struct index_page_header *const header = &pages->header[number];
    const ssize_t got = index_io_read(pages->io, pages->fd, bytes, sizeof bytes,
                                      number * (number == 0 ? 0 : pages->page_size));
    if (got < 0)
        return problem(pages, got == -EIO ? -EIO : (int)got, number, "cannot be read");
    if (got != (ssize_t)sizeof bytes)
        return problem(pages, -EUCLEAN, number, "the file is cut short");
    const char *const text = header_problem(pages, bytes, number, header);
    header->sane = text == NULL;
    return text == NULL ? 0 : problem(pages, -EUCLEAN, number, text);
}

/* Where the second header lies follows from the first; when that is damaged, it is looked for. */
static int read_headers(struct index_pages *pages)
{
    struct index_page_header *const header = pages->header;
    pages->page_size = 0;
    const int first = read_header(pages, 0);
    pages->page_size = header[0].sane ? header[0].free.pad : PAGE_MIN;
    int second = read_header(pages, 1);
    while (first == -EUCLEAN && second == -EUCLEAN && pages->page_size < PAGE_MAX) {
        pages->page_size *= 2;
        second = read_header(pages, 1);
    }
    return first != 0 ? read_header(pages, 0) : second; /* again, for its problem */
}

static int check_headers(struct index_pages *pages)
{
    const struct index_page_header *const header = pages->header;
    const uint64_t a = header[0].commit, b = header[1].commit;
    const unsigned later = b > a;
    if (a - b != 1 && b - a != 1 && !(a == 0 && b == 0))
        return problem(pages, -EUCLEAN, later, "the commits in the headers do not follow");
    if (header[later].commit == 0)
        return problem(pages, -EUCLEAN, later, "nothing was ever committed");
    if (header[later].last_page >= pages->file_size / pages->page_size)
        return problem(pages, -EUCLEAN, pages->file_size / pages->page_size,
                       "the file is cut short");
    return 0;
}

/* A small file costs one call. */
static int read_whole(struct index_pages *pages)
{
    uint64_t last = 0;
    for (unsigned i = 0; i < 2; i++) {
        if (pages->header[i].sane && pages->header[i].last_page > last)
            last = pages->header[i].last_page;
    }
    uint64_t size = (last + 1) * pages->page_size;
    size = size < pages->file_size ? size : pages->file_size;
    if (last == 0 || size > WHOLE_MAX)
        return 0;
    pages->whole = malloc(size);
    if (pages->whole == NULL)
        return -ENOMEM;
    const ssize_t got = index_io_read(pages->io, pages->fd, pages->whole, size, 0);
    if (got < 0) { /* then page by page: the one that cannot be read is named */
        free(pages->whole);
        pages->whole = NULL;
        return 0;
    }
    pages->whole_size = (uint64_t)got;
    return 0;
}

int index_pages_open(struct index_pages *pages, const struct index_io *io, int fd)
{
    struct stat status;
    *pages = (struct index_pages){.io = io, .fd = fd};
    int error = read_headers(pages);
    for (unsigned i = 0; i < RETRIES; i++) {
        const uint64_t commits[2] = {pages->header[0].commit, pages->header[1].commit};
        if (io->fstat(fd, &status) < 0)
            return problem(pages, -EIO, 0, "cannot be examined");
        pages->file_size = (uint64_t)status.st_size;
        if (error == 0)
            error = check_headers(pages);
        if (error != -EUCLEAN)
            break;
        /* A writer beside us may have committed between the two reads. */
        error = read_headers(pages);
        if (commits[0] == pages->header[0].commit && commits[1] == pages->header[1].commit) {
            error = error == 0 ? check_headers(pages) : error;
            break;
        }
    }
    const int whole = read_whole(pages);
    return error != 0 ? error : whole;
}

void index_pages_close(struct index_pages *pages)
{
    free(pages->whole);
    for (unsigned i = 0; i <= INDEX_PAGE_LEVELS; i++)
        free(pages->level[i]);
    *pages = (struct index_pages){.fd = -1};
}

/* ---- pages --------------------------------------------------------------------------------- */

const uint8_t *index_page_at(struct index_pages *pages, uint64_t number, unsigned level)
{
    const uint64_t size = pages->page_size, at = number * size;
    if (number >= FILE_MAX / size || level > INDEX_PAGE_LEVELS)
        return NULL;
    if (pages->whole != NULL)
        return at + size <= pages->whole_size ? pages->whole + at : NULL;
    if (pages->level[level] == NULL)
        pages->level[level] = malloc(size);
    if (pages->level[level] == NULL) {
        pages->unread = -ENOMEM;
        return NULL;
    }
    const ssize_t got = index_io_read(pages->io, pages->fd, pages->level[level], size, at);
    if (got < 0)
        pages->unread = (int)got;
    return got == (ssize_t)size ? pages->level[level] : NULL;
}

const char *index_page_header(const struct index_pages *pages, const uint8_t *page, uint64_t number,
                              enum index_page_kind kind, unsigned *count)
{
    const unsigned lower = index_load_u16(page + 12), upper = index_load_u16(page + 14);
    if (index_load_u64(page) != number)
        return "bears another number";
    if (index_load_u16(page + 10) != (uint16_t)kind)
        return kind == INDEX_PAGE_LEAF ? "is no leaf page" : "is no branch page";
    if (lower < PAGE_HEAD || (lower & 1) != 0 || lower > upper || upper > pages->page_size)
        return "its bounds are damaged";
    *count = (lower - PAGE_HEAD) / 2;
    return *count == 0 ? "is empty" : NULL;
}

const char *index_page_overflow(const struct index_pages *pages, const uint8_t *page,
                                uint64_t number, uint64_t size, uint64_t *run)
{
    *run = index_load_u32(page + 12);
    if (index_load_u64(page) != number)
        return "bears another number";
    if (index_load_u16(page + 10) != INDEX_PAGE_OVERFLOW)
        return "is no overflow page";
    if (*run == 0 || size > *run * pages->page_size - PAGE_HEAD)
        return "the length of its run is damaged";
    return NULL;
}

/* The largest node that LMDB keeps in a page: two fit. */
static size_t node_max(uint32_t page_size)
{
    return (((page_size - PAGE_HEAD) / 2) & ~(size_t)1) - 2;
}

size_t index_page_node_size(enum index_page_kind kind, const struct index_node *node)
{
    size_t size = NODE_HEAD + node->key.mv_size;
    if (kind == INDEX_PAGE_LEAF)
        size += node->child != 0 ? 8 : (size_t)node->data_size;
    return (size + 1) & ~(size_t)1;
}

const char *index_page_node(const struct index_pages *pages, const uint8_t *page,
                            enum index_page_kind kind, unsigned i, struct index_node *node)
{
    const unsigned upper = index_load_u16(page + 14);
    const unsigned at = index_load_u16(page + PAGE_HEAD + 2 * i);
    if (at < upper || (at & 1) != 0 || at > pages->page_size - NODE_HEAD)
        return "the place of a node is damaged";
    const uint8_t *const bytes = page + at;
    const size_t room = pages->page_size - at;
    const uint64_t low = index_load_u32(bytes);
    const unsigned flags = index_load_u16(bytes + 4);
    *node = (struct index_node){.key = {.mv_size = index_load_u16(bytes + 6),
                                        .mv_data = (void *)(uintptr_t)(bytes + NODE_HEAD)}};
    if (node->key.mv_size > INDEX_PAGE_KEY_MAX || node->key.mv_size > room - NODE_HEAD)
        return "the key of a node is damaged";
    if (kind == INDEX_PAGE_BRANCH) {
        node->child = low | (uint64_t)flags << 32;
        return node->child < 2 ? "the child of a node is damaged" : NULL;
    }
    const uint8_t *const data = bytes + NODE_HEAD + node->key.mv_size;
    node->data_size = low;
    node->table = flags == NODE_TREE;
    if (flags == NODE_BIG) {
        if (room < NODE_HEAD + node->key.mv_size + 8)
            return "a node reaches beyond the page";
        node->child = index_load_u64(data);
        return node->child < 2 ? "the overflow page of a node is damaged" : NULL;
    }
    if (flags != 0 && flags != NODE_TREE)
        return "the flags of a node are damaged";
    node->data = data;
    if (low > room - NODE_HEAD - node->key.mv_size)
        return "a node reaches beyond the page";
    if (index_page_node_size(kind, node) > node_max(pages->page_size))
        return "a node is larger than any";
    if (node->key.mv_size == 0)
        return "a node has no key";
    return NULL;
}
