/* SPDX-License-Identifier: BSD-2-Clause
 *
 * virtual.c - user.sepfs.stored, ratio, codecs, cold.
 *
 * The last two walk the file's extents, BATCH of them in a transaction, so that a terabyte file
 * holds nobody up. A file that changes meanwhile gives an answer between its states.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "inode.h"
#include "virtual.h"

#define BATCH   256u /* extents of one transaction: about 0.3 ms */
#define METHODS 48u  /* different methods told apart; codecs have some 40 levels in all */

struct census {
    struct {
        struct sep_method method;
        uint64_t blocks;
    } method[METHODS];
    unsigned methods;
    uint64_t plain, cold; /* bytes of extents; of them in blocks that the hot list does not name */
};

static void count_method(struct census *census, struct sep_method method)
{
    unsigned i = 0;

    while (i < census->methods && (census->method[i].method.codec != method.codec ||
                                   census->method[i].method.level != method.level))
        i++;
    if (i == METHODS)
        return;
    if (i == census->methods) {
        census->methods++;
        census->method[i].method = method;
        census->method[i].blocks = 0;
    }
    census->method[i].blocks++;
}

static int count_extent(struct index_txn *txn, const struct index_extent *extent,
                        struct census *census)
{
    struct index_block block;
    struct index_hot hot;
    int error = index_block_get(txn, extent->block, &block);

    if (error != 0)
        return error;
    count_method(census, (struct sep_method){block.codec, block.level});
    census->plain += extent->length;
    error = index_hot_next(txn, extent->block, &hot);
    if (error == -ENOENT || (error == 0 && hot.block != extent->block))
        census->cold += extent->length;
    return error == -ENOENT ? 0 : error;
}

static int count_blocks(struct fs *fs, uint64_t ino, struct census *census)
{
    uint64_t from = 0;
    int error = 0;

    while (error == 0) {
        struct index_extent extent;
        struct index_txn *txn;

        error = index_begin(fs->index, INDEX_READ, &txn);
        if (error != 0)
            return error;
        for (unsigned i = 0; i < BATCH && error == 0; i++) {
            error = index_extent_next(txn, ino, from, &extent);
            if (error == 0) {
                from = extent.number + 1;
                error = count_extent(txn, &extent, census);
            }
        }
        index_end(txn);
    }
    return error == -ENOENT ? 0 : error;
}

static int get_attr(struct fs *fs, uint64_t ino, struct index_inode *attr)
{
    struct index_txn *txn;
    int error = index_begin(fs->index, INDEX_READ, &txn);

    if (error == 0) {
        error = fs_attr_get(fs, txn, ino, attr);
        index_end(txn);
    }
    attr->inline_data = NULL;
    if (error == 0 && !S_ISREG(attr->mode))
        error = -ENODATA;
    return error;
}

/* ---- one function an attribute --------------------------------------------------------------- */

static uint64_t stored_bytes(const struct index_inode *attr)
{
    return (attr->flags & INDEX_INODE_INLINE) != 0 ? attr->inline_size : attr->stored;
}

static int get_stored(struct fs *fs, const struct index_inode *attr, char *text, size_t size)
{
    (void)fs;
    return snprintf(text, size, "%llu", (unsigned long long)stored_bytes(attr));
}

static int get_ratio(struct fs *fs, const struct index_inode *attr, char *text, size_t size)
{
    const uint64_t stored = stored_bytes(attr);

    (void)fs;
    if (stored == 0)
        return snprintf(text, size, "%s", attr->size == 0 ? "1.00" : "inf");
    return snprintf(text, size, "%.2f", (double)attr->size / (double)stored);
}

static int get_codecs(struct fs *fs, const struct index_inode *attr, char *text, size_t size)
{
    struct census census = {.methods = 0};
    size_t used = 0;
    int error;

    if (attr->flags & INDEX_INODE_INLINE)
        return snprintf(text, size, "inline");
    error = count_blocks(fs, attr->ino, &census);
    if (error != 0)
        return error;
    text[0] = '\0';
    for (unsigned i = 0; i < census.methods && used < size; i++) {
        char method[32];

        sep_method_format(census.method[i].method, method, sizeof method);
        used += (size_t)snprintf(text + used, size - used, "%s%s=%llu", i != 0 ? " " : "", method,
                                 (unsigned long long)census.method[i].blocks);
    }
    return (int)(used < size ? used : size - 1);
}

static int get_cold(struct fs *fs, const struct index_inode *attr, char *text, size_t size)
{
    struct census census = {.methods = 0};
    const int error = count_blocks(fs, attr->ino, &census);

    if (error != 0)
        return error;
    /* rounded down: 100 means all of it */
    return snprintf(
        text, size, "%u",
        census.plain == 0 ? 100u : (unsigned)((double)census.cold * 100.0 / (double)census.plain));
}

static const struct {
    const char *name; /* after the prefix */
    int (*get)(struct fs *fs, const struct index_inode *attr, char *text, size_t size);
} attributes[] = {
    {"stored", get_stored},
    {"ratio", get_ratio},
    {"codecs", get_codecs},
    {"cold", get_cold},
};

bool fs_virtual_name(const char *name)
{
    return strncmp(name, FS_VIRTUAL_PREFIX, strlen(FS_VIRTUAL_PREFIX)) == 0;
}

int fs_virtual_get(struct fs *fs, uint64_t ino, const char *name, char text[FS_VIRTUAL_TEXT_MAX])
{
    struct index_inode attr;

    if (!fs_virtual_name(name))
        return -ENODATA;
    for (size_t i = 0; i < sizeof attributes / sizeof attributes[0]; i++) {
        if (strcmp(name + strlen(FS_VIRTUAL_PREFIX), attributes[i].name) == 0) {
            const int error = get_attr(fs, ino, &attr);

            return error != 0 ? error : attributes[i].get(fs, &attr, text, FS_VIRTUAL_TEXT_MAX);
        }
    }
    return -ENODATA;
}
