/* SPDX-License-Identifier: BSD-2-Clause
 *
 * train_store.c - the blocks of a store as training data, and a model put into it.
 *
 * Reading takes no lock and works beside a mount: a block that moves meanwhile is left out. Blocks
 * are offered by the file they belong to, so that whole files are held out.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "fs/fs.h"
#include "train.h"

struct reader {
    struct train_store *store;
    struct train_sample *sample;
    const struct train_watch *watch;
    struct sep_context *context;
    uint8_t *payload, *plain;
};

static void on_log(void *user, int priority, const char *line)
{
    const struct train_store *const store = user;

    cli_error(store->program, store->path, "%s", line);
}

static int open_index(struct train_store *store, unsigned flags)
{
    const struct index_options options = {.flags = flags, .log = on_log, .log_arg = store};
    char reason[256];
    const int error = index_open(store->path, &options, &store->index, reason, sizeof reason);

    if (error != 0)
        cli_error(store->program, NULL, "%s", reason); /* names the path */
    return error;
}

int train_store_open(struct train_store *store, const char *program, const char *path)
{
    int error;

    *store = (struct train_store){.program = program, .path = path};
    error = open_index(store, INDEX_OPEN_READONLY);
    if (error == 0)
        error = fs_models_open(store->index, &store->models);
    if (error == 0)
        fs_models_choose(store->models, NULL);
    if (error == 0)
        fs_models_list(store->models, store->list, &store->count, &store->encode);
    store->encode = store->count; /* what lies in a store is there to be used */
    return error;
}

void train_store_close(struct train_store *store)
{
    fs_models_free(store->models);
    if (store->index != NULL)
        (void)index_close(store->index);
    store->models = NULL;
    store->index = NULL;
}

/* 0 also when the block is of no use: damaged, moved, or its model missing. */
static int take_block(struct reader *reader, const struct index_block *block, const char *name,
                      uint64_t offset)
{
    if (block->plain_size > SEP_BLOCK_SIZE_MAX ||
        block->at.payload_size > sep_bound(SEP_BLOCK_SIZE_MAX) ||
        !train_sample_wants(reader->sample, name, offset) ||
        index_pack_read(reader->store->index, block, reader->payload) != 0 ||
        sep_decode(reader->context, block->codec, reader->payload, block->at.payload_size,
                   reader->plain, block->plain_size) != SEP_OK)
        return 0;
    return train_sample_add(reader->sample, name, offset, reader->plain, block->plain_size);
}

static int take_file(struct reader *reader, uint64_t ino)
{
    struct train_store *const store = reader->store;
    char name[32];
    int error = 0;

    snprintf(name, sizeof name, "%" PRIu64, ino);
    for (uint64_t number = 0; error == 0; number++) {
        struct index_extent extent;
        struct index_block block;
        struct index_txn *txn;

        if (*reader->watch->stop != 0)
            return -EINTR;
        error = index_begin(store->index, INDEX_READ, &txn);
        if (error != 0)
            return error;
        error = index_extent_next(txn, ino, number, &extent);
        if (error == 0)
            error = index_block_get(txn, extent.block, &block);
        index_end(txn);
        if (error != 0)
            break;
        number = extent.number;
        store->plain_bytes += extent.length;
        error = take_block(reader, &block, name, number * index_block_size(store->index));
        reader->watch->reading(reader->watch->user, store->plain_bytes);
    }
    return error == -ENOENT ? 0 : error;
}

static int take_files(struct reader *reader)
{
    struct index_inode inode = {0};
    int error = 0;

    for (uint64_t ino = 0; error == 0; ino = inode.ino + 1) {
        struct index_txn *txn;

        error = index_begin(reader->store->index, INDEX_READ, &txn);
        if (error != 0)
            return error;
        error = index_inode_next(txn, ino, &inode);
        index_end(txn);
        if (error == 0)
            error = take_file(reader, inode.ino);
    }
    return error == -ENOENT ? 0 : error;
}

int train_store_sample(struct train_store *store, struct train_sample *sample,
                       const struct train_watch *watch)
{
    struct reader reader = {.store = store, .sample = sample, .watch = watch};
    int error = -ENOMEM;

    reader.context = sep_context_new();
    reader.payload = malloc(sep_bound(SEP_BLOCK_SIZE_MAX));
    reader.plain = malloc(SEP_BLOCK_SIZE_MAX);
    if (reader.context != NULL && reader.payload != NULL && reader.plain != NULL &&
        fs_models_give(store->models, reader.context) == SEP_OK)
        error = take_files(&reader);
    sep_context_free(reader.context);
    free(reader.payload);
    free(reader.plain);
    return error;
}

int train_store_install(struct train_store *store, const void *bytes, size_t size)
{
    uint64_t hash = 0;
    int error;

    if (sep_model_peek(bytes, size, &hash) != SEP_OK)
        return -EINVAL;
    train_store_close(store);
    error = open_index(store, 0);
    if (error != 0)
        return error;
    error = index_model_add(store->index, hash, bytes, size);
    if (error != 0)
        cli_error(store->program, store->path, "model not installed: %s", strerror(-error));
    else
        printf("installed: %s/models/%016" PRIx64 ".sepm\n", store->path, hash);
    return error;
}
