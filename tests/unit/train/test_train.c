/* SPDX-License-Identifier: BSD-2-Clause
 *
 * test_train.c - samples, training, checkpoints and quantisation on a small language of its own.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "codec/model_file.h"
#include "codec/train/kind.h"
#include "codec/train/net.h"
#include "codec/train/random.h"
#include "codec/train/sample.h"
#include "codec/train/train.h"
#include "tools/train.h"

#define BLOCK 16384u

static volatile sig_atomic_t stop;
static uint64_t stop_at; /* bytes; 0: never */

static void reading(void *user, uint64_t bytes)
{
}

static void problem(void *user, const char *path, int error)
{
    fail_msg("%s: %s", path, strerror(error));
}

static void progress(void *user, const struct train_progress *now)
{
    if (stop_at != 0 && now->done >= stop_at)
        stop = 1;
}

static const struct train_watch watch = {.stop = &stop, .reading = reading, .problem = problem};

/* Sentences of words that follow one another by chance; WHICH makes them differ. */
static void write_text(uint8_t *bytes, size_t size, uint64_t which)
{
    static const char *const words[] = {"the ",    "river ", "runs ",    "below ",
                                        "an ",     "old ",   "mill, ",   "where ",
                                        "nobody ", "has ",   "counted ", "stones.\n"};
    uint64_t random = which;
    size_t at = 0, word = 0;

    while (at < size) {
        const char *text;

        word = (word * 5 + 1 + train_random_below(&random, 3)) % (sizeof words / sizeof *words);
        text = words[word];
        while (*text != '\0' && at < size)
            bytes[at++] = (uint8_t)*text++;
    }
}

static struct train_sample *text_sample(unsigned blocks, bool backwards)
{
    struct train_sample *const sample = train_sample_new(7, 64u << 20, TRAIN_KINDS_TEXT);
    static uint8_t bytes[BLOCK];

    assert_non_null(sample);
    for (unsigned k = 0; k < blocks; k++) {
        const unsigned number = backwards ? blocks - 1 - k : k;
        char name[32];

        snprintf(name, sizeof name, "file-%u", number);
        write_text(bytes, sizeof bytes, number);
        assert_true(train_sample_wants(sample, name, 0));
        assert_int_equal(train_sample_add(sample, name, 0, bytes, sizeof bytes), 0);
    }
    train_sample_close(sample);
    return sample;
}

static struct train_settings settings_for(unsigned threads)
{
    return (struct train_settings){.seed = 3,
                                   .threads = threads,
                                   .rows_log = 8,
                                   .kinds = TRAIN_KINDS_TEXT,
                                   .progress = progress};
}

static struct train_net *learn(const struct train_sample *sample,
                               const struct train_settings *settings)
{
    struct train_net *net = NULL;

    assert_int_equal(train_net_learn(sample, settings, &watch, &net), 0);
    return net;
}

static void assert_same_net(const struct train_net *a, const struct train_net *b)
{
    assert_memory_equal(&a->dense, &b->dense, sizeof a->dense);
    assert_memory_equal(a->gate, b->gate, sizeof a->gate);
    assert_memory_equal(a->row, b->row,
                        ((size_t)TRAIN_FEATURES << a->rows_log) * TRAIN_WIDTH * sizeof *a->row);
}

/* ---- sample --------------------------------------------------------------------------------- */

static void test_order_does_not_matter(void **unused)
{
    struct train_sample *const a = text_sample(40, false), *const b = text_sample(40, true);

    assert_int_equal(a->count, 40);
    assert_int_equal(b->count, 40);
    for (size_t k = 0; k < a->count; k++) {
        assert_string_equal(a->blocks[k].name, b->blocks[k].name);
        assert_int_equal(a->blocks[k].held_out, b->blocks[k].held_out);
    }
    train_sample_free(a);
    train_sample_free(b);
}

static void test_limit_and_duplicates(void **unused)
{
    struct train_sample *const sample = train_sample_new(1, 4 * BLOCK, TRAIN_KINDS_TEXT);
    static uint8_t bytes[BLOCK];
    struct train_counts counts;

    for (unsigned k = 0; k < 64; k++) {
        char name[32];

        snprintf(name, sizeof name, "file-%u", k);
        write_text(bytes, sizeof bytes, 1); /* all alike */
        assert_int_equal(train_sample_add(sample, name, 0, bytes, sizeof bytes), 0);
        assert_true(sample->bytes <= 4 * BLOCK);
    }
    assert_int_equal(sample->count, 4);
    train_sample_close(sample);
    train_sample_count(sample, &counts);
    assert_int_equal(counts.blocks + counts.held_out_blocks, 1);
    assert_int_equal(counts.duplicates, 3);
    train_sample_free(sample);
}

static void test_files_are_held_out_whole(void **unused)
{
    struct train_sample *const sample = train_sample_new(5, 64u << 20, TRAIN_KINDS_TEXT);
    static uint8_t bytes[BLOCK];
    struct train_counts counts;

    for (unsigned k = 0; k < 64 * 3; k++) {
        char name[32];

        snprintf(name, sizeof name, "file-%u", k / 3);
        write_text(bytes, sizeof bytes, k);
        assert_int_equal(train_sample_add(sample, name, k % 3 * BLOCK, bytes, sizeof bytes), 0);
    }
    train_sample_close(sample);
    train_sample_count(sample, &counts);
    assert_true(counts.held_out_blocks >= 3 && counts.held_out_blocks <= 64);
    for (size_t a = 0; a < sample->count; a++)
        for (size_t b = 0; b < a; b++)
            if (strcmp(sample->blocks[a].name, sample->blocks[b].name) == 0)
                assert_int_equal(sample->blocks[a].held_out, sample->blocks[b].held_out);
    train_sample_free(sample);
}

static void test_folder(void **unused)
{
    char folder[] = "/tmp/sepfs-train-XXXXXX", path[64], below[80];
    struct train_sample *const sample = train_sample_new(1, 1u << 20, TRAIN_KINDS_TEXT);
    static uint8_t bytes[BLOCK];
    FILE *file;

    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/inner", folder);
    assert_int_equal(mkdir(path, 0700), 0);
    snprintf(below, sizeof below, "%s/text", path);
    write_text(bytes, sizeof bytes, 1);
    file = fopen(below, "w");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, sizeof bytes, file), sizeof bytes);
    assert_int_equal(fclose(file), 0);
    snprintf(path, sizeof path, "%s/link", folder);
    assert_int_equal(symlink("inner/text", path), 0);

    assert_int_equal(train_files_sample(sample, folder, &watch), 0);
    assert_int_equal(sample->count, 1); /* not through the link */
    assert_string_equal(sample->blocks[0].name, "/inner/text");
    assert_memory_equal(sample->blocks[0].bytes, bytes, sizeof bytes);

    train_sample_free(sample);
    unlink(path);
    unlink(below);
    snprintf(path, sizeof path, "%s/inner", folder);
    rmdir(path);
    rmdir(folder);
}

static void test_kinds(void **unused)
{
    static uint8_t bytes[BLOCK];
    static const char markup[] = "<p class=\"x\">word</p>\n",
                      source[] = "    value[index] = compute(value, index);\n",
                      table[] = "2024-01-07 12:00:01, 1853, 77\n";
    static const struct {
        const char *text;
        enum train_kind kind;
    } cases[] = {
        {markup, TRAIN_KIND_MARKUP}, {source, TRAIN_KIND_SOURCE}, {table, TRAIN_KIND_TABLE}};

    write_text(bytes, sizeof bytes, 1);
    assert_int_equal(train_kind_of(bytes, sizeof bytes), TRAIN_KIND_TEXT);
    for (unsigned c = 0; c < sizeof cases / sizeof *cases; c++) {
        for (size_t k = 0; k < sizeof bytes; k++)
            bytes[k] = (uint8_t)cases[c].text[k % strlen(cases[c].text)];
        assert_int_equal(train_kind_of(bytes, sizeof bytes), cases[c].kind);
    }
    for (size_t k = 0; k < sizeof bytes; k++)
        bytes[k] = (uint8_t)(k % 12 * 17 + (k % 12 == 3 ? train_mix(k) % 16 : 0));
    assert_int_equal(train_kind_of(bytes, sizeof bytes), TRAIN_KIND_RECORDS);
}

/* ---- training ------------------------------------------------------------------------------- */

static void test_threads_and_loss(void **unused)
{
    struct train_sample *const sample = text_sample(40, false);
    const struct train_settings one = settings_for(1), three = settings_for(3);
    struct train_net *const a = learn(sample, &one), *const b = learn(sample, &three);
    struct sep_model *const model = train_model_new(SEP_MODEL_PRIVATE, "test");
    struct train_loss loss;

    assert_same_net(a, b);
    assert_int_equal(train_net_quantise(a, sample, TRAIN_KINDS_TEXT, model, &loss), 0);
    assert_true(loss.bytes != 0);
    /* The words have log2(3) bits in five to nine bytes. */
    assert_true(loss.floats < 0.6);
    assert_true(loss.integers < loss.floats * 1.01);
    assert_non_null(model->net);
    assert_int_equal(model->net->features, loss.patches);
    sep_model_free(model);
    train_net_free(a);
    train_net_free(b);
    train_sample_free(sample);
}

static void test_another_seed(void **unused)
{
    struct train_sample *const sample = text_sample(12, false);
    struct train_settings settings = settings_for(1);
    struct train_net *const a = learn(sample, &settings);
    struct train_net *b;

    settings.seed++;
    b = learn(sample, &settings);
    assert_memory_not_equal(&a->dense, &b->dense, sizeof a->dense);
    train_net_free(a);
    train_net_free(b);
    train_sample_free(sample);
}

static void test_checkpoint(void **unused)
{
    char path[] = "/tmp/sepfs-train-XXXXXX";
    const int file = mkstemp(path);
    struct train_sample *const sample = text_sample(24, false);
    struct train_settings settings = settings_for(2);
    struct train_net *whole, *resumed, *none = NULL;

    assert_true(file >= 0);
    whole = learn(sample, &settings);
    settings.checkpoint = path;
    stop_at = 100000;
    assert_int_equal(train_net_learn(sample, &settings, &watch, &none), -EINTR);
    assert_null(none);
    stop_at = 0;
    stop = 0;
    settings.resume = true;
    resumed = learn(sample, &settings);
    assert_same_net(whole, resumed);

    settings.seed++; /* the checkpoint is of another training */
    assert_int_equal(train_net_learn(sample, &settings, &watch, &none), -ESTALE);
    settings.seed--;
    close(file);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(train_net_learn(sample, &settings, &watch, &none), -ENOENT);
    train_net_free(whole);
    train_net_free(resumed);
    train_sample_free(sample);
}

static void test_damaged_checkpoint(void **unused)
{
    char path[] = "/tmp/sepfs-train-XXXXXX";
    struct train_sample *const sample = text_sample(24, false);
    struct train_settings settings = settings_for(1);
    struct train_net *none = NULL;
    const int unused_file = mkstemp(path);
    FILE *file;

    assert_true(unused_file >= 0);
    close(unused_file);
    settings.checkpoint = path;
    stop_at = 100000;
    assert_int_equal(train_net_learn(sample, &settings, &watch, &none), -EINTR);
    stop_at = 0;
    stop = 0;
    settings.resume = true;
    file = fopen(path, "r+");
    assert_non_null(file);
    assert_int_equal(fseek(file, 20000, SEEK_SET), 0);
    assert_int_equal(fwrite("damage", 1, 6, file), 6);
    assert_int_equal(fclose(file), 0);
    assert_int_equal(train_net_learn(sample, &settings, &watch, &none), -EBADMSG);
    assert_int_equal(truncate(path, 3000), 0);
    assert_int_equal(train_net_learn(sample, &settings, &watch, &none), -EBADMSG);
    unlink(path);
    train_sample_free(sample);
}

/* Every instruction set gives the same bits. */
static void test_arithmetic(void **unused)
{
    const struct train_math *const maths[] = {&train_math_plain, train_math_best()};
    struct train_net *nets[2];
    struct train_lane *lanes[2];

    for (unsigned v = 0; v < 2; v++) {
        uint64_t random = 11;

        nets[v] = train_net_new(5, 8);
        lanes[v] = aligned_alloc(64, TRAIN_LANES * sizeof **lanes);
        assert_non_null(nets[v]);
        assert_non_null(lanes[v]);
        memset(lanes[v], 0, TRAIN_LANES * sizeof **lanes);
        for (unsigned round = 0; round < 8; round++) {
            for (unsigned l = 0; l < TRAIN_LANES; l++) {
                lanes[v][l].steps = (uint32_t)train_random_below(&random, TRAIN_STEPS + 1);
                for (unsigned s = 0; s < lanes[v][l].steps; s++) {
                    lanes[v][l].byte[s] = (uint8_t)train_random_below(&random, 80);
                    for (unsigned f = 0; f < TRAIN_FEATURES; f++)
                        lanes[v][l].index[s][f] = (uint32_t)train_random_below(&random, 64);
                }
                maths[v]->examples(nets[v], &lanes[v][l]);
            }
            for (unsigned f = 0; f < TRAIN_FEATURES; f++)
                maths[v]->rows(nets[v], lanes[v], f, 0.1F, 0.01F);
            maths[v]->dense(nets[v], lanes[v], 0, TRAIN_DENSE_FLOATS, 0.1F);
            train_net_transpose(nets[v]);
        }
    }
    assert_same_net(nets[0], nets[1]);
    for (unsigned v = 0; v < 2; v++) {
        train_net_free(nets[v]);
        free(lanes[v]);
    }
}

/* A model that was made here loads, and makes unseen blocks of its kind smaller. */
static void test_model_gains(void **unused)
{
    const struct train_priming priming = {
        .bytes_max = 1u << 20, .slots_max = 20000, .blocks_min = 2, .count_max = 4};
    struct train_sample *const sample = text_sample(40, false);
    struct sep_model *const model = train_model_new(SEP_MODEL_PRIVATE, "test");
    struct train_sizes sizes[TRAIN_KIND_COUNT];
    const struct train_sizes *const text = &sizes[TRAIN_KIND_TEXT];
    uint8_t *bytes = NULL;
    size_t size = 0;

    assert_int_equal(train_model_prime(model, sample, TRAIN_KIND_TEXT, false, &priming, &watch), 0);
    assert_int_equal(train_model_prime(model, sample, TRAIN_KIND_MARKUP, false, &priming, &watch),
                     -ENODATA);
    assert_int_equal(train_model_write(model, "words", &bytes, &size), 0);
    assert_int_equal(train_judge(sample, bytes, size, 1u << 20, 2, NULL, &watch, sizes), 0);
    assert_true(text->plain != 0);
    assert_true(text->after < text->before * 9 / 10);
    assert_int_equal(model->state_count, 1);
    assert_false(train_model_drop(model, TRAIN_KIND_SOURCE));
    assert_true(train_model_drop(model, TRAIN_KIND_TEXT));
    assert_int_equal(model->state_count, 0);
    bytes[size / 2] ^= 1;
    assert_int_equal(train_judge(sample, bytes, size, 1u << 20, 1, NULL, &watch, sizes), -EBADMSG);
    free(bytes);
    sep_model_free(model);
    train_sample_free(sample);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_order_does_not_matter),
        cmocka_unit_test(test_limit_and_duplicates),
        cmocka_unit_test(test_files_are_held_out_whole),
        cmocka_unit_test(test_folder),
        cmocka_unit_test(test_kinds),
        cmocka_unit_test(test_threads_and_loss),
        cmocka_unit_test(test_another_seed),
        cmocka_unit_test(test_checkpoint),
        cmocka_unit_test(test_damaged_checkpoint),
        cmocka_unit_test(test_arithmetic),
        cmocka_unit_test(test_model_gains),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
