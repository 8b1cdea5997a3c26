/* SPDX-License-Identifier: BSD-2-Clause
 *
 * bench_whole.c - peers that compress a whole file at once: they see all of it, where a block codec
 * sees 128 KiB, and pay with the random access that a file system needs. Each runs on one thread on
 * a copy of the file, timed from start to exit, and must give the same bytes back.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "bench_codec.h"
#include "bench_peer.h"
#include "cli.h"

/* Scripts run in the work directory: "plain" is the file, "packed" what becomes of it, "back" what
 * comes out of that. */
struct bench_program {
    const char *name, *command;
    const char *pack, *unpack;
};

#define IN_WORK "cd \"$1\" && "

static const struct bench_program programs[] = {
    {"zstd -19 whole", "zstd", IN_WORK "exec zstd -19 --single-thread -q -f -o packed plain",
     IN_WORK "exec zstd -d -q -f -o back packed"},
    {"xz -9e whole", "xz", IN_WORK "exec xz -9e -T1 -c plain >packed",
     IN_WORK "exec xz -d -T1 -c packed >back"},
    {"bzip2 -9 whole", "bzip2", IN_WORK "exec bzip2 -9 -c plain >packed",
     IN_WORK "exec bzip2 -d -c packed >back"},
    {"brotli -q11 whole", "brotli", IN_WORK "exec brotli -q 11 -w 24 -f -o packed plain",
     IN_WORK "exec brotli -d -f -o back packed"},
    {"zpaq -m5 whole", "zpaq",
     IN_WORK "rm -f packed.zpaq && zpaq a packed.zpaq plain -m5 -t1 2>&1 && mv packed.zpaq packed",
     IN_WORK "mv packed packed.zpaq && zpaq x packed.zpaq plain -to back -t1 -f 2>&1; "
             "mv packed.zpaq packed"},
};

static bool in_path(const char *command)
{
    const char *path = getenv("PATH");
    char candidate[512];

    while (path != NULL && *path != '\0') {
        const size_t length = strcspn(path, ":");

        if (snprintf(candidate, sizeof candidate, "%.*s/%s", (int)length, path, command) <
                (int)sizeof candidate &&
            access(candidate, X_OK) == 0)
            return true;
        path += length + (path[length] == ':');
    }
    return false;
}

const struct bench_program *bench_program_next(const struct bench_program *last)
{
    const size_t count = sizeof programs / sizeof programs[0];

    for (size_t i = last == NULL ? 0 : (size_t)(last - programs) + 1; i < count; i++) {
        if (in_path(programs[i].command))
            return &programs[i];
    }
    return NULL;
}

const char *bench_program_name(const struct bench_program *program)
{
    return program->name;
}

static int write_plain(const struct bench *bench, const struct bench_file *file)
{
    char path[128];
    FILE *out;
    int error = 0;

    snprintf(path, sizeof path, "%s/plain", bench->work);
    out = fopen(path, "wb");
    if (out == NULL)
        return -errno;
    if (fwrite(file->plain, 1, file->size, out) != file->size)
        error = -EIO;
    return fclose(out) != 0 || error != 0 ? -EIO : 0;
}

/* 0 when NAME in the work directory holds exactly the file's bytes. */
static int compare(const struct bench *bench, const struct bench_file *file, const char *name)
{
    uint8_t part[65536];
    size_t done = 0, got = 1;
    char path[128];
    FILE *in;
    bool same = true;

    snprintf(path, sizeof path, "%s/%s", bench->work, name);
    in = fopen(path, "rb");
    if (in == NULL)
        return -errno;
    while (same && got > 0) {
        got = fread(part, 1, sizeof part, in);
        same = got <= file->size - done && memcmp(part, file->plain + done, got) == 0;
        done += got;
    }
    fclose(in);
    return same && done == file->size ? 0 : -EBADMSG;
}

static void remove_files(const struct bench *bench)
{
    static const char *const names[] = {"plain", "packed", "packed.zpaq", "back"};
    char path[128];

    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        snprintf(path, sizeof path, "%s/%s", bench->work, names[i]);
        unlink(path);
    }
}

int bench_whole(const struct bench *bench, const struct bench_coder *coder,
                const struct bench_file *file, struct bench_result *result)
{
    char path[128];
    struct stat status;
    int error = write_plain(bench, file);

    if (error == 0)
        error = bench_shell(coder->program->pack, bench->work, NULL, NULL, &result->encode_seconds);
    if (error == 0) {
        snprintf(path, sizeof path, "%s/packed", bench->work);
        error = stat(path, &status) == 0 ? 0 : -errno;
    }
    if (error == 0) {
        result->payload_size = (uint64_t)status.st_size;
        error =
            bench_shell(coder->program->unpack, bench->work, NULL, NULL, &result->decode_seconds);
    }
    if (error == 0)
        error = compare(bench, file, "back");
    remove_files(bench);
    return error;
}
