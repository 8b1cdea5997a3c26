/* SPDX-License-Identifier: BSD-2-Clause
 *
 * bench_load.c - the large mixed file, its writing and reading, and the empty files.
 */
#include "bench_load.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <fts.h>
#include <inttypes.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "bench_peer.h"
#include "cli.h"

#define NAME  "sepfs-bench"
#define CHUNK (1u << 20)

static int failed(const char *path, int error)
{
    cli_error(NAME, path, "%s", strerror(error));
    return -error;
}

bool bench_interrupted(void)
{
    sigset_t pending;
    return sigpending(&pending) == 0 &&
           (sigismember(&pending, SIGINT) == 1 || sigismember(&pending, SIGTERM) == 1);
}

static int write_all(int fd, const uint8_t *data, size_t size)
{
    while (size > 0) {
        const ssize_t done = write(fd, data, size);
        if (done < 0 && errno != EINTR)
            return -errno;
        if (done > 0) {
            data += done;
            size -= (size_t)done;
        }
    }
    return 0;
}

/* Reads until SIZE bytes or the end: the count, or a negative errno. */
static ssize_t read_full(int fd, uint8_t *data, size_t size)
{
    size_t got = 0;
    while (got < size) {
        const ssize_t done = read(fd, data + got, size - got);
        if (done < 0 && errno != EINTR)
            return -errno;
        if (done == 0)
            break;
        if (done > 0)
            got += (size_t)done;
    }
    return (ssize_t)got;
}

/* ---- the mixed file -------------------------------------------------------------------------- */

static int by_name(const FTSENT **a, const FTSENT **b)
{
    return strcmp((*a)->fts_name, (*b)->fts_name);
}

struct mix {
    int out;
    uint64_t left; /* bytes still to be written */
    uint8_t *chunk;
};

/* Appends a file, every byte XORed with MASK. */
static int append_file(struct mix *mix, const char *path, uint8_t mask)
{
    const int in = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (in < 0)
        return failed(path, errno);
    int error = 0;
    while (mix->left > 0 && error == 0) {
        const size_t want = mix->left < CHUNK ? (size_t)mix->left : CHUNK;
        const ssize_t got = read_full(in, mix->chunk, want);
        if (got <= 0) {
            error = got < 0 ? failed(path, (int)-got) : 0;
            break;
        }
        for (ssize_t i = 0; i < got; i++)
            mix->chunk[i] ^= mask;
        error = write_all(mix->out, mix->chunk, (size_t)got);
        if (error != 0)
            cli_error(NAME, "mixed file", "%s", strerror(-error));
        mix->left -= (uint64_t)got;
    }
    close(in);
    return error;
}

/* One pass over the tree in name order. */
static int append_tree(struct mix *mix, const char *from, uint8_t mask)
{
    char *const roots[] = {(char *)from, NULL};
    FTS *const tree = fts_open(roots, FTS_PHYSICAL | FTS_NOCHDIR, by_name);
    if (tree == NULL)
        return failed(from, errno);
    int error = 0;
    for (const FTSENT *entry; mix->left > 0 && error == 0 && (entry = fts_read(tree)) != NULL;) {
        if (entry->fts_info == FTS_F)
            error = append_file(mix, entry->fts_accpath, mask);
        else if (entry->fts_info == FTS_ERR || entry->fts_info == FTS_DNR)
            error = failed(entry->fts_path, entry->fts_errno);
        if (error == 0 && bench_interrupted())
            error = -EINTR;
    }
    fts_close(tree);
    return error;
}

static uint64_t next_random(uint64_t *state) /* xorshift64 */
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

/* The program's own mix, a chunk at a time in turn: prose-like words with a skewed distribution,
 * log-like records with counters, and noise. Reproducible: the state comes from the chunk's
 * number. */
static void fill_chunk(uint8_t *chunk, uint64_t number)
{
    static const char *const words[] = {
        "the",      "of",     "block", "and",    "a",       "store",   "in",      "is",
        "that",     "sensor", "value", "for",    "reading", "written", "to",      "archive",
        "station",  "it",     "cold",  "sample", "with",    "record",  "was",     "time",
        "pressure", "as",     "north", "series", "on",      "depth",   "missing", "between",
    };
    uint64_t state = (number + 1) * UINT64_C(0x9E3779B97F4A7C15);
    size_t at = 0;
    while (at < CHUNK) {
        char text[96];
        size_t length;
        const uint64_t random = next_random(&state);
        switch (number % 3) {
        case 0: /* the smaller of two indexes: low ones are common */
            length = (size_t)snprintf(
                text, sizeof text, "%s%s",
                words[(random & 31) < (random >> 8 & 31) ? random & 31 : random >> 8 & 31],
                (random >> 16 & 15) == 0 ? ".\n" : " ");
            break;
        case 1:
            length = (size_t)snprintf(
                text, sizeof text, "%010" PRIu64 " station-%02u level=%u.%02u status=%s\n",
                number * CHUNK + at, (unsigned)(random & 31), (unsigned)(random >> 8 & 127),
                (unsigned)(random >> 16 & 63), (random >> 24 & 15) == 0 ? "late" : "ok");
            break;
        default:
            memcpy(text, &random, length = sizeof random);
        }
        if (length > CHUNK - at)
            length = CHUNK - at;
        memcpy(chunk + at, text, length);
        at += length;
    }
}

static int append_own(struct mix *mix)
{
    int error = 0;
    for (uint64_t number = 0; mix->left > 0 && error == 0; number++) {
        const size_t size = mix->left < CHUNK ? (size_t)mix->left : CHUNK;
        fill_chunk(mix->chunk, number);
        error = write_all(mix->out, mix->chunk, size);
        if (error != 0)
            cli_error(NAME, "mixed file", "%s", strerror(-error));
        mix->left -= size;
        if (error == 0 && bench_interrupted())
            error = -EINTR;
    }
    return error;
}

int bench_load_mixed(const char *from, uint64_t size, const char *path)
{
    struct mix mix = {.left = size, .chunk = malloc(CHUNK)};
    if (mix.chunk == NULL)
        return failed(path, ENOMEM);
    int error = 0;
    mix.out = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (mix.out < 0) {
        error = failed(path, errno);
        goto out;
    }
    if (from == NULL)
        error = append_own(&mix);
    for (unsigned pass = 0; from != NULL && mix.left > 0 && error == 0; pass++) {
        const uint64_t before = mix.left;
        if (pass > 255) {
            cli_error(NAME, from, "too small: used up 256 times before the size was reached");
            error = -EINVAL;
        } else {
            error = append_tree(&mix, from, (uint8_t)pass);
        }
        if (error == 0 && mix.left == before) {
            cli_error(NAME, from, "holds no data");
            error = -EINVAL;
        }
    }
    close(mix.out);
out:
    free(mix.chunk);
    return error;
}

/* ---- sequential writing and reading ---------------------------------------------------------- */

int bench_load_write(const char *source, const char *target, double *written, double *synced)
{
    uint8_t *const chunk = malloc(CHUNK);
    int error = 0, out = -1;
    const int in = open(source, O_RDONLY | O_CLOEXEC);
    if (chunk == NULL || in < 0) {
        error = failed(source, chunk == NULL ? ENOMEM : errno);
        goto out;
    }
    const double begin = bench_now();
    out = open(target, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (out < 0) {
        error = failed(target, errno);
        goto out;
    }
    for (ssize_t got = 1; got > 0 && error == 0;) {
        got = read_full(in, chunk, CHUNK);
        error = got < 0 ? failed(source, (int)-got) : write_all(out, chunk, (size_t)got);
        if (error != 0 && got > 0)
            failed(target, -error);
        if (error == 0 && bench_interrupted())
            error = -EINTR;
    }
    if (error != 0)
        goto out;
    /* A second descriptor stays for the fsync: close is part of the first figure. */
    const int again = dup(out);
    if (again < 0 || close(out) != 0)
        error = failed(target, errno);
    out = again;
    *written = bench_now() - begin;
    if (error == 0 && fsync(out) != 0)
        error = failed(target, errno);
    *synced = bench_now() - begin;
out:
    if (out >= 0)
        close(out);
    if (in >= 0)
        close(in);
    free(chunk);
    return error;
}

int bench_load_read(const char *target, const char *source, double *seconds)
{
    uint8_t *const chunk = malloc(CHUNK), *const other = source != NULL ? malloc(CHUNK) : NULL;
    int error = 0;
    const double begin = bench_now();
    const int in = open(target, O_RDONLY | O_CLOEXEC);
    const int reference = source != NULL ? open(source, O_RDONLY | O_CLOEXEC) : -1;
    if (chunk == NULL || (source != NULL && other == NULL)) {
        error = failed(target, ENOMEM);
        goto out;
    }
    if (in < 0 || (source != NULL && reference < 0)) {
        error = failed(in < 0 ? target : source, errno);
        goto out;
    }
    for (ssize_t got = 1; got > 0 && error == 0;) {
        got = read_full(in, chunk, CHUNK);
        if (got < 0)
            error = failed(target, (int)-got);
        if (source != NULL && error == 0 &&
            (read_full(reference, other, CHUNK) != got || memcmp(chunk, other, (size_t)got) != 0)) {
            cli_error(NAME, target, "what was read is not what was written");
            error = -EIO;
        }
        if (error == 0 && bench_interrupted())
            error = -EINTR;
    }
    if (seconds != NULL)
        *seconds = bench_now() - begin;
out:
    if (in >= 0)
        close(in);
    if (reference >= 0)
        close(reference);
    free(chunk);
    free(other);
    return error;
}

/* ---- empty files ----------------------------------------------------------------------------- */

/* Does one thing to every file 0 .. COUNT-1 of the directory. */
static int each_file(int dir, const char *path, uint64_t count, bool create, double *seconds)
{
    const double begin = bench_now();
    for (uint64_t i = 0; i < count; i++) {
        char name[32];
        struct stat attributes;
        snprintf(name, sizeof name, "file-%07" PRIu64, i);
        if (create) {
            const int fd = openat(dir, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
            if (fd < 0 || close(fd) != 0)
                return failed(path, errno);
        } else if (fstatat(dir, name, &attributes, AT_SYMLINK_NOFOLLOW) != 0) {
            return failed(path, errno);
        }
        if (i % 1024 == 0 && bench_interrupted())
            return -EINTR;
    }
    *seconds = bench_now() - begin;
    return 0;
}

static int list(const char *path, uint64_t *count, double *seconds)
{
    const double begin = bench_now();
    DIR *const dir = opendir(path);
    if (dir == NULL)
        return failed(path, errno);
    *count = 0;
    errno = 0;
    while (readdir(dir) != NULL)
        ++*count;
    const int error = errno;
    closedir(dir);
    *count -= 2; /* . and .. */
    *seconds = bench_now() - begin;
    return error != 0 ? failed(path, error) : 0;
}

int bench_load_empty(const char *dir, uint64_t count, struct bench_empty *times)
{
    if (mkdir(dir, 0700) != 0)
        return failed(dir, errno);
    const int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return failed(dir, errno);
    uint64_t listed = 0;
    int error = each_file(fd, dir, count, true, &times->create);
    if (error == 0)
        error = list(dir, &listed, &times->list);
    if (error == 0 && listed != count) {
        cli_error(NAME, dir, "%" PRIu64 " files listed, %" PRIu64 " created", listed, count);
        error = -EIO;
    }
    if (error == 0)
        error = each_file(fd, dir, count, false, &times->stat);
    close(fd);
    if (error == 0)
        error = bench_shell("rm -rf \"$1\"", dir, NULL, NULL, &times->remove);
    return error;
}

/* ---- room on the host ------------------------------------------------------------------------ */

int bench_load_usage(const char *dir, uint64_t *bytes)
{
    char *const roots[] = {(char *)dir, NULL};
    FTS *const tree = fts_open(roots, FTS_PHYSICAL | FTS_NOCHDIR, NULL);
    if (tree == NULL)
        return failed(dir, errno);
    int error = 0;
    *bytes = 0;
    for (const FTSENT *entry; error == 0 && (entry = fts_read(tree)) != NULL;) {
        if (entry->fts_info == FTS_ERR || entry->fts_info == FTS_NS || entry->fts_info == FTS_DNR)
            error = failed(entry->fts_path, entry->fts_errno);
        else if (entry->fts_info != FTS_DP)
            *bytes += (uint64_t)entry->fts_statp->st_blocks * 512;
    }
    fts_close(tree);
    return error;
}
