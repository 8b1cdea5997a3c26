/* SPDX-License-Identifier: BSD-2-Clause
 *
 * powercut_store.c - see powercut_store.h. In this order: the store opens, and says nothing of an
 * error; a check that reads every record finds nothing, not even what it could derive; names, tags,
 * contents and the setting are what they may be; nothing else is there.
 */
#include "powercut_store.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/falloc.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <syslog.h>

#include "fs/file.h"
#include "fs/reaper.h"
#include "index/internal.h"
#include "powercut_decode.h"

#define ENTRIES 64u /* of a directory, at most */

struct entry {
    char name[INDEX_NAME_MAX + 1];
    uint64_t ino;
};

struct listing {
    struct entry list[ENTRIES];
    size_t count;
};

struct found {
    struct index *index;
    struct fs fs;
    const struct promise *promise;
    bool good;
    char *text;
    size_t size;
    bool models_gone; /* when the store is opened again */
    uint64_t inodes;  /* that are accounted for */
};

/* The first one is told. */
static void bad(struct found *f, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void bad(struct found *f, const char *format, ...)
{
    va_list args;
    if (!f->good)
        return;
    f->good = false;
    va_start(args, format);
    vsnprintf(f->text, f->size, format, args);
    va_end(args);
}

static void on_log(void *arg, int priority, const char *line)
{
    if (priority <= LOG_ERR)
        bad(arg, "the index says: %s", line);
}

static void on_problem(void *arg, const struct index_problem *problem)
{
    bad(arg, "check finds %s: %s", problem->kind, problem->text);
}

/* ---- names ----------------------------------------------------------------------------------------- */

static int list(struct found *f, uint64_t dir, struct listing *listing)
{
    struct index_dirent entry = {.cookie = 0};
    struct index_txn *txn;
    int error = index_begin(f->index, INDEX_READ, &txn);
    listing->count = 0;
    if (error != 0)
        return error;
    while (listing->count < ENTRIES &&
           (error = index_dirent_next(txn, dir, entry.cookie + 1, &entry)) == 0) {
        struct entry *const to = &listing->list[listing->count++];
        memcpy(to->name, entry.name, sizeof to->name);
        to->ino = entry.ino;
    }
    index_end(txn);
    return error == -ENOENT ? 0 : error != 0 ? error : -EOVERFLOW;
}

static uint64_t tag_of(struct found *f, uint64_t ino)
{
    struct index_txn *txn;
    const void *value;
    uint64_t tag = 0;
    size_t size;
    if (index_begin(f->index, INDEX_READ, &txn) != 0)
        return UINT64_MAX;
    const int error = index_xattr_get(txn, ino, POWERCUT_TAG, &value, &size);
    if (error == 0 && size == sizeof tag)
        memcpy(&tag, value, size);
    index_end(txn);
    return error == 0 || error == -ENODATA ? tag : UINT64_MAX;
}

static const struct entry *look_up(const struct listing *listing, const char *name)
{
    for (size_t i = 0; i < listing->count; i++) {
        if (strcmp(listing->list[i].name, name) == 0)
            return &listing->list[i];
    }
    return NULL;
}

/* Whether the names in LISTING, NULL for no directory, are NAMES. */
static bool same_names(struct found *f, uint32_t actor, const struct listing *listing,
                       const struct promise_names *names)
{
    size_t count = 0;
    if ((listing != NULL) != names->directory)
        return false;
    for (uint32_t i = 0; i < POWERCUT_NAMES && listing != NULL; i++) {
        const uint32_t file = names->file[i];
        char text[16];
        powercut_file_name(i, text);
        const struct entry *const entry = look_up(listing, text);
        if ((entry == NULL) != (file == POWERCUT_NO_FILE))
            return false;
        if (entry == NULL)
            continue;
        const uint64_t ino = promise_ino(f->promise, actor, file);
        if ((ino != 0 && ino != entry->ino) || tag_of(f, entry->ino) != names->tag[file])
            return false;
        count++;
    }
    return listing == NULL || count == listing->count;
}

static void tell_names(struct found *f, uint32_t actor, const struct listing *listing)
{
    char names[1024] = "";
    size_t used = 0;
    uint32_t least, most;
    promise_range(f->promise, actor, &least, &most);
    for (size_t i = 0; listing != NULL && i < listing->count && used < sizeof names; i++)
        used += (size_t)snprintf(names + used, sizeof names - used, " %s=%ju",
                                 listing->list[i].name, (uintmax_t)listing->list[i].ino);
    bad(f, "actor %u: names are those after none of %u to %u operations:%s", actor, least, most,
        listing == NULL ? " no directory" : names);
}

/* ---- contents -------------------------------------------------------------------------------------- */

static void check_file(struct found *f, uint32_t actor, uint32_t file, uint64_t ino,
                       const struct promise_names *names)
{
    static uint8_t data[POWERCUT_FILE_MAX + 1];
    char reason[256] = "";
    struct index_inode attr = {0};
    struct index_txn *txn;
    struct fs_inode *inode;
    int error = fs_inode_hold(&f->fs, ino, &inode);
    if (error != 0) {
        bad(f, "actor %u, file %u, inode %ju: %s", actor, file, (uintmax_t)ino, strerror(-error));
        return;
    }
    error = index_begin(f->index, INDEX_READ, &txn);
    if (error == 0) {
        error = fs_attr_get(&f->fs, txn, ino, &attr);
        index_end(txn);
    }
    const ssize_t got =
        error != 0 ? error : fs_file_read(&f->fs, inode, NULL, data, sizeof data, 0);
    if (got < 0)
        bad(f, "actor %u, file %u, inode %ju: read: %s", actor, file, (uintmax_t)ino,
            strerror((int)-got));
    else if (attr.nlink != names->links[file])
        bad(f, "actor %u, file %u, inode %ju: %u links, not %u", actor, file, (uintmax_t)ino,
            attr.nlink, names->links[file]);
    else if (attr.size != (uint64_t)got)
        bad(f, "actor %u, file %u, inode %ju: %zd bytes read of %ju", actor, file, (uintmax_t)ino,
            got, (uintmax_t)attr.size);
    else if (!promise_contents(f->promise, actor, file, names->floor[file], data, (uint64_t)got,
                               reason, sizeof reason))
        bad(f, "actor %u, file %u, inode %ju: %s", actor, file, (uintmax_t)ino, reason);
    fs_inode_drop(&f->fs, inode);
}

static void check_actor(struct found *f, uint32_t actor, const struct listing *root)
{
    static struct promise_names names;
    struct listing listing;
    char text[16];
    uint32_t least, most;
    powercut_dir_name(actor, text);
    const struct entry *const dir = look_up(root, text);
    const int error = dir == NULL ? 0 : list(f, dir->ino, &listing);
    if (error != 0) {
        bad(f, "actor %u: its directory: %s", actor, strerror(-error));
        return;
    }
    f->inodes += dir != NULL;
    promise_range(f->promise, actor, &least, &most);
    bool same = false;
    for (uint32_t count = least; count <= most && !same; count++) {
        promise_names(f->promise, actor, count, &names);
        same = same_names(f, actor, dir == NULL ? NULL : &listing, &names);
    }
    if (!same) {
        tell_names(f, actor, dir == NULL ? NULL : &listing);
        return;
    }
    for (uint32_t i = 0; dir != NULL && i < POWERCUT_NAMES; i++) {
        const uint32_t file = names.file[i];
        bool first = file != POWERCUT_NO_FILE;
        for (uint32_t j = 0; j < i; j++)
            first = first && names.file[j] != file;
        if (!first)
            continue;
        powercut_file_name(i, text);
        check_file(f, actor, file, look_up(&listing, text)->ino, &names);
        f->inodes++;
    }
}

static void check_names(struct found *f)
{
    struct listing root;
    struct index_space space;
    const int error = list(f, INDEX_ROOT_INO, &root);
    if (error != 0) {
        bad(f, "the root directory: %s", strerror(-error));
        return;
    }
    f->inodes = 1;
    for (uint32_t i = 0; i < promise_actors(f->promise); i++)
        check_actor(f, i, &root);
    fs_reaper_wait(&f->fs);
    if (index_space(f->index, &space) != 0 || space.inodes != f->inodes)
        bad(f, "%ju inodes, of which names account for %ju", (uintmax_t)space.inodes,
            (uintmax_t)f->inodes);
}

static void check_conf(struct found *f)
{
    uint64_t values[64];
    char text[64] = "";
    const int error = index_conf_get(f->index, POWERCUT_CONF, text, sizeof text);
    const uint64_t value = error == 0 ? strtoull(text, NULL, 10) : 0;
    const unsigned count = promise_conf(f->promise, values, 64);
    for (unsigned i = 0; i < count; i++) {
        if ((error == 0 || error == -ENOENT) && values[i] == value)
            return;
    }
    bad(f, "the setting is '%s', not %ju, nor any of %u later ones", text, (uintmax_t)values[0],
        count - 1);
}

/* ---- models ---------------------------------------------------------------------------------------- */

static int count_model(void *arg, uint64_t hash)
{
    struct found *const f = arg;
    const uint64_t number = hash - POWERCUT_HASH;
    if (number >= POWERCUT_MODELS || !promise_model(f->promise, (uint32_t)number)->may)
        bad(f, "model %016jx was never added", (uintmax_t)hash);
    return 0;
}

/* It is there as a whole, or not at all. It goes: a mount would say that it is none. */
static void check_model(struct found *f, uint32_t number)
{
    static uint8_t expected[POWERCUT_FILE_MAX];
    const struct promise_model *const model = promise_model(f->promise, number);
    const struct mark *const m = &model->mark;
    void *bytes = NULL;
    size_t size = 0;
    int error = index_model_read(f->index, POWERCUT_HASH + number, &bytes, &size);
    if (error == -ENOENT && !model->must)
        return;
    powercut_fill(expected, m->length, m->content, m->seed);
    if (error != 0)
        bad(f, "model %u: %s", number, strerror(-error));
    else if (size != m->length || memcmp(bytes, expected, size) != 0)
        bad(f, "model %u: %zu bytes that are not what was added", number, size);
    free(bytes);
    error = index_model_remove(f->index, POWERCUT_HASH + number);
    if (error != 0)
        bad(f, "model %u: removal: %s", number, strerror(-error));
}

static void check_models(struct found *f)
{
    const int error = index_model_each(f->index, count_model, f);
    if (error != 0)
        bad(f, "models: %s", strerror(-error));
    for (uint32_t i = 0; i < POWERCUT_MODELS; i++) {
        if (promise_model(f->promise, i)->may)
            check_model(f, i);
    }
}

/* ---- the whole -------------------------------------------------------------------------------------- */

static void on_repaired(void *arg, const struct index_problem *problem)
{
    if (problem->state == INDEX_PROBLEM_LOST)
        bad(arg, "repair loses %s: %s", problem->kind, problem->text);
}

/* The passes of sepfs-fsck --deep; of sepfs-fsck -y before, when there may be damage. */
static int check(struct found *f)
{
    const struct index_check repair = {.repair = true, .problem = on_repaired, .arg = f};
    const struct index_check deep = {
        .scrub = true, .decode = powercut_decode, .problem = on_problem, .arg = f};
    int error = index_commit(f->index); /* what opening finished: sums are stored by commits */
    if (error == 0 && promise_damaged(f->promise))
        error = index_check(f->index, &repair);
    return error == 0 ? index_check(f->index, &deep) : error;
}

static void look(struct found *f)
{
    struct fs_options options;
    int error = check(f);
    if (!f->models_gone)
        check_models(f);
    f->models_gone = true;
    if (error != 0)
        bad(f, "check: %s", strerror(-error));
    fs_options_init(&options);
    options.threads = 1;
    options.cache = 1u << 20;
    options.compact = FS_COMPACT_OFF;
    options.models[0] = '\0';
    error = fs_data_start(&f->fs, f->index, &options);
    if (error != 0) {
        bad(f, "start: %s", strerror(-error));
        return;
    }
    check_names(f);
    check_conf(f);
    error = fs_data_stop(&f->fs);
    if (error != 0)
        bad(f, "stop: %s", strerror(-error));
}

/* Tens of thousands of stores are opened: they hold no room for what will not be written to them. */
static int allocate_nothing(int fd, int mode, off_t offset, off_t size)
{
    if ((mode & FALLOC_FL_PUNCH_HOLE) != 0)
        return fallocate(fd, mode, offset, size);
    errno = EOPNOTSUPP;
    return -1;
}

/* A store whose creation was not acknowledged may be none yet, and is begun again. */
static void open_and_look(struct found *f, const char *path)
{
    struct index_options options = {
        .map_size = POWERCUT_MAP, .pack_size = POWERCUT_PACK, .log = on_log, .log_arg = f};
    struct index_io io = index_io_system;
    char error[256] = "";
    io.fallocate = allocate_nothing;
    if (!promise_opened(f->promise))
        options.flags = INDEX_OPEN_CREATE;
    const int result = index_open_with(path, &options, &io, &f->index, error, sizeof error);
    if (result != 0) {
        bad(f, "open: %s", error);
        return;
    }
    look(f);
    const int closed = index_close(f->index);
    if (closed != 0)
        bad(f, "close: %s", strerror(-closed));
}

bool store_holds(const char *path, const struct promise *promise, bool again, char *text,
                 size_t size)
{
    struct found f = {.promise = promise, .good = true, .text = text, .size = size};
    open_and_look(&f, path);
    if (f.good && again)
        open_and_look(&f, path);
    return f.good;
}
