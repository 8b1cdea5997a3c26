/* SPDX-License-Identifier: BSD-2-Clause
 *
 * test_store.c - what may be opened, what is refused and with which words; locks; sepfs.conf; the
 * file that is rewritten at close.
 */
#include "support.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static char dir[256];

static int setup(void **state)
{
    (void)state;
    scratch_make(dir);
    fault_reset();
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    scratch_remove(dir);
    return 0;
}

static void write_file(const char *path, const char *text)
{
    FILE *const file = fopen(path, "w");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    fclose(file);
}

static void expect_refused(const char *path, unsigned flags, int error, const char *text)
{
    struct index *index;
    assert_int_equal(try_open(path, flags, &index), error);
    assert_null(index);
    if (strstr(last_error, text) == NULL)
        fail_msg("message \"%s\" does not say \"%s\"", last_error, text);
    assert_null(strchr(last_error, '\n'));
}

static void create_and_reopen(void **state)
{
    (void)state;
    const char *const store = in(dir, "store");
    struct index *index = open_store(store, INDEX_OPEN_CREATE);
    uint8_t uuid[16];
    memcpy(uuid, index_uuid(index), 16);
    assert_int_equal(index_block_size(index), 131072);
    assert_string_equal(index_path(index), store);
    assert_false(index_readonly(index));
    assert_false(index_dirty(index));
    verify_store(index);
    close_store(index);
    assert_int_equal(file_size(in(store, "sepfs.conf")) > 100, 1);
    index = open_store(store, 0);
    assert_memory_equal(uuid, index_uuid(index), 16);
    struct index_txn *txn;
    struct index_inode root;
    assert_int_equal(index_begin(index, INDEX_READ, &txn), 0);
    assert_int_equal(index_inode_get(txn, INDEX_ROOT_INO, &root), 0);
    assert_true(S_ISDIR(root.mode) && root.parent == INDEX_ROOT_INO && root.nlink == 2);
    index_end(txn);
    close_store(index);
    /* Nothing for others to read. */
    struct stat status;
    assert_int_equal(stat(in(store, "index/data.mdb"), &status), 0);
    assert_int_equal(status.st_mode & 0777, 0600);
    assert_int_equal(stat(in(store, "packs"), &status), 0);
    assert_int_equal(status.st_mode & 0777, 0700);
}

static void create_in_an_empty_directory(void **state)
{
    (void)state;
    assert_int_equal(mkdir(in(dir, "lost+found"), 0700), 0); /* a fresh file system */
    close_store(open_store(dir, INDEX_OPEN_CREATE));
    close_store(open_store(dir, 0));
}

static void refusals(void **state)
{
    (void)state;
    expect_refused(in(dir, "none"), 0, -ENOENT, "none: No such file");
    expect_refused(in(dir, "none/none"), INDEX_OPEN_CREATE, -ENOENT, "none/none: cannot create");
    expect_refused(dir, 0, -ENOENT, "not a sepfs store");
    write_file(in(dir, "file"), "x");
    expect_refused(in(dir, "file"), INDEX_OPEN_CREATE, -ENOTDIR, "Not a directory");
    expect_refused(dir, INDEX_OPEN_CREATE, -ENOTEMPTY, "not empty and not a sepfs store");
    expect_refused(dir, INDEX_OPEN_READONLY, -ENOTEMPTY, "not empty and not a sepfs store");
    assert_int_equal(access(in(dir, "lock"), F_OK), -1); /* nothing was put there */
    expect_refused(in(dir, "x"), INDEX_OPEN_CREATE | INDEX_OPEN_READONLY, -EINVAL, "read-only");
}

static void foreign_directories_of_our_names_are_not_taken(void **state)
{
    (void)state;
    assert_int_equal(mkdir(in(dir, "index"), 0700), 0);
    write_file(in(dir, "index/data.mdb"), "precious");
    expect_refused(dir, INDEX_OPEN_CREATE, -ENOTEMPTY, "not empty");
    assert_int_equal(file_size(in(dir, "index/data.mdb")), 8);
}

static struct dirent *unreadable_readdir(DIR *at)
{
    (void)at;
    errno = EIO;
    return NULL;
}

/* A directory whose names cannot be read is no empty one. */
static void an_unreadable_directory_is_not_taken(void **state)
{
    (void)state;
    const struct index_options options = {.flags = INDEX_OPEN_CREATE};
    struct index_io io = index_io_system;
    struct index *index;
    io.readdir = unreadable_readdir;
    write_file(in(dir, "thesis"), "precious");
    assert_int_equal(index_open_with(dir, &options, &io, &index, last_error, sizeof last_error),
                     -EIO);
    assert_int_equal(access(in(dir, "sepfs.conf"), F_OK), -1);
    assert_int_equal(access(in(dir, "index"), F_OK), -1);
}

static void block_sizes(void **state)
{
    (void)state;
    struct index_options options = {.flags = INDEX_OPEN_CREATE, .block_size = 100000};
    struct index *index;
    const char *const store = in(dir, "s");
    assert_int_equal(index_open(store, &options, &index, last_error, sizeof last_error), -EINVAL);
    options.block_size = 8192;
    assert_int_equal(index_open(store, &options, &index, last_error, sizeof last_error), -EINVAL);
    options.block_size = 8u << 20;
    assert_int_equal(index_open(store, &options, &index, last_error, sizeof last_error), -EINVAL);
    options.block_size = 16384;
    index = open_with(store, &options, &index_io_system);
    assert_int_equal(index_block_size(index), 16384);
    close_store(index);
    index = open_store(store, 0);
    assert_int_equal(index_block_size(index), 16384);
    close_store(index);
    options.block_size = 32768;
    assert_int_equal(index_open(store, &options, &index, last_error, sizeof last_error), -EINVAL);
    assert_non_null(strstr(last_error, "16384"));
}

static void second_open_is_busy(void **state)
{
    (void)state;
    char expected[64];
    struct index *index = open_store(dir, INDEX_OPEN_CREATE);
    snprintf(expected, sizeof expected, "store is mounted by process %ld", (long)getpid());
    expect_refused(dir, 0, -EBUSY, expected);
    expect_refused(dir, INDEX_OPEN_CREATE, -EBUSY, expected);
    close_store(index);
    close_store(open_store(dir, 0));
}

static void lock_ends_with_its_process(void **state)
{
    (void)state;
    close_store(open_store(dir, INDEX_OPEN_CREATE));
    const pid_t child = fork();
    if (child == 0) {
        struct index *index;
        _exit(try_open(dir, 0, &index) == 0 ? 0 : 1); /* dies with the store open */
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    close_store(open_store(dir, 0));
}

static void readonly_beside_a_writer(void **state)
{
    (void)state;
    struct index *writer = open_store(dir, INDEX_OPEN_CREATE);
    const uint64_t ino = make_file(writer, "committed");
    assert_int_equal(store_block(writer, ino, 0, 5000, 1, INDEX_HOT, NULL), 0);
    assert_int_equal(index_commit(writer), 0);
    /* In a process of its own: LMDB allows one opening each. */
    const pid_t child = fork();
    if (child == 0) {
        struct index *reader;
        struct index_txn *txn;
        struct index_dirent entry;
        struct index_space space;
        if (try_open(dir, INDEX_OPEN_READONLY, &reader) != 0)
            _exit(1);
        if (!index_readonly(reader) || index_begin(reader, INDEX_WRITE, &txn) != -EROFS)
            _exit(2);
        if (index_begin(reader, INDEX_READ, &txn) != 0 ||
            index_dirent_lookup(txn, INDEX_ROOT_INO, "committed", &entry) != 0)
            _exit(3);
        struct index_block block;
        if (index_block_next(txn, 0, &block) != 0)
            _exit(4);
        index_end(txn);
        uint8_t data[5000];
        if (index_pack_read(reader, &block, data) != 0)
            _exit(5);
        block.at.pack = 99;
        if (index_pack_read(reader, &block, data) != -ESTALE)
            _exit(6);
        if (index_space(reader, &space) != 0 || space.inodes != 2 || space.blocks != 1)
            _exit(7);
        if (index_reserve(reader, 1) != -EROFS || index_conf_set(reader, "a", "b") != -EROFS ||
            index_commit(reader) != 0 || index_close(reader) != 0)
            _exit(8);
        _exit(0);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(WEXITSTATUS(status), 0);
    make_file(writer, "later");
    close_store(writer);
    writer = open_store(dir, 0);
    verify_store(writer);
    close_store(writer);
}

static void newer_format_is_refused(void **state)
{
    (void)state;
    close_store(open_store(dir, INDEX_OPEN_CREATE));
    write_file(in(dir, "sepfs.conf"), "format=7\nthis line is from the future\n");
    expect_refused(dir, 0, -EPROTONOSUPPORT, "store format 7 is newer than this program (0)");
    expect_refused(dir, INDEX_OPEN_READONLY, -EPROTONOSUPPORT, "store format 7 is newer");
}

static void newer_format_in_the_index_is_refused(void **state)
{
    (void)state;
    struct index *index = open_store(dir, INDEX_OPEN_CREATE);
    struct index_txn *txn;
    struct index_state stored;
    make_file(index, "a");
    close_store(index);
    index = open_store(dir, INDEX_OPEN_NO_RECOVER);
    struct index_key key;
    struct index_record record;
    assert_int_equal(index_begin(index, INDEX_WRITE, &txn), 0);
    assert_int_equal(index_state_load(txn, &stored), 0);
    index_end(txn);
    close_store(index);
    /* As another program would have left it. */
    MDB_env *env;
    MDB_txn *raw;
    MDB_dbi db;
    assert_int_equal(mdb_env_create(&env), 0);
    mdb_env_set_maxdbs(env, 16);
    mdb_env_set_mapsize(env,
                        1u << 24); /* not the 1 TiB of the header, which TSan has no room for */
    assert_int_equal(mdb_env_open(env, in(dir, "index"), 0, 0600), 0);
    assert_int_equal(mdb_txn_begin(env, NULL, 0, &raw), 0);
    assert_int_equal(mdb_dbi_open(raw, "meta", 0, &db), 0);
    stored.format = 3;
    index_key_text(&key, "state");
    stored.commit = mdb_txn_id(raw);
    index_record_state(&record, &stored);
    MDB_val k = {key.size, key.bytes}, v = {record.size + INDEX_SEAL, record.bytes};
    index_seal_put(record.bytes + record.size,
                   index_seal(INDEX_DB_META, &k, record.bytes, record.size));
    assert_int_equal(mdb_put(raw, db, &k, &v, 0), 0);
    assert_int_equal(mdb_txn_commit(raw), 0);
    mdb_env_close(env);
    expect_refused(dir, 0, -EPROTONOSUPPORT, "store format 3 is newer than this program (0)");
}

static void damaged_conf(void **state)
{
    (void)state;
    static const struct {
        const char *text, *message;
    } cases[] = {
        {"", "format is missing"},
        {"format=0\nnonsense\n", "sepfs.conf:2: not \"key=value\""},
        {"format=0\n\n# fine\nBad=1\n", "sepfs.conf:4: not \"key=value\""},
        {"format=0\na=1\na=2\n", "sepfs.conf:3: a is set twice"},
        {"format=x\n", "format is not a number"},
        {"format=0\nuuid=12\nblock_size=131072\n", "uuid is malformed"},
        {"format=0\nblock_size=131072\n", "uuid is missing"},
        {"format=0\nuuid=00000000-0000-4000-8000-000000000000\nblock_size=5\n", "block_size"},
        {"format=0\nuuid=00000000-0000-4000-8000-000000000000\nblock_size=131072\n",
         "belongs to another store"},
    };
    close_store(open_store(dir, INDEX_OPEN_CREATE));
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        write_file(in(dir, "sepfs.conf"), cases[i].text);
        expect_refused(dir, 0, -EUCLEAN, cases[i].message);
    }
}

static void conf_settings(void **state)
{
    (void)state;
    char value[64];
    struct index *index = open_store(dir, INDEX_OPEN_CREATE);
    assert_int_equal(index_conf_get(index, "cold_after", value, sizeof value), -ENOENT);
    assert_int_equal(index_conf_set(index, "cold_after", "7d"), 0);
    assert_int_equal(index_conf_set(index, "policy", "codec = zstd:3 # no comment"), 0);
    assert_int_equal(index_conf_set(index, "cold_after", "30d"), 0);
    assert_int_equal(index_conf_set(index, "empty", ""), 0);
    assert_int_equal(index_conf_get(index, "cold_after", value, sizeof value), 0);
    assert_string_equal(value, "30d");
    assert_int_equal(index_conf_get(index, "cold_after", value, 3), -ERANGE);
    assert_int_equal(index_conf_set(index, "format", "1"), -EINVAL);
    assert_int_equal(index_conf_set(index, "Upper", "1"), -EINVAL);
    assert_int_equal(index_conf_set(index, "", "1"), -EINVAL);
    assert_int_equal(index_conf_set(index, "key", "two\nlines"), -EINVAL);
    assert_int_equal(index_conf_set(index, "key", " blank"), -EINVAL);
    close_store(index);
    index = open_store(dir, 0);
    assert_int_equal(index_conf_get(index, "cold_after", value, sizeof value), 0);
    assert_string_equal(value, "30d");
    assert_int_equal(index_conf_get(index, "policy", value, sizeof value), 0);
    assert_string_equal(value, "codec = zstd:3 # no comment");
    assert_int_equal(index_conf_get(index, "empty", value, sizeof value), 0);
    assert_string_equal(value, "");
    close_store(index);
}

static void conf_set_that_fails_changes_nothing(void **state)
{
    (void)state;
    char value[64];
    const struct index_options options = {.flags = INDEX_OPEN_CREATE};
    struct index *index = open_with(dir, &options, &fault_io);
    assert_int_equal(index_conf_set(index, "a", "old"), 0);
    for (unsigned n = 1; n <= 4; n++) { /* open, write, fsync, rename */
        fault.calls = 0;
        fault.fail_at = n;
        fault.error = ENOSPC;
        assert_int_equal(index_conf_set(index, "a", "new"), -ENOSPC);
        assert_int_equal(index_conf_set(index, "a", "old"), 0);
        fault.calls = 0;
        assert_int_equal(index_conf_set(index, "b", "new"), -ENOSPC);
        assert_int_equal(index_conf_get(index, "b", value, sizeof value), -ENOENT);
    }
    fault_reset();
    close_store(index);
    index = open_store(dir, 0);
    assert_int_equal(index_conf_get(index, "a", value, sizeof value), 0);
    assert_string_equal(value, "old");
    close_store(index);
}

static void damaged_index_files(void **state)
{
    (void)state;
    close_store(open_store(dir, INDEX_OPEN_CREATE));
    const char *const file = in(dir, "index/data.mdb");
    char copy[256];
    scratch_make(copy);
    copy_tree(dir, copy);
    assert_int_equal(truncate(file, (off_t)file_size(file) - 4096), 0);
    expect_refused(dir, 0, -EUCLEAN, "data.mdb: page 4: the file is cut short");
    assert_int_equal(truncate(file, 0), 0);
    expect_refused(dir, 0, -EUCLEAN, "data.mdb: damaged or unreadable");
    assert_int_equal(unlink(file), 0);
    expect_refused(dir, 0, -EUCLEAN, "data.mdb");
    assert_int_equal(access(file, F_OK), -1); /* and no fresh one was made */
    copy_tree(copy, dir);
    uint8_t noise[8192];
    fill(noise, sizeof noise, 1);
    poke(file, 0, noise, sizeof noise);
    expect_refused(dir, 0, -EUCLEAN, "/index/data.mdb: page 0: ");
    copy_tree(copy, dir);
    scratch_remove(in(dir, "packs"));
    expect_refused(dir, 0, -EUCLEAN, "/packs: ");
    scratch_remove(copy);
}

/* Creation cut off after each of its system calls is finished by the next one. */
static void interrupted_creation(void **state)
{
    (void)state;
    const struct index_options options = {.flags = INDEX_OPEN_CREATE};
    struct index *index;
    unsigned failures = 0;
    for (uint64_t n = 1; n < 200; n++) {
        char store[300];
        snprintf(store, sizeof store, "%s/%u", dir, (unsigned)n);
        fault_reset();
        fault.fail_at = n;
        fault.forever = true;
        const int error =
            index_open_with(store, &options, &fault_io, &index, last_error, sizeof last_error);
        const bool finished = fault.calls < n;
        fault_reset();
        if (error == 0) {
            close_store(index);
        } else {
            failures++;
            assert_true(last_error[0] != '\0');
        }
        index = open_store(store, INDEX_OPEN_CREATE);
        verify_store(index);
        make_file(index, "a");
        close_store(index);
        if (finished)
            break;
    }
    assert_true(failures > 20);
}

/* What was done to directories, in order: "mkdir NAME" and "sync NAME", a line each. */
static char trace[1024];

static void note(const char *what, const char *name)
{
    const size_t used = strlen(trace);
    snprintf(trace + used, sizeof trace - used, "%s %s\n", what, name);
}

static int noting_mkdirat(int at, const char *path, mode_t mode)
{
    note("mkdir", path);
    return index_io_system.mkdirat(at, path, mode);
}

static int noting_fsync(int fd)
{
    char link[32], path[512] = "";
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    assert_true(readlink(link, path, sizeof path - 1) > 0);
    note("sync", strrchr(path, '/') + 1);
    return index_io_system.fsync(fd);
}

/* Without the lock file a power cut would leave directories that are taken for somebody else's. */
static void creation_makes_the_lock_durable_first(void **state)
{
    (void)state;
    const struct index_options options = {.flags = INDEX_OPEN_CREATE};
    struct index_io io = index_io_system;
    io.mkdirat = noting_mkdirat;
    io.fsync = noting_fsync;
    trace[0] = '\0';
    const char *const name = strrchr(dir, '/') + 1;
    close_store(open_with(dir, &options, &io));
    char first[300];
    snprintf(first, sizeof first, "sync %s\nmkdir index\n", name);
    assert_memory_equal(trace, first, strlen(first));
}

/* Whoever gave the files their names may have been killed before it synced them. */
static void a_writer_makes_names_durable(void **state)
{
    (void)state;
    const struct index_options options = {0};
    struct index_io io = index_io_system;
    const char *const store = in(dir, "store");
    close_store(open_store(store, INDEX_OPEN_CREATE));
    io.fsync = noting_fsync;
    trace[0] = '\0';
    struct index *const index = open_with(store, &options, &io);
    char all[300];
    snprintf(all, sizeof all, "sync index\nsync store\nsync %s\n", strrchr(dir, '/') + 1);
    assert_string_equal(trace, all);
    close_store(index);
}

static void index_file_shrinks_at_close(void **state)
{
    (void)state;
    struct index *index = open_store(dir, INDEX_OPEN_CREATE);
    for (unsigned i = 0; i < 20000; i++) {
        char name[32];
        snprintf(name, sizeof name, "file-%u", i);
        make_file(index, name);
        if (i % 2000 == 0)
            assert_int_equal(index_commit(index), 0);
    }
    for (unsigned i = 10; i < 20000; i++) {
        char name[32];
        snprintf(name, sizeof name, "file-%u", i);
        assert_int_equal(drop_file(index, i + 2, name), 0);
    }
    assert_int_equal(index_commit(index), 0);
    const uint64_t before = file_size(in(dir, "index/data.mdb"));
    close_store(index);
    const uint64_t after = file_size(in(dir, "index/data.mdb"));
    assert_true(before > 1u << 20);
    assert_true(after < 128u << 10);
    assert_true(file_blocks(in(dir, "index/data.mdb")) * 512 <= after + 4096);
    assert_int_equal(access(in(dir, "index/lock.mdb"), F_OK), -1);
    assert_int_equal(access(in(dir, "index/data.mdb.new"), F_OK), -1);
    index = open_store(dir, 0);
    verify_store(index);
    struct index_space space;
    assert_int_equal(index_space(index, &space), 0);
    assert_int_equal(space.inodes, 11);
    /* Numbers go on where they were. */
    assert_true(make_file(index, "next") > 20001);
    close_store(index);
}

/* LMDB does not write pages that one transaction takes and gives back, so its file may end before
 * its last page. Neither a crash nor a close may leave what then looks like a file cut short. */
static void pages_that_were_never_written(void **state)
{
    (void)state;
    static uint8_t value[INDEX_XATTR_SIZE_MAX];
    char copy[256];
    struct index *index = open_store(dir, INDEX_OPEN_CREATE), *other;
    struct index_txn *txn;
    memset(value, 1, sizeof value);
    const uint64_t ino = make_file(index, "file");
    assert_int_equal(index_commit(index), 0);
    assert_int_equal(index_begin(index, INDEX_WRITE, &txn), 0);
    assert_int_equal(index_xattr_set(txn, ino, "user.x", value, sizeof value, 0), 0);
    assert_int_equal(index_xattr_remove(txn, ino, "user.x"), 0);
    index_end(txn);
    assert_int_equal(index_commit(index), 0);
    assert_true(file_size(in(dir, "index/data.mdb")) >= atomic_load(&index->index_used));
    scratch_make(copy);
    copy_tree(dir, copy); /* as a crash leaves it */
    other = open_store(copy, 0);
    verify_store(other);
    close_store(other);
    other = open_store(copy, 0);
    verify_store(other);
    close_store(other);
    scratch_remove(copy);
    close_store(index);
    index = open_store(dir, INDEX_OPEN_READONLY);
    assert_int_equal(file_size(in(dir, "index/data.mdb")), atomic_load(&index->index_used));
    close_store(index);
}

/* A process that is killed while it reads must not keep pages from being used again for ever. */
static void a_killed_reader_holds_nothing(void **state)
{
    (void)state;
    int ready[2];
    char byte = 0;
    struct index *index = open_store(dir, INDEX_OPEN_CREATE);
    const uint64_t ino = make_file(index, "file");
    assert_int_equal(index_commit(index), 0);
    assert_int_equal(pipe(ready), 0);
    const pid_t child = fork();
    if (child == 0) {
        struct index *reader;
        struct index_txn *txn;
        if (try_open(dir, INDEX_OPEN_READONLY, &reader) != 0 ||
            index_begin(reader, INDEX_READ, &txn) != 0 || write(ready[1], "r", 1) != 1)
            _exit(1);
        for (;;)
            pause();
    }
    assert_int_equal(read(ready[0], &byte, 1), 1);
    kill(child, SIGKILL);
    assert_int_equal(waitpid(child, NULL, 0), child);
    const uint64_t before = atomic_load(&index->index_used);
    for (unsigned i = 0; i < 200; i++) {
        struct index_txn *txn;
        struct index_inode inode;
        assert_int_equal(index_begin(index, INDEX_WRITE, &txn), 0);
        assert_int_equal(index_inode_get(txn, ino, &inode), 0);
        inode.mtime.tv_sec = i;
        assert_int_equal(index_inode_put(txn, &inode), 0);
        index_end(txn);
        assert_int_equal(index_commit(index), 0);
    }
    assert_true(atomic_load(&index->index_used) - before < 64 * index->page_size);
    close(ready[0]);
    close(ready[1]);
    close_store(index);
}

/* The mark of a truncation that met damage may stay while the file is written on: recovery takes
 * nothing that the file's size covers. */
static void a_stale_mark_takes_no_data(void **state)
{
    (void)state;
    struct index *index = open_store(dir, INDEX_OPEN_CREATE);
    struct index_extent extent;
    struct index_inode inode;
    struct index_txn *txn;
    const uint64_t ino = make_file(index, "file");
    for (uint64_t i = 0; i < 4; i++)
        assert_int_equal(store_block(index, ino, i, index->block_size, i, INDEX_HOT, NULL), 0);
    assert_int_equal(index_begin(index, INDEX_WRITE, &txn), 0);
    assert_int_equal(index_inode_get(txn, ino, &inode), 0);
    inode.size = 2 * (uint64_t)index->block_size + 1;
    assert_int_equal(index_inode_put(txn, &inode), 0);
    assert_int_equal(index_orphan_set(txn, ino, 1), 0);
    index_end(txn);
    close_store(index);
    index = open_store(dir, 0);
    assert_int_equal(index_begin(index, INDEX_READ, &txn), 0);
    for (uint64_t i = 0; i < 4; i++)
        assert_int_equal(index_extent_get(txn, ino, i, &extent), i < 3 ? 0 : -ENOENT);
    index_end(txn);
    close_store(index);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(create_and_reopen, setup, teardown),
        cmocka_unit_test_setup_teardown(create_in_an_empty_directory, setup, teardown),
        cmocka_unit_test_setup_teardown(refusals, setup, teardown),
        cmocka_unit_test_setup_teardown(foreign_directories_of_our_names_are_not_taken, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(an_unreadable_directory_is_not_taken, setup, teardown),
        cmocka_unit_test_setup_teardown(block_sizes, setup, teardown),
        cmocka_unit_test_setup_teardown(second_open_is_busy, setup, teardown),
        cmocka_unit_test_setup_teardown(lock_ends_with_its_process, setup, teardown),
        cmocka_unit_test_setup_teardown(readonly_beside_a_writer, setup, teardown),
        cmocka_unit_test_setup_teardown(newer_format_is_refused, setup, teardown),
        cmocka_unit_test_setup_teardown(newer_format_in_the_index_is_refused, setup, teardown),
        cmocka_unit_test_setup_teardown(damaged_conf, setup, teardown),
        cmocka_unit_test_setup_teardown(conf_settings, setup, teardown),
        cmocka_unit_test_setup_teardown(conf_set_that_fails_changes_nothing, setup, teardown),
        cmocka_unit_test_setup_teardown(damaged_index_files, setup, teardown),
        cmocka_unit_test_setup_teardown(interrupted_creation, setup, teardown),
        cmocka_unit_test_setup_teardown(creation_makes_the_lock_durable_first, setup, teardown),
        cmocka_unit_test_setup_teardown(a_writer_makes_names_durable, setup, teardown),
        cmocka_unit_test_setup_teardown(index_file_shrinks_at_close, setup, teardown),
        cmocka_unit_test_setup_teardown(pages_that_were_never_written, setup, teardown),
        cmocka_unit_test_setup_teardown(a_killed_reader_holds_nothing, setup, teardown),
        cmocka_unit_test_setup_teardown(a_stale_mark_takes_no_data, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
