/* SPDX-License-Identifier: BSD-2-Clause
 *
 * test_models.c - models in a store: a public one is brought in when the store is large enough, blocks
 * name it, a store needs nothing from outside then, a missing one is found by the check and confined
 * to the blocks that name it, and files that are no models harm nothing.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "codec/codec.h"
#include "codec/model_file.h"
#include "codec/profile.h"
#include "fs/file.h"
#include "fs/models.h"
#include "store.h"

static const struct fs_compact_request all = {.all = true};

#define LARGE (1u << 20) /* bytes of a file that pays for the model of these tests */

struct fixture {
    struct store store;
    char directory[300]; /* of public models */
    uint64_t hash;       /* of the model in it */
    size_t size;         /* of its file */
};

static void write_file(const char *directory, const char *name, const void *bytes, size_t size)
{
    char path[400];
    FILE *file;

    snprintf(path, sizeof path, "%s/%s", directory, name);
    file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, size, file), size);
    assert_int_equal(fclose(file), 0);
}

/* A model that has seen text like that of the tests. */
static void make_model(struct fixture *f)
{
    static const char text[] = "text of the tests";
    struct sep_primer *primer = sep_primer_new(SEP_PROFILE_GENERIC, NULL);
    struct sep_model model = {.kind = SEP_MODEL_PUBLIC, .name = "test", .text = strdup(text)};
    uint8_t *bytes, *plain = malloc(STORE_BLOCK);

    assert_non_null(primer);
    assert_non_null(plain);
    assert_non_null(model.text);
    for (unsigned i = 0; i < 8; i++) {
        store_text(plain, STORE_BLOCK, 50 + i);
        assert_int_equal(sep_primer_block(primer, plain, STORE_BLOCK, 0, 0), SEP_OK);
    }
    model.state[model.state_count++] = sep_primer_finish(primer, "text", 200, 2, 3);
    assert_non_null(model.state[0]);
    assert_int_equal(sep_model_store(&model, &bytes, &f->size), SEP_OK);
    f->hash = model.hash;
    write_file(f->directory, "test.sepm", bytes, f->size);
    sep_release(bytes);
    sep_primed_free(model.state[0]);
    sep_primer_free(primer);
    free(model.text);
    free(plain);
}

static void begin(struct fixture *f)
{
    memset(f, 0, sizeof *f);
    store_create(&f->store);
    snprintf(f->directory, sizeof f->directory, "%s.models", f->store.path);
    assert_int_equal(mkdir(f->directory, 0700), 0);
    strcpy(f->store.options.models, f->directory);
    make_model(f);
    store_start(&f->store);
}

static void end(struct fixture *f)
{
    static const char *const names[] = {"test.sepm", "noise.sepm", "short.sepm", "other.txt"};
    char path[400];

    for (unsigned i = 0; i < sizeof names / sizeof names[0]; i++) {
        snprintf(path, sizeof path, "%s/%s", f->directory, names[i]);
        unlink(path);
    }
    assert_int_equal(rmdir(f->directory), 0);
    store_remove(&f->store);
}

static uint64_t text_file(struct fixture *f, const char *name, uint8_t *bytes, size_t size)
{
    store_text(bytes, size, 3);
    return store_file(&f->store, INDEX_ROOT_INO, name, bytes, size);
}

static int count_model(void *arg, uint64_t hash)
{
    struct fixture *f = arg;

    assert_int_equal(hash, f->hash);
    return 1;
}

static bool in_store(struct fixture *f)
{
    return index_model_each(f->store.index, count_model, f) == 1;
}

/* Blocks of the file that name the model. */
static unsigned modelled(struct fixture *f, uint64_t ino, size_t size)
{
    unsigned count = 0;

    for (uint64_t i = 0; i * STORE_BLOCK < size; i++) {
        struct index_extent extent;
        const struct index_block block = store_block(&f->store, ino, i, &extent);

        assert_true(block.model == 0 || block.model == f->hash);
        count += block.model != 0;
    }
    return count;
}

static void test_large_store_uses_it(void **state)
{
    struct fixture f;
    uint8_t *bytes = malloc(LARGE);
    uint64_t ino, stored;

    (void)state;
    assert_non_null(bytes);
    begin(&f);
    assert_true(f.size * FS_MODELS_SHARE < LARGE);
    ino = text_file(&f, "file", bytes, LARGE);
    assert_false(in_store(&f));
    store_compact(&f.store, &all);
    assert_true(in_store(&f));
    assert_int_equal(modelled(&f, ino, LARGE), LARGE / STORE_BLOCK);
    stored = store_inode(&f.store, ino).stored;
    store_expect(&f.store, ino, bytes, LARGE);
    store_check(&f.store);
    store_stop(&f.store);

    /* Nothing from outside is needed any more. */
    f.store.options.models[0] = '\0';
    store_start(&f.store);
    store_expect(&f.store, ino, bytes, LARGE);
    store_check(&f.store);
    store_stop(&f.store);
    end(&f);

    /* It helps: the same without. */
    begin(&f);
    store_stop(&f.store);
    f.store.options.models[0] = '\0';
    store_start(&f.store);
    ino = text_file(&f, "file", bytes, LARGE);
    store_compact(&f.store, &all);
    assert_false(in_store(&f));
    assert_true(stored < store_inode(&f.store, ino).stored);
    store_stop(&f.store);
    end(&f);
    free(bytes);
}

static void test_small_store_does_not(void **state)
{
    struct fixture f;
    uint8_t *bytes = malloc(2 * STORE_BLOCK);
    uint64_t ino;

    (void)state;
    assert_non_null(bytes);
    begin(&f);
    ino = text_file(&f, "file", bytes, 2 * STORE_BLOCK);
    store_compact(&f.store, &all);
    assert_false(in_store(&f));
    assert_int_equal(modelled(&f, ino, 2 * STORE_BLOCK), 0);
    store_expect(&f.store, ino, bytes, 2 * STORE_BLOCK);
    store_stop(&f.store);
    end(&f);
    free(bytes);
}

static void test_no_models_harm_nothing(void **state)
{
    struct fixture f;
    uint8_t *bytes = malloc(LARGE);
    uint64_t ino;

    (void)state;
    assert_non_null(bytes);
    begin(&f);
    write_file(f.directory, "other.txt", "not one of them", 15);
    write_file(f.directory, "short.sepm", "SEP", 3);
    store_noise(bytes, 5000, 1);
    write_file(f.directory, "noise.sepm", bytes, 5000);
    ino = text_file(&f, "file", bytes, LARGE);
    store_compact(&f.store, &all);
    assert_int_equal(modelled(&f, ino, LARGE), LARGE / STORE_BLOCK); /* the good one is found */
    store_expect(&f.store, ino, bytes, LARGE);
    store_stop(&f.store);
    end(&f);
    free(bytes);
}

struct found {
    unsigned damaged, others;
    uint64_t ino;
};

static void on_problem(void *arg, const struct index_problem *problem)
{
    struct found *found = arg;

    if (strcmp(problem->kind, "missing-model") == 0) {
        found->damaged++;
        if (problem->ino != 0)
            found->ino = problem->ino;
    } else {
        print_message("%s: %s\n", problem->kind, problem->text);
        found->others++;
    }
}

static void test_missing_model(void **state)
{
    struct fixture f;
    struct found found = {0};
    struct index_check check = {.problem = on_problem, .arg = &found};
    struct fs_inode *inode;
    uint8_t *bytes = malloc(LARGE), kept[3000];
    uint64_t ino, other;
    char path[400];

    (void)state;
    assert_non_null(bytes);
    begin(&f);
    ino = text_file(&f, "file", bytes, LARGE);
    store_compact(&f.store, &all);
    store_noise(kept, sizeof kept, 9);
    other = store_file(&f.store, INDEX_ROOT_INO, "other", kept, sizeof kept);
    store_stop(&f.store);
    snprintf(path, sizeof path, "%s/models/%016" PRIx64 ".sepm", f.store.path, f.hash);
    assert_int_equal(unlink(path), 0);

    store_start(&f.store);
    store_expect(&f.store, other, kept, sizeof kept);
    assert_int_equal(fs_inode_hold(&f.store.fs, ino, &inode), 0);
    assert_int_equal(fs_file_read(&f.store.fs, inode, NULL, bytes, 100, 0), -EIO);
    fs_inode_drop(&f.store.fs, inode);
    assert_int_equal(index_check(f.store.index, &check), 0);
    assert_true(found.damaged > 0);
    assert_int_equal(found.ino, ino);
    assert_int_equal(found.others, 0);
    store_stop(&f.store);
    end(&f);
    free(bytes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_large_store_uses_it),
        cmocka_unit_test(test_small_store_does_not),
        cmocka_unit_test(test_no_models_harm_nothing),
        cmocka_unit_test(test_missing_model),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
