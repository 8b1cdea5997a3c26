/* SPDX-License-Identifier: BSD-2-Clause
 *
 * fsx_operations.c - the operations, each done to the file and to its model, and how their ranges
 * and bytes are chosen: most mistakes sit at the edges of pages and blocks and at the end of file.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fsx.h"

struct range {
    size_t offset, length;
};

/* ---- choices ------------------------------------------------------------------------------------
 */

static bool chance(struct fsx_worker *worker, size_t percent)
{
    return fsx_below(worker, 100) < percent;
}

/* A length up to MOST > 0: mostly small, sometimes pages, sometimes whole blocks and more. */
static size_t choose_length(struct fsx_worker *worker, size_t most)
{
    static const size_t scales[] = {16, 600, 5000, 5000, 70000, 140000, 400000};
    const size_t scale = scales[fsx_below(worker, sizeof scales / sizeof *scales)];
    const size_t length = 1 + fsx_below(worker, scale);
    return length < most ? length : most;
}

/* An offset below BELOW > 0; every second one at or beside an edge of a page or block. */
static size_t choose_offset(struct fsx_worker *worker, size_t below)
{
    static const size_t units[] = {4096, 16384, 131072, 131072};
    size_t offset = fsx_below(worker, below);
    if (chance(worker, 50)) {
        const size_t unit = units[fsx_below(worker, 4)];
        offset = offset / unit * unit + fsx_below(worker, 5); /* -2 .. 2 around the edge */
        offset = offset >= 2 ? offset - 2 : 0;
    }
    return offset < below ? offset : below - 1;
}

/* A range inside the file, which must not be empty. */
static struct range choose_inside(struct fsx_worker *worker, const struct fsx_file *file)
{
    struct range range;
    range.offset = choose_offset(worker, file->size);
    range.length = choose_length(worker, file->size - range.offset);
    return range;
}

/* A range that may begin behind the end, by not too much, and grow the file. */
static struct range choose_anywhere(struct fsx_worker *worker, const struct fsx_file *file)
{
    struct range range;
    const size_t reach = file->size + 300000;
    if (chance(worker, 25) && file->size < worker->limit)
        range.offset = file->size; /* append */
    else
        range.offset = choose_offset(worker, reach < worker->limit ? reach : worker->limit);
    range.length = choose_length(worker, worker->limit - range.offset);
    return range;
}

/* Bytes of every kind that a store treats differently: noise, text, zeros, a constant, and a copy
 * of what stands elsewhere in the file, which is the same block again when it is aligned. */
static void choose_bytes(struct fsx_worker *worker, const struct fsx_file *file,
                         unsigned char *bytes, size_t length)
{
    const size_t kind = fsx_below(worker, 10);
    if (kind == 0) {
        memset(bytes, 0, length);
    } else if (kind == 1) {
        memset(bytes, (int)fsx_below(worker, 256), length);
    } else if (kind == 2 && file->size > length) {
        memcpy(bytes, file->model + fsx_below(worker, file->size - length), length);
    } else if (kind < 6) {
        uint64_t word = 0;
        for (size_t i = 0; i < length; i++) {
            word = i % 8 ? word >> 8 : fsx_random(worker);
            bytes[i] = (unsigned char)word;
        }
    } else {
        char line[64];
        for (size_t i = 0; i < length;) {
            const int size = snprintf(line, sizeof line, "process %u wrote line %zu, value %zu\n",
                                      worker->number, i, fsx_below(worker, 1000));
            const size_t part = (size_t)size < length - i ? (size_t)size : length - i;
            memcpy(bytes + i, line, part);
            i += part;
        }
    }
}

/* ---- operations: false when the file system does not have it ------------------------------------
 */

static void grow_model(struct fsx_file *file, size_t end)
{
    if (end > file->size)
        file->size = end;
}

static bool do_read(struct fsx_worker *worker, struct fsx_file *file)
{
    const struct range range = choose_anywhere(worker, file);
    fsx_log(worker, file, "read", range.offset, range.length);
    const ssize_t got = pread(file->fd, worker->buffer, range.length, (off_t)range.offset);
    size_t want = range.offset < file->size ? file->size - range.offset : 0;
    want = want < range.length ? want : range.length;
    if (got != (ssize_t)want)
        fsx_fail(worker, file, "pread returned %zd (%s), expected %zu", got,
                 got < 0 ? strerror(errno) : "no error", want);
    fsx_compare(worker, file, worker->buffer, range.offset, want, "pread");
    return true;
}

static bool do_write(struct fsx_worker *worker, struct fsx_file *file)
{
    const struct range range = choose_anywhere(worker, file);
    fsx_log(worker, file, "write", range.offset, range.length);
    choose_bytes(worker, file, worker->buffer, range.length);
    const ssize_t done = pwrite(file->fd, worker->buffer, range.length, (off_t)range.offset);
    if (done != (ssize_t)range.length)
        fsx_fail(worker, file, "pwrite returned %zd (%s)", done,
                 done < 0 ? strerror(errno) : "no error");
    memcpy(file->model + range.offset, worker->buffer, range.length);
    grow_model(file, range.offset + range.length);
    return true;
}

static bool do_truncate(struct fsx_worker *worker, struct fsx_file *file)
{
    size_t size = chance(worker, 10) ? 0 : choose_offset(worker, worker->limit);
    if (size < file->size && chance(worker, 60)) /* long files see more: cut little, mostly */
        size = file->size - choose_length(worker, file->size);
    fsx_log(worker, file, "truncate", size, 0);
    if (ftruncate(file->fd, (off_t)size))
        fsx_fail(worker, file, "ftruncate: %s", strerror(errno));
    if (size < file->size)
        memset(file->model + size, 0, file->size - size);
    file->size = size;
    return true;
}

/* Start of RANGE in memory: in the mapping that is kept, or in a new one, in *MAPPED (0 or bytes
 * to unmap from *BASE). */
static unsigned char *map_range(struct fsx_worker *worker, struct fsx_file *file,
                                struct range range, void **base, size_t *mapped)
{
    *mapped = 0;
    if (file->map)
        return file->map + range.offset;
    const size_t page = range.offset / 4096 * 4096;
    *mapped = range.offset + range.length - page;
    *base = mmap(NULL, *mapped, PROT_READ | PROT_WRITE, MAP_SHARED, file->fd, (off_t)page);
    if (*base == MAP_FAILED)
        fsx_fail(worker, file, "mmap: %s", strerror(errno));
    fsx_note(worker, " new mapping");
    return (unsigned char *)*base + (range.offset - page);
}

static bool do_map_read(struct fsx_worker *worker, struct fsx_file *file)
{
    void *base;
    size_t mapped;
    if (!file->size)
        return true;
    const struct range range = choose_inside(worker, file);
    fsx_log(worker, file, "map-read", range.offset, range.length);
    const unsigned char *at = map_range(worker, file, range, &base, &mapped);
    fsx_compare(worker, file, at, range.offset, range.length, "mapping");
    if (mapped)
        munmap(base, mapped);
    return true;
}

static bool do_map_write(struct fsx_worker *worker, struct fsx_file *file)
{
    void *base;
    size_t mapped;
    if (!file->size)
        return true;
    const struct range range = choose_inside(worker, file);
    fsx_log(worker, file, "map-write", range.offset, range.length);
    choose_bytes(worker, file, worker->buffer, range.length);
    unsigned char *at = map_range(worker, file, range, &base, &mapped);
    memcpy(at, worker->buffer, range.length);
    memcpy(file->model + range.offset, worker->buffer, range.length);
    if (chance(worker, 30)) {
        void *page = (void *)((uintptr_t)at / 4096 * 4096);
        fsx_note(worker, " msync");
        if (msync(page, (uintptr_t)at + range.length - (uintptr_t)page, MS_SYNC))
            fsx_fail(worker, file, "msync: %s", strerror(errno));
    }
    if (mapped)
        munmap(base, mapped);
    return true;
}

/* fallocate; false: not supported. */
static bool allocate(struct fsx_worker *worker, struct fsx_file *file, int mode, struct range range)
{
    if (fallocate(file->fd, mode, (off_t)range.offset, (off_t)range.length) == 0)
        return true;
    if (errno != EOPNOTSUPP)
        fsx_fail(worker, file, "fallocate: %s", strerror(errno));
    return false;
}

/* The part of RANGE inside the file becomes zeros; it stays as long as it is. */
static void zero_model(struct fsx_file *file, struct range range)
{
    const size_t end = range.offset + range.length;
    const size_t stop = end < file->size ? end : file->size;
    if (range.offset < stop)
        memset(file->model + range.offset, 0, stop - range.offset);
}

static bool do_punch(struct fsx_worker *worker, struct fsx_file *file)
{
    const struct range range = choose_anywhere(worker, file);
    fsx_log(worker, file, "punch", range.offset, range.length);
    if (!allocate(worker, file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, range))
        return false;
    zero_model(file, range);
    return true;
}

static bool do_zero(struct fsx_worker *worker, struct fsx_file *file)
{
    const struct range range = choose_anywhere(worker, file);
    const int keep = chance(worker, 50) ? FALLOC_FL_KEEP_SIZE : 0;
    fsx_log(worker, file, "zero", range.offset, range.length);
    fsx_note(worker, keep ? " keep size" : "");
    if (!allocate(worker, file, FALLOC_FL_ZERO_RANGE | keep, range))
        return false;
    zero_model(file, range);
    if (!keep)
        grow_model(file, range.offset + range.length);
    return true;
}

static bool do_allocate(struct fsx_worker *worker, struct fsx_file *file)
{
    const struct range range = choose_anywhere(worker, file);
    const int keep = chance(worker, 50) ? FALLOC_FL_KEEP_SIZE : 0;
    fsx_log(worker, file, "allocate", range.offset, range.length);
    fsx_note(worker, keep ? " keep size" : "");
    if (!allocate(worker, file, keep, range))
        return false;
    if (!keep)
        grow_model(file, range.offset + range.length);
    return true;
}

static bool do_copy(struct fsx_worker *worker, struct fsx_file *file)
{
    const struct fsx_file *source = &worker->files[fsx_below(worker, FSX_FILES)];
    if (!source->size)
        return true;
    const struct range from = choose_inside(worker, source);
    struct range to = choose_anywhere(worker, file);
    if (chance(worker, 50)) { /* blocks are shared where both offsets are aligned alike */
        const size_t moved = to.offset / 131072 * 131072 + from.offset % 131072;
        to.offset = moved < worker->limit ? moved : to.offset;
    }
    to.length = from.length < worker->limit - to.offset ? from.length : worker->limit - to.offset;
    const size_t apart =
        from.offset > to.offset ? from.offset - to.offset : to.offset - from.offset;
    if (source == file && apart < to.length)
        return true; /* overlapping ranges are an error by definition */
    fsx_log(worker, file, "copy", to.offset, to.length);
    fsx_note(worker, " from %.32s at %zu", source->name, from.offset);
    off_t in = (off_t)from.offset, out = (off_t)to.offset;
    for (size_t left = to.length; left;) {
        const ssize_t part = copy_file_range(source->fd, &in, file->fd, &out, left, 0);
        if (part < 0 && (errno == EOPNOTSUPP || errno == ENOSYS || errno == EXDEV))
            return false;
        if (part <= 0)
            fsx_fail(worker, file, "copy_file_range returned %zd (%s), %zu bytes left", part,
                     part < 0 ? strerror(errno) : "no error", left);
        left -= (size_t)part;
    }
    memmove(file->model + to.offset, source->model + from.offset, to.length);
    grow_model(file, to.offset + to.length);
    return true;
}

static bool do_sync(struct fsx_worker *worker, struct fsx_file *file)
{
    const bool data = chance(worker, 30);
    fsx_log(worker, file, data ? "fdatasync" : "fsync", 0, 0);
    if (data ? fdatasync(file->fd) : fsync(file->fd))
        fsx_fail(worker, file, "%s: %s", data ? "fdatasync" : "fsync", strerror(errno));
    return true;
}

static void close_file(struct fsx_worker *worker, struct fsx_file *file)
{
    if (file->map)
        munmap(file->map, worker->limit);
    file->map = NULL;
    if (close(file->fd))
        fsx_fail(worker, file, "close: %s", strerror(errno));
}

void fsx_open(struct fsx_worker *worker, struct fsx_file *file)
{
    file->fd = open(file->name, O_RDWR | O_CREAT, 0644);
    if (file->fd < 0)
        fsx_fail(worker, file, "open: %s", strerror(errno));
    if (!chance(worker, 50))
        return;
    void *map = mmap(NULL, worker->limit, PROT_READ | PROT_WRITE, MAP_SHARED, file->fd, 0);
    file->map = map == MAP_FAILED ? NULL : map;
}

static bool do_reopen(struct fsx_worker *worker, struct fsx_file *file)
{
    fsx_log(worker, file, "reopen", 0, 0);
    if (chance(worker, 50)) { /* so that the next reads come from the file system itself */
        fsx_note(worker, " synced, pages dropped");
        if (fsync(file->fd))
            fsx_fail(worker, file, "fsync: %s", strerror(errno));
        posix_fadvise(file->fd, 0, 0, POSIX_FADV_DONTNEED);
    }
    close_file(worker, file);
    fsx_open(worker, file);
    fsx_note(worker, file->map ? " mapped" : "");
    return true;
}

/* Every hole that is reported from START on must be zeros in the model. */
static void check_seek(struct fsx_worker *worker, struct fsx_file *file, size_t start)
{
    const off_t found = lseek(file->fd, (off_t)start, SEEK_DATA);
    if (found < 0 && errno != ENXIO)
        fsx_fail(worker, file, "SEEK_DATA: %s", strerror(errno));
    const size_t data = found < 0 ? file->size : (size_t)found;
    if (data < start || data > file->size)
        fsx_fail(worker, file, "SEEK_DATA from %zu leads to %zu", start, data);
    for (size_t i = start; i < data; i++) {
        if (file->model[i])
            fsx_fail(worker, file, "SEEK_DATA from %zu skips data at %zu", start, i);
    }
    const off_t hole = lseek(file->fd, (off_t)start, SEEK_HOLE);
    if (hole < (off_t)start || hole > (off_t)file->size)
        fsx_fail(worker, file, "SEEK_HOLE from %zu leads to %jd", start, (intmax_t)hole);
}

/* A file system may know less of holes while a file can be written: so look without that, too. */
static bool do_seek(struct fsx_worker *worker, struct fsx_file *file)
{
    if (!file->size)
        return true;
    const size_t start = choose_offset(worker, file->size);
    fsx_log(worker, file, "seek", start, 0);
    if (chance(worker, 50)) {
        check_seek(worker, file, start);
        return true;
    }
    fsx_note(worker, " reopened read-only");
    close_file(worker, file);
    file->fd = open(file->name, O_RDONLY);
    if (file->fd < 0)
        fsx_fail(worker, file, "open: %s", strerror(errno));
    check_seek(worker, file, start);
    close_file(worker, file);
    fsx_open(worker, file);
    return true;
}

static bool do_verify(struct fsx_worker *worker, struct fsx_file *file)
{
    fsx_log(worker, file, "verify", 0, file->size);
    for (size_t at = 0; at < file->size;) {
        const ssize_t got = pread(file->fd, worker->buffer, file->size - at, (off_t)at);
        if (got <= 0)
            fsx_fail(worker, file, "pread at %zu returned %zd (%s)", at, got,
                     got < 0 ? strerror(errno) : "no error");
        fsx_compare(worker, file, worker->buffer, at, (size_t)got, "pread");
        at += (size_t)got;
    }
    return true;
}

/* ---- one step -----------------------------------------------------------------------------------
 */

static const struct {
    const char *name;
    bool (*run)(struct fsx_worker *worker, struct fsx_file *file);
    unsigned weight;
} table[] = {
    {"read", do_read, 20},        {"write", do_write, 24},         {"truncate", do_truncate, 6},
    {"map-read", do_map_read, 8}, {"map-write", do_map_write, 10}, {"punch", do_punch, 5},
    {"zero", do_zero, 4},         {"allocate", do_allocate, 2},    {"copy", do_copy, 8},
    {"sync", do_sync, 3},         {"reopen", do_reopen, 4},        {"seek", do_seek, 5},
    {"verify", do_verify, 3},
};
#define OPERATIONS (sizeof table / sizeof *table)

void fsx_step(struct fsx_worker *worker)
{
    struct fsx_file *file = &worker->files[fsx_below(worker, FSX_FILES)];
    unsigned total = 0, chosen = 0;
    for (size_t i = 0; i < OPERATIONS; i++)
        total += table[i].weight;
    for (size_t at = fsx_below(worker, total); at >= table[chosen].weight; chosen++)
        at -= table[chosen].weight;
    if (worker->missing >> chosen & 1)
        return;
    if (!table[chosen].run(worker, file))
        worker->missing |= UINT64_C(1) << chosen;
    struct stat status;
    if (fstat(file->fd, &status))
        fsx_fail(worker, file, "fstat: %s", strerror(errno));
    if (status.st_size != (off_t)file->size)
        fsx_fail(worker, file, "the size is %jd, expected %zu", (intmax_t)status.st_size,
                 file->size);
}

void fsx_finish(struct fsx_worker *worker)
{
    for (unsigned i = 0; i < FSX_FILES; i++) {
        do_reopen(worker, &worker->files[i]);
        do_verify(worker, &worker->files[i]);
        close_file(worker, &worker->files[i]);
    }
}

void fsx_missing(uint64_t missing, char *text, size_t size)
{
    size_t used = 0;
    text[0] = '\0';
    for (size_t i = 0; i < OPERATIONS; i++) {
        if (missing >> i & 1 && used < size)
            used +=
                (size_t)snprintf(text + used, size - used, "%s%s", used ? "," : "", table[i].name);
    }
}

bool fsx_named(const char *names, uint64_t *missing)
{
    *missing = 0;
    while (*names) {
        const size_t length = strcspn(names, ",");
        size_t at = 0;
        while (at < OPERATIONS &&
               (strlen(table[at].name) != length || strncmp(table[at].name, names, length) != 0))
            at++;
        if (at == OPERATIONS)
            return false;
        *missing |= UINT64_C(1) << at;
        names += length + (names[length] == ',');
    }
    return true;
}
