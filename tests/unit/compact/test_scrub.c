/* SPDX-License-Identifier: BSD-2-Clause
 *
 * test_scrub.c - the background scrub: it counts what is damaged and changes nothing, goes on where
 * the last mount was, gives way, comes again each period, raises no alarm over blocks that move, and
 * obeys the control socket.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "fs/control.h"
#include "fs/fs.h"
#include "fs/scrub.h"
#include "store.h"

#define BLOCKS     40u
#define DEADLINE_S 120

static void setup(struct store *store)
{
    store_create(store);
    assert_int_equal(sep_method_parse("zstd:12", &store->options.cold), SEP_OK);
    store_start(store);
}

/* A file of COUNT blocks that do not compress, one pack record each. */
static uint64_t noise_file(struct store *store, const char *name, unsigned count, unsigned seed)
{
    const size_t size = (size_t)count * STORE_BLOCK;
    uint8_t *bytes = malloc(size);
    uint64_t ino;

    assert_non_null(bytes);
    store_noise(bytes, size, seed);
    ino = store_file(store, INDEX_ROOT_INO, name, bytes, size);
    free(bytes);
    return ino;
}

static void flip(struct store *store, uint32_t pack, uint64_t at)
{
    char path[512];
    uint8_t byte;
    int fd;

    snprintf(path, sizeof path, "%s/packs/%08x.pack", store->path, pack);
    fd = open(path, O_RDWR);
    if (fd < 0)
        fail_msg("%s: %s", path, strerror(errno));
    assert_int_equal(pread(fd, &byte, 1, (off_t)at), 1);
    byte ^= 0x04;
    assert_int_equal(pwrite(fd, &byte, 1, (off_t)at), 1);
    close(fd);
}

static struct fs_scrub_status status_of(struct store *store)
{
    struct fs_scrub_status status;

    assert_int_equal(fs_scrub_status(&store->fs, &status), 0);
    return status;
}

/* Waits until as many rounds are complete. */
static struct index_scrub wait_rounds(struct store *store, uint64_t rounds)
{
    const time_t end = time(NULL) + DEADLINE_S;
    struct fs_scrub_status status;

    while ((status = status_of(store)).progress.rounds < rounds) {
        if (time(NULL) > end)
            fail_msg("round %llu is not complete: state %u, block %llu", (unsigned long long)rounds,
                     status.state, (unsigned long long)status.progress.next_block);
        usleep(2000);
    }
    return status.progress;
}

static struct index_scrub whole_round(struct store *store)
{
    uint64_t round;

    assert_int_equal(fs_scrub_begin(&store->fs, &round), 0);
    return wait_rounds(store, round);
}

static uint64_t record_bytes(struct store *store, uint64_t ino, unsigned count)
{
    uint64_t bytes = 0;

    for (unsigned i = 0; i < count; i++) {
        struct index_extent extent;

        bytes += INDEX_RECORD_HEADER + store_block(store, ino, i, &extent).at.payload_size;
    }
    return bytes;
}

/* ---- a round ------------------------------------------------------------------------------- */

static void counts_damage(void **state)
{
    struct index_block hit[3];
    struct index_extent extent;
    struct index_scrub done;
    struct store store;
    uint64_t ino, bytes;

    setup(&store);
    assert_int_equal(status_of(&store).state, FS_SCRUB_IDLE);
    ino = noise_file(&store, "file", BLOCKS, 1);
    assert_int_equal(index_commit(store.index), 0);
    bytes = record_bytes(&store, ino, BLOCKS);

    done = whole_round(&store);
    assert_int_equal(done.rounds, 1);
    assert_int_equal(done.next_block, 0);
    assert_int_equal(done.last_blocks, BLOCKS);
    assert_int_equal(done.last_bytes, bytes);
    assert_int_equal(done.last_damaged, 0);
    assert_int_equal(done.last_damaged_packs, 0);
    assert_true(done.started_at > 0 && done.finished_at >= done.started_at);

    for (unsigned i = 0; i < 3; i++)
        hit[i] = store_block(&store, ino, 5 + 12 * i, &extent);
    flip(&store, hit[0].at.pack, hit[0].at.offset + INDEX_RECORD_HEADER + 7); /* payload */
    flip(&store, hit[1].at.pack, hit[1].at.offset + 32);                      /* owner */
    flip(&store, hit[2].at.pack, hit[2].at.offset);                           /* magic */
    flip(&store, hit[0].at.pack, 12); /* header of the pack */
    done = whole_round(&store);
    assert_int_equal(done.last_blocks, BLOCKS);
    assert_int_equal(done.last_damaged, 3);
    assert_int_equal(done.last_damaged_packs, 1);
    assert_int_equal(done.last_bytes, bytes);
    /* Nothing was moved, and the damage is still there. */
    for (unsigned i = 0; i < 3; i++) {
        const struct index_block now = store_block(&store, ino, 5 + 12 * i, &extent);

        assert_memory_equal(&now, &hit[i], sizeof now);
    }
    assert_int_equal(store_space(&store).pending, 0);
    done = whole_round(&store);
    assert_int_equal(done.last_damaged, 3);

    /* The state is durable with the store. */
    store_stop(&store);
    store_start(&store);
    done = status_of(&store).progress;
    assert_int_equal(done.rounds, 3);
    assert_int_equal(done.last_damaged, 3);
    assert_int_equal(done.next_block, 0);
    store_stop(&store);
    store_remove(&store);
}

/* Blocks that lie in a pack that is gone are damaged, each of them; an empty store has none. */
static void missing_pack(void **state)
{
    struct index_scrub done;
    struct index_extent extent;
    struct store store;
    char path[512];
    uint64_t ino;

    setup(&store);
    done = whole_round(&store);
    assert_int_equal(done.last_blocks, 0);
    ino = noise_file(&store, "file", 3, 9);
    snprintf(path, sizeof path, "%s/packs/%08x.pack", store.path,
             store_block(&store, ino, 0, &extent).at.pack);
    store_stop(&store);
    assert_int_equal(unlink(path), 0);
    store_start(&store);
    done = whole_round(&store);
    assert_int_equal(done.last_blocks, 3);
    assert_int_equal(done.last_damaged, 3);
    assert_int_equal(done.last_damaged_packs, 1);
    store_stop(&store);
    store_remove(&store);
}

/* ---- giving way, and going on -------------------------------------------------------------- */

struct load {
    struct fs *fs;
    atomic_bool stop;
};

static void *foreground(void *arg)
{
    struct load *load = arg;

    while (!atomic_load(&load->stop)) {
        atomic_fetch_add(&load->fs->counters.foreground, 100);
        usleep(5000);
    }
    return NULL;
}

static void gives_way_and_goes_on(void **state)
{
    struct load load;
    struct fs_scrub_status status;
    struct index_scrub done;
    struct store store;
    pthread_t thread;
    const time_t end = time(NULL) + DEADLINE_S;

    setup(&store);
    noise_file(&store, "file", BLOCKS, 2);
    store_stop(&store);
    store.options.scrub = 86400;
    /* The first batch is due when the round begins, the second at two fifths of the day. */
    store_start(&store);
    load = (struct load){.fs = &store.fs};
    assert_int_equal(pthread_create(&thread, NULL, foreground, &load), 0);
    do {
        status = status_of(&store);
        assert_true(time(NULL) <= end);
        usleep(1000);
    } while (status.state != FS_SCRUB_WAITING || status.progress.blocks == 0);
    if (status.progress.rounds == 0) { /* else the load came too late to be seen */
        assert_true(status.progress.blocks < BLOCKS);
        for (unsigned i = 0; i < 100; i++) {
            usleep(10000);
            assert_int_equal(status_of(&store).progress.blocks, status.progress.blocks);
        }
        assert_int_equal(status.progress.next_block, status.progress.blocks + 1);
    }
    atomic_store(&load.stop, true);
    pthread_join(thread, NULL);
    store_stop(&store);

    /* The position is that of the last mount; a request waits for nobody. */
    store.options.scrub = 0;
    store_start(&store);
    done = status_of(&store).progress;
    if (done.rounds == 0) {
        assert_true(done.next_block > 1);
        assert_int_equal(done.blocks, done.next_block - 1);
        done = whole_round(&store);
        assert_int_equal(done.rounds, 1);
        assert_int_equal(done.last_blocks, BLOCKS);
    }
    store_stop(&store);
    store_remove(&store);
}

/* A round goes on at the block that the index names, and what was counted before stays counted. */
static void goes_on_at_the_recorded_block(void **state)
{
    const struct index_scrub before = {.started_at = 1000,
                                       .next_block = 31,
                                       .end_block = 38,
                                       .rounds = 4,
                                       .blocks = 77,
                                       .damaged = 5,
                                       .bytes = 123,
                                       .damaged_packs = 2};
    struct index_scrub done;
    struct store store;
    struct index_txn *txn;
    uint64_t ino, late = 0;

    setup(&store);
    ino = noise_file(&store, "file", BLOCKS, 3);
    assert_int_equal(index_begin(store.index, INDEX_WRITE, &txn), 0);
    assert_int_equal(index_scrub_put(txn, &before), 0);
    index_end(txn);
    for (unsigned i = 0; i < BLOCKS; i++) {
        struct index_extent extent;

        const uint64_t id = store_block(&store, ino, i, &extent).id;

        late += id >= 31 && id < 38;
    }
    assert_int_equal(late, 7);
    store_stop(&store);
    store_start(&store);
    done = status_of(&store).progress;
    assert_memory_equal(&done, &before, sizeof done);
    done = whole_round(&store);
    assert_int_equal(done.rounds, 5);
    assert_int_equal(done.last_blocks, 77 + late);
    assert_int_equal(done.last_damaged, 5);
    assert_int_equal(done.last_damaged_packs, 2);
    assert_int_equal(done.started_at, 1000);
    store_stop(&store);
    store_remove(&store);
}

static void comes_again_each_period(void **state)
{
    struct index_scrub done;
    struct store store;

    setup(&store);
    noise_file(&store, "file", 20, 4);
    store_stop(&store);
    store.options.scrub = 1;
    store_start(&store);
    done = wait_rounds(&store, 2);
    assert_int_equal(done.last_blocks, 20);
    assert_int_equal(done.last_damaged, 0);
    assert_int_equal(fs_scrub_halt(&store.fs), 0);
    assert_int_equal(status_of(&store).state, FS_SCRUB_STOPPED);
    store_stop(&store);
    /* Without a period nothing begins by itself. */
    store.options.scrub = 0;
    store_start(&store);
    assert_int_equal(status_of(&store).state, FS_SCRUB_IDLE);
    done = status_of(&store).progress;
    usleep(1500000);
    assert_int_equal(status_of(&store).progress.rounds, done.rounds);
    store_stop(&store);
    store_remove(&store);
}

/* ---- beside other work --------------------------------------------------------------------- */

struct churn {
    struct store *store;
    uint64_t ino;
    atomic_bool stop;
};

static void *rewrite(void *arg)
{
    struct churn *churn = arg;
    uint8_t *bytes = malloc(STORE_BLOCK);
    unsigned turn = 0;

    assert_non_null(bytes);
    while (!atomic_load(&churn->stop)) {
        store_text(bytes, STORE_BLOCK, 100 + ++turn);
        store_write(churn->store, churn->ino, bytes, STORE_BLOCK,
                    (uint64_t)(turn % BLOCKS) * STORE_BLOCK);
    }
    free(bytes);
    return NULL;
}

static void no_alarm_over_what_moves(void **state)
{
    const struct fs_compact_request all = {.all = true, .gc = true};
    struct churn churn;
    struct store store;
    pthread_t thread;

    setup(&store);
    churn = (struct churn){.store = &store, .ino = noise_file(&store, "file", BLOCKS, 5)};
    assert_int_equal(pthread_create(&thread, NULL, rewrite, &churn), 0);
    for (unsigned i = 0; i < 5; i++) {
        struct index_scrub done;
        uint64_t ticket, round;
        struct fs_compact_status compaction;

        assert_int_equal(fs_compactor_request(&store.fs, &all, &ticket), 0);
        assert_int_equal(fs_scrub_begin(&store.fs, &round), 0);
        done = wait_rounds(&store, round);
        assert_int_equal(done.last_damaged, 0);
        assert_int_equal(done.last_damaged_packs, 0);
        assert_int_equal(fs_compactor_wait(&store.fs, ticket, 600000, &compaction), 1);
        assert_int_equal(compaction.failed, 0);
    }
    atomic_store(&churn.stop, true);
    pthread_join(thread, NULL);
    store_check(&store);
    store_stop(&store);
    store_remove(&store);
}

/* ---- the control socket -------------------------------------------------------------------- */

struct answer {
    char text[4096];
};

static void on_field(void *arg, const char *key, const char *value)
{
    struct answer *answer = arg;
    const size_t at = strlen(answer->text);

    snprintf(answer->text + at, sizeof answer->text - at, "%s=%s\n", key, value);
}

static int ask(struct fs_client *client, const char *request, struct answer *answer)
{
    char error[256];

    *answer = (struct answer){0};
    return fs_client_call(client, request, on_field, answer, error, sizeof error);
}

static void verbs(void **state)
{
    struct fs_client *client;
    struct answer answer;
    struct store store;

    setup(&store);
    noise_file(&store, "file", 3, 6);
    assert_int_equal(fs_control_start(&store.fs, "/mnt"), 0);
    assert_int_equal(fs_client_open(store.path, &client), 0);
    assert_int_equal(ask(client, "scrub", &answer), 0);
    assert_non_null(strstr(answer.text, "scrub_state=idle\n"));
    assert_non_null(strstr(answer.text, "scrub_rounds=0\n"));
    assert_int_equal(ask(client, "scrub action=stop", &answer), 0);
    assert_non_null(strstr(answer.text, "scrub_state=stopped\n"));
    assert_int_equal(ask(client, "scrub action=start", &answer), 0);
    assert_non_null(strstr(answer.text, "round=1\n"));
    wait_rounds(&store, 1);
    assert_int_equal(ask(client, "stats", &answer), 0);
    assert_non_null(strstr(answer.text, "scrub_rounds=1\n"));
    assert_non_null(strstr(answer.text, "scrub_last_blocks=3\n"));
    assert_non_null(strstr(answer.text, "scrub_last_damaged=0\n"));
    assert_int_equal(ask(client, "scrub action=go", &answer), -EINVAL);
    assert_int_equal(ask(client, "scrub what=1", &answer), -EINVAL);
    fs_client_close(client);
    store_stop(&store);
    store_remove(&store);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(counts_damage),
        cmocka_unit_test(missing_pack),
        cmocka_unit_test(gives_way_and_goes_on),
        cmocka_unit_test(goes_on_at_the_recorded_block),
        cmocka_unit_test(comes_again_each_period),
        cmocka_unit_test(no_alarm_over_what_moves),
        cmocka_unit_test(verbs),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
