/* SPDX-License-Identifier: BSD-2-Clause
 *
 * bench_mount.c - sepfs-bench mount: file operations on a mounted store, beside libfuse's own
 * passthrough_ll example on the same disk, in the same run.
 *
 * passthrough_ll does nothing but hand each call on to the host's file system, so the ratio to it
 * is what sepfs costs beyond FUSE itself. Fairness: each round starts both from an empty store and
 * directory with the host's caches dropped, the order of the two alternates from round to round,
 * and medians are compared. Everything happens in a new directory below --work, which is removed.
 */
#include "bench.h"

#include <errno.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "bench_load.h"
#include "bench_mount.h"

#define NAME "sepfs-bench"

#define PASSTHROUGH "passthrough_ll"

static const struct bench_series empty_rows[ROW_COUNT] = {
    [ROW_UNTAR] = {.name = "tree: untar", .unit = "s", .peer = PASSTHROUGH},
    [ROW_FIND] = {.name = "tree: find -ls", .unit = "s", .peer = PASSTHROUGH},
    [ROW_READ_ALL] = {.name = "tree: read all files", .unit = "s", .peer = PASSTHROUGH},
    [ROW_REMOVE] = {.name = "tree: rm -rf", .unit = "s", .peer = PASSTHROUGH},
    [ROW_WRITE] = {.name = "file: write", .unit = "MB/s", .peer = PASSTHROUGH},
    [ROW_WRITE_SYNC] = {.name = "file: write and fsync", .unit = "MB/s", .peer = PASSTHROUGH},
    [ROW_READ_COLD] = {.name = "file: read, caches cold", .unit = "MB/s", .peer = PASSTHROUGH},
    [ROW_CREATE] = {.name = "empty files: create", .unit = "s", .peer = "host directory"},
    [ROW_LIST] = {.name = "empty files: list", .unit = "s", .peer = "host directory"},
    [ROW_STAT] = {.name = "empty files: stat each", .unit = "s", .peer = "host directory"},
    [ROW_DELETE] = {.name = "empty files: rm -rf", .unit = "s", .peer = "host directory"},
    [ROW_COMPACT] = {.name = "compact: --all --wait", .unit = "s"},
    [ROW_COMPACT_AGAIN] = {.name = "compact: a second time", .unit = "s"},
    [ROW_STORE_SIZE] = {.name = "compact: size on disk",
                        .unit = "B",
                        .peer = "mksquashfs -comp xz -b 128K"},
    [ROW_MEMORY] = {.name = "daemon: peak memory", .unit = "MiB", .peer = PASSTHROUGH},
};

/* ---- small parts ----------------------------------------------------------------------------- */

static int join(char path[PATH_MAX], const char *dir, const char *name)
{
    if (snprintf(path, PATH_MAX, "%s/%s", dir, name) < PATH_MAX)
        return 0;
    cli_error(NAME, dir, "%s", strerror(ENAMETOOLONG));
    return -ENAMETOOLONG;
}

/* Which sides a round measures, the order alternating. */
static unsigned order(const struct bench *bench, uint64_t round, enum bench_side sides[2])
{
    if (!bench->has_peer) {
        sides[0] = BENCH_SEPFS;
        return 1;
    }
    sides[0] = round % 2 == 0 ? BENCH_PEER : BENCH_SEPFS;
    sides[1] = round % 2 == 0 ? BENCH_SEPFS : BENCH_PEER;
    return 2;
}

/* Empty data, cold caches, mounted. */
static int begin_side(struct bench *bench, struct bench_target *target)
{
    const int error = bench_target_clear(target);
    if (error != 0)
        return error;
    bench->dropped = bench_drop_caches();
    return bench_target_mount(target);
}

/* Runs the same measurement on both sides for all rounds. */
static int each_round(struct bench *bench, const char *label,
                      int (*measure)(struct bench *bench, struct bench_target *target,
                                     uint64_t round))
{
    for (uint64_t round = 0; round < bench->rounds; round++) {
        enum bench_side sides[2];
        const unsigned count = order(bench, round, sides);
        for (unsigned i = 0; i < count; i++) {
            struct bench_target *const target = &bench->target[sides[i]];
            cli_progress_update(&bench->progress, label, round * count + i, bench->rounds * count,
                                sides[i] == BENCH_SEPFS ? "sepfs" : PASSTHROUGH);
            int error = bench_interrupted() ? -EINTR : begin_side(bench, target);
            if (error == 0)
                error = measure(bench, target, round);
            const int unmounted = bench_target_unmount(target);
            if (error == 0)
                error = unmounted;
            if (error != 0)
                return error;
        }
    }
    return 0;
}

/* ---- the measurements ------------------------------------------------------------------------ */

static int measure_tree(struct bench *bench, struct bench_target *target, uint64_t round)
{
    static const struct {
        enum row row;
        const char *script; /* $1: tar file, $2: directory */
    } steps[] = {
        {ROW_UNTAR, "mkdir \"$2\" && tar -C \"$2\" -xf \"$1\""},
        {ROW_FIND, "find \"$2\" -ls"},
        {ROW_READ_ALL, "find \"$2\" -type f -exec cat {} +"},
        {ROW_REMOVE, "rm -rf \"$2\""},
    };
    (void)round;
    char tar[PATH_MAX], tree[PATH_MAX];
    int error = join(tar, bench->work, "tree.tar");
    if (error == 0)
        error = join(tree, target->mountpoint, "tree");
    for (size_t i = 0; i < sizeof steps / sizeof steps[0] && error == 0; i++) {
        double seconds;
        error = bench_shell(steps[i].script, tar, tree, NULL, &seconds);
        if (error == 0)
            bench_add(&bench->rows[steps[i].row], target->side, seconds);
    }
    return error;
}

static int run_tree(struct bench *bench)
{
    char tar[PATH_MAX];
    int error = join(tar, bench->work, "tree.tar");
    if (error == 0)
        error = bench_shell("tar -C \"$1\" -cf \"$2\" .", bench->tree, tar, NULL, NULL);
    return error != 0 ? error : each_round(bench, "tree", measure_tree);
}

static int measure_file(struct bench *bench, struct bench_target *target, uint64_t round)
{
    char source[PATH_MAX], file[PATH_MAX];
    double written, synced, read;
    const double megabytes = (double)bench->size / 1e6;
    int error = join(source, bench->work, "mixed");
    if (error == 0)
        error = join(file, target->mountpoint, "mixed");
    /* The source is read once before, so that its own reading costs both sides the same. */
    if (error == 0)
        error = bench_load_read(source, NULL, NULL);
    if (error == 0)
        error = bench_load_write(source, file, &written, &synced);
    if (error == 0)
        error = bench_target_unmount(target);
    if (error != 0)
        return error;
    bench->dropped = bench_drop_caches();
    error = bench_target_mount(target);
    if (error == 0)
        error = bench_load_read(file, NULL, &read);
    if (error == 0 && round == 0)
        error = bench_load_read(file, source, NULL);
    if (error != 0)
        return error;
    bench_add(&bench->rows[ROW_WRITE], target->side, megabytes / written);
    bench_add(&bench->rows[ROW_WRITE_SYNC], target->side, megabytes / synced);
    bench_add(&bench->rows[ROW_READ_COLD], target->side, megabytes / read);
    return 0;
}

static int run_file(struct bench *bench)
{
    char source[PATH_MAX];
    int error = join(source, bench->work, "mixed");
    if (error == 0)
        error = bench_load_mixed(bench->mixed_from, bench->size, source);
    return error != 0 ? error : each_round(bench, "file", measure_file);
}

static void add_empty(struct bench *bench, enum bench_side side, const struct bench_empty *times)
{
    bench_add(&bench->rows[ROW_CREATE], side, times->create);
    bench_add(&bench->rows[ROW_LIST], side, times->list);
    bench_add(&bench->rows[ROW_STAT], side, times->stat);
    bench_add(&bench->rows[ROW_DELETE], side, times->remove);
}

/* One round: the load is long enough. The peer is a plain directory of the host, since
 * passthrough_ll searches a list of all inodes it knows at every look-up. */
static int run_empty(struct bench *bench)
{
    struct bench_target *const target = &bench->target[BENCH_SEPFS];
    struct bench_empty times;
    char dir[PATH_MAX];
    cli_progress_update(&bench->progress, "empty files", 0, 2, "sepfs");
    int error = begin_side(bench, target);
    if (error == 0)
        error = join(dir, target->mountpoint, "empty");
    if (error == 0)
        error = bench_load_empty(dir, bench->empty, &times);
    if (error == 0)
        add_empty(bench, BENCH_SEPFS, &times);
    const int unmounted = bench_target_unmount(target);
    if (error == 0)
        error = unmounted;
    cli_progress_update(&bench->progress, "empty files", 1, 2, "host directory");
    if (error == 0)
        error = join(dir, bench->work, "empty");
    if (error == 0)
        error = bench_load_empty(dir, bench->empty, &times);
    if (error == 0)
        add_empty(bench, BENCH_PEER, &times);
    return error;
}

static int compact_twice(struct bench *bench, const struct bench_target *target)
{
    const char *const compact[] = {bench->compactor,   "--all", "--wait", "--progress=never",
                                   target->mountpoint, NULL};
    double first, again;
    int error = bench_shell("cp -a \"$1\" \"$2/tree\" && sync -f \"$2\"", bench->compact,
                            target->mountpoint, NULL, NULL);
    if (error == 0)
        error = bench_command(compact, &first);
    if (error == 0)
        error = bench_command(compact, &again);
    if (error != 0)
        return error;
    bench_add(&bench->rows[ROW_COMPACT], BENCH_SEPFS, first);
    bench_add(&bench->rows[ROW_COMPACT_AGAIN], BENCH_SEPFS, again);
    bench->dropped = bench_drop_caches();
    return bench_shell("diff -r --no-dereference \"$1\" \"$2/tree\"", bench->compact,
                       target->mountpoint, NULL, NULL);
}

static int run_compact(struct bench *bench)
{
    struct bench_target *const target = &bench->target[BENCH_SEPFS];
    char image[PATH_MAX];
    uint64_t bytes;
    struct stat attributes;
    cli_progress_update(&bench->progress, "compact", 0, 0, NULL);
    int error = begin_side(bench, target);
    if (error == 0)
        error = compact_twice(bench, target);
    const int unmounted = bench_target_unmount(target);
    if (error == 0)
        error = unmounted;
    if (error == 0)
        error = bench_load_usage(target->data, &bytes);
    if (error != 0)
        return error;
    bench_add(&bench->rows[ROW_STORE_SIZE], BENCH_SEPFS, (double)bytes);
    const char *const fsck[] = {bench->fsck, "-n", "--deep", target->data, NULL};
    error = bench_command(fsck, NULL);
    if (error == 0)
        error = join(image, bench->work, "image");
    if (error != 0)
        return error;
    if (bench_shell("command -v mksquashfs && mksquashfs \"$1\" \"$2\" -comp xz -b 128K -quiet "
                    "-no-progress",
                    bench->compact, image, NULL, NULL) != 0)
        cli_error(NAME, "mksquashfs", "not installed or failed: its size is left out");
    else if (stat(image, &attributes) == 0)
        bench_add(&bench->rows[ROW_STORE_SIZE], BENCH_PEER, (double)attributes.st_size);
    return 0;
}

/* ---- set-up and the report ------------------------------------------------------------------- */

static int make_work(struct bench *bench)
{
    static const char *const mountpoints[BENCH_SIDES] = {"passthrough", "sepfs"};
    static const char *const data[BENCH_SIDES] = {"directory", "store"};
    char work[PATH_MAX];
    int error = join(work, bench->base, "sepfs-bench.XXXXXX");
    if (error == 0 && mkdtemp(work) == NULL) {
        error = -errno;
        cli_error(NAME, bench->base, "%s", strerror(-error));
    }
    if (error != 0)
        return error;
    memcpy(bench->work, work, sizeof work);
    for (int side = 0; side < BENCH_SIDES && error == 0; side++) {
        struct bench_target *const target = &bench->target[side];
        target->side = (enum bench_side)side;
        error = join(target->data, work, data[side]);
        if (error == 0)
            error = join(target->mountpoint, work, mountpoints[side]);
        if (error == 0 && mkdir(target->mountpoint, 0700) != 0)
            error = -errno;
    }
    return error;
}

static int find_programs(struct bench *bench)
{
    int error = bench_find_tool("sepfs", bench->target[BENCH_SEPFS].program);
    if (error == 0 && (bench->parts & PART_COMPACT) != 0) {
        error = bench_find_tool("sepfs-compact", bench->compactor);
        if (error == 0)
            error = bench_find_tool("sepfs-fsck", bench->fsck);
    }
    if (error != 0)
        return error;
    error =
        bench_find_passthrough(bench->passthrough, bench->work, bench->target[BENCH_PEER].program);
    bench->has_peer = error == 0;
    if (error != 0 && bench->passthrough != NULL)
        return error;
    if (error != 0)
        cli_error(NAME, PASSTHROUGH,
                  "not found: measuring without it (install libfuse3-dev, or give --passthrough)");
    return 0;
}

static int measure(struct bench *bench)
{
    int error = make_work(bench);
    if (error == 0)
        error = find_programs(bench);
    if (error == 0 && (bench->parts & PART_TREE) != 0)
        error = run_tree(bench);
    if (error == 0 && (bench->parts & PART_FILE) != 0)
        error = run_file(bench);
    if (error == 0 && (bench->parts & PART_EMPTY) != 0)
        error = run_empty(bench);
    if (error == 0 && (bench->parts & PART_COMPACT) != 0)
        error = run_compact(bench);
    for (int side = 0; side < BENCH_SIDES && error == 0; side++) {
        if (bench->target[side].peak > 0)
            bench_add(&bench->rows[ROW_MEMORY], (enum bench_side)side,
                      (double)bench->target[side].peak / 1048576);
    }
    return error;
}

static void report(const struct bench *bench)
{
    if (bench->json) {
        struct json json;
        json_begin(&json, stdout);
        json_object(&json, NULL);
        json_string(&json, "version", SEPFS_VERSION);
        json_u64(&json, "rounds", bench->rounds);
        json_u64(&json, "file_bytes", bench->size);
        json_u64(&json, "empty_files", bench->empty);
        json_bool(&json, "caches_dropped", bench->dropped);
        bench_json(&json, "results", bench->rows, ROW_COUNT);
        json_end(&json);
        return;
    }
    bench_table(stdout, bench->rows, ROW_COUNT);
    if (!bench->dropped)
        printf("the host's caches were not dropped: that takes root\n");
}

static void clean_up(struct bench *bench)
{
    for (int side = 0; side < BENCH_SIDES; side++)
        bench_target_unmount(&bench->target[side]);
    if (bench->work[0] != '\0')
        bench_shell("rm -rf --one-file-system \"$1\"", bench->work, NULL, NULL, NULL);
}

int bench_mount(int argc, char **argv)
{
    struct bench *const bench = calloc(1, sizeof *bench);
    sigset_t signals;
    int code = 1;
    if (bench == NULL) {
        cli_error(NAME, NULL, "%s", strerror(ENOMEM));
        return 1;
    }
    bench->size = UINT64_C(1) << 30;
    bench->empty = 1000000;
    bench->rounds = 5;
    strcpy(bench->base, "/var/tmp");
    memcpy(bench->rows, empty_rows, sizeof empty_rows);
    if (bench_mount_parse(bench, argc, argv, &code) != 0)
        goto out;

    /* Held back so that nothing is left mounted: bench_interrupted() is asked between steps. */
    sigemptyset(&signals);
    sigaddset(&signals, SIGINT);
    sigaddset(&signals, SIGTERM);
    sigprocmask(SIG_BLOCK, &signals, NULL);
    /* passthrough_ll holds one descriptor for each inode that the kernel knows. */
    struct rlimit files;
    if (getrlimit(RLIMIT_NOFILE, &files) == 0) {
        files.rlim_cur = files.rlim_max;
        setrlimit(RLIMIT_NOFILE, &files);
    }
    const int error = measure(bench);
    cli_progress_clear(&bench->progress);
    clean_up(bench);
    if (error == 0)
        report(bench);
    code = cli_finish(NAME, error == 0 ? 0 : bench_interrupted() ? 130 : 1, 1);
out:
    free(bench);
    return code;
}
