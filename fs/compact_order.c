/* SPDX-License-Identifier: BSD-2-Clause
 *
 * compact_order.c - the order in which small files are laid together: kind (the extension of the
 * name), then the name of the directory, then the file's name, then directory and inode.
 *
 * Sorting by kind first keeps headers with headers and sources with sources. The directory counts by
 * its name before its identity, so that of several versions of a tree the same file of each lies
 * side by side, while neighbours within one tree stay together. Measured with zstd:15 on blocks of
 * 128 KiB, stored bytes against "directory, kind, name": 2,514 files of a source tree -4 %, two
 * releases of a header library -15 %, 504 files of documentation 0 %. Kind, name, directory costs
 * 4 % on the first and 2 % on the third; kind, directory, name loses the 15 %.
 *
 * An inode does not know its name: each directory concerned is read once.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "compact_share.h"

#define ENTRIES 512u /* of a directory, read in one transaction */

#define COMPARE(a, b)                                                                              \
    do {                                                                                           \
        if ((a) != (b))                                                                            \
            return (a) < (b) ? -1 : 1;                                                             \
    } while (0)

static int by_directory(const void *left, const void *right)
{
    const struct compact_label *a = left;
    const struct compact_label *b = right;

    COMPARE(a->parent, b->parent);
    COMPARE(a->ino, b->ino);
    return 0;
}

static int by_inode(const void *left, const void *right)
{
    const struct compact_label *a = left;
    const struct compact_label *b = right;

    COMPARE(a->ino, b->ino);
    return 0;
}

static const char *text(const char *name)
{
    return name != NULL ? name : "";
}

static const char *kind_of(const char *name)
{
    const char *dot = strrchr(text(name), '.');

    return dot != NULL && dot != name ? dot : "";
}

static int by_place(const void *left, const void *right)
{
    const struct compact_piece *p = left;
    const struct compact_piece *q = right;
    const struct compact_item *a = p->item;
    const struct compact_item *b = q->item;
    int order;

    COMPARE(a->method.codec, b->method.codec);
    COMPARE(a->method.level, b->method.level);
    order = strcmp(kind_of(p->name), kind_of(q->name));
    if (order == 0)
        order = strcmp(text(p->folder), text(q->folder));
    if (order == 0)
        order = strcmp(text(p->name), text(q->name));
    if (order != 0)
        return order;
    COMPARE(a->parent, b->parent);
    COMPARE(a->ino, b->ino);
    COMPARE(a->extent.number, b->extent.number);
    return 0;
}

/* ---- names --------------------------------------------------------------------------------- */

/* Labels of one directory, sorted by inode: those of INO get NAME. Returns how many, or -ENOMEM. */
static int give_name(struct compact_label *labels, unsigned count, uint64_t ino, const char *name)
{
    unsigned low = 0;
    unsigned high = count;
    int given = 0;

    while (low < high) {
        const unsigned middle = low + (high - low) / 2;

        if (labels[middle].ino < ino)
            low = middle + 1;
        else
            high = middle;
    }
    for (; low < count && labels[low].ino == ino; low++) {
        if (labels[low].name != NULL)
            continue; /* a second link */
        labels[low].name = strdup(name);
        if (labels[low].name == NULL)
            return -ENOMEM;
        given++;
    }
    return given;
}

/* Reads the directory until all labels have their name. */
static int read_directory(struct compact_pass *pass, struct compact_label *labels, unsigned count)
{
    const uint64_t dir = labels[0].parent;
    uint64_t cookie = 0;
    unsigned named = 0;
    int error = 0;

    while (error == 0 && named < count) {
        struct index_txn *txn;

        if (*compact_stop_flag(pass))
            return -ECANCELED;
        error = index_begin(pass->fs->index, INDEX_READ, &txn);
        if (error != 0)
            return error;
        for (unsigned i = 0; error == 0 && named < count && i < ENTRIES; i++) {
            struct index_dirent entry;
            int given;

            error = index_dirent_next(txn, dir, cookie, &entry);
            if (error != 0)
                break;
            cookie = entry.cookie + 1;
            given = give_name(labels, count, entry.ino, entry.name);
            if (given < 0)
                error = given;
            else
                named += (unsigned)given;
        }
        index_end(txn);
    }
    return error == -ENOENT ? 0 : error;
}

static int name_labels(struct compact_pass *pass, struct compact_label *labels, unsigned count)
{
    int error = 0;

    qsort(labels, count, sizeof *labels, by_directory);
    for (unsigned i = 0, end; i < count && error == 0; i = end) {
        for (end = i + 1; end < count && labels[end].parent == labels[i].parent;)
            end++;
        error = read_directory(pass, labels + i, end - i);
    }
    return error;
}

static int name_files(struct compact_layout *layout)
{
    struct compact_label *labels = calloc(layout->count, sizeof *labels);
    int error;

    if (labels == NULL)
        return -ENOMEM;
    for (unsigned i = 0; i < layout->count; i++)
        labels[i] = (struct compact_label){.parent = layout->pieces[i].item->parent,
                                           .ino = layout->pieces[i].item->ino,
                                           .piece = &layout->pieces[i]};
    error = name_labels(layout->pass, labels, layout->count);
    for (unsigned i = 0; i < layout->count; i++)
        labels[i].piece->name = labels[i].name;
    free(labels);
    return error;
}

/* Fills in the parents of the folders, a few hundred a transaction. */
static int find_parents(struct compact_layout *layout)
{
    struct index_txn *txn = NULL;
    int error = 0;

    for (unsigned i = 0; i < layout->folder_count && error == 0; i++) {
        struct index_inode inode;

        if (txn == NULL)
            error = index_begin(layout->pass->fs->index, INDEX_READ, &txn);
        if (error != 0)
            return error;
        error = index_inode_get(txn, layout->folders[i].ino, &inode);
        if (error == 0)
            layout->folders[i].parent = inode.parent;
        else if (error == -ENOENT)
            error = 0; /* no directory has number 0: it stays without a name */
        if (i % ENTRIES == ENTRIES - 1) {
            index_end(txn);
            txn = NULL;
        }
    }
    if (txn != NULL)
        index_end(txn);
    return error;
}

static int name_folders(struct compact_layout *layout)
{
    struct compact_label *folders = calloc(layout->count, sizeof *folders);
    unsigned count = 0;
    int error;

    if (folders == NULL)
        return -ENOMEM;
    layout->folders = folders;
    for (unsigned i = 0; i < layout->count; i++)
        folders[i].ino = layout->pieces[i].item->parent;
    qsort(folders, layout->count, sizeof *folders, by_inode);
    for (unsigned i = 0; i < layout->count; i++) {
        if (count == 0 || folders[count - 1].ino != folders[i].ino)
            folders[count++].ino = folders[i].ino;
    }
    layout->folder_count = count;
    error = find_parents(layout);
    if (error == 0)
        error = name_labels(layout->pass, folders, count);
    qsort(folders, count, sizeof *folders, by_inode);
    for (unsigned i = 0; i < layout->count && error == 0; i++) {
        const struct compact_label key = {.ino = layout->pieces[i].item->parent};
        const struct compact_label *found =
            bsearch(&key, folders, count, sizeof *folders, by_inode);

        layout->pieces[i].folder = found != NULL ? found->name : NULL;
    }
    return error;
}

int compact_layout_order(struct compact_layout *layout)
{
    int error;

    if (layout->count == 0)
        return 0;
    error = name_files(layout);
    if (error == 0)
        error = name_folders(layout);
    if (error == 0)
        qsort(layout->pieces, layout->count, sizeof *layout->pieces, by_place);
    return error;
}

void compact_layout_free(struct compact_layout *layout)
{
    for (unsigned i = 0; i < layout->count; i++)
        free(layout->pieces[i].name);
    for (unsigned i = 0; i < layout->folder_count; i++)
        free(layout->folders[i].name);
    free(layout->pieces);
    free(layout->folders);
    *layout = (struct compact_layout){0};
}
