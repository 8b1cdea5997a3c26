/* SPDX-License-Identifier: BSD-2-Clause
 *
 * checkpoint.c - a training that was stopped goes on to the same result, bit for bit.
 *
 * The file holds the network, the sums of squares and the place of every lane; the sample is drawn
 * anew, and a fingerprint tells whether it is the same one. For the machine that wrote it: numbers
 * are in its own byte order. A file appears under its name only when it is whole and on disk.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "learn.h"
#include "random.h"

#define MAGIC 0x31706b6370657373u

struct header {
    uint64_t magic, fingerprint;
    uint64_t batch, done;
    double loss;
    uint32_t lesson_next, unused;
    struct train_place place[TRAIN_LANES];
    float gate[TRAIN_FEATURES];
};

struct part {
    void *bytes;
    size_t size;
};

#define PARTS 5u

static void list_parts(const struct train_course *course, struct header *header,
                       struct part parts[PARTS])
{
    struct train_net *const net = course->net;
    const size_t rows = (size_t)TRAIN_FEATURES << net->rows_log;

    parts[0] = (struct part){header, sizeof *header};
    parts[1] = (struct part){&net->dense, sizeof net->dense};
    parts[2] = (struct part){&net->squares, sizeof net->squares};
    parts[3] = (struct part){net->row, rows * TRAIN_WIDTH * sizeof *net->row};
    parts[4] = (struct part){net->row_squares, rows * sizeof *net->row_squares};
}

static int write_all(FILE *file, const struct part parts[PARTS])
{
    uint64_t hash = 0;

    for (unsigned k = 0; k < PARTS; k++) {
        hash = train_hash(hash, parts[k].bytes, parts[k].size);
        if (fwrite(parts[k].bytes, 1, parts[k].size, file) != parts[k].size)
            return -EIO;
    }
    if (fwrite(&hash, sizeof hash, 1, file) != 1 || fflush(file) != 0)
        return -EIO;
    return fsync(fileno(file)) != 0 ? -errno : 0;
}

int train_checkpoint_save(const struct train_course *course, const char *path)
{
    struct header header = {
        .magic = MAGIC,
        .fingerprint = course->fingerprint,
        .batch = course->batch,
        .done = course->done,
        .loss = course->loss,
        .lesson_next = course->lesson_next,
    };
    struct part parts[PARTS];
    char *temporary = NULL;
    FILE *file = NULL;
    int error = -ENOMEM;

    memcpy(header.place, course->place, sizeof header.place);
    memcpy(header.gate, course->net->gate, sizeof header.gate);
    list_parts(course, &header, parts);
    if (asprintf(&temporary, "%s.new", path) < 0)
        return error;
    file = fopen(temporary, "we");
    error = file == NULL ? -errno : write_all(file, parts);
    if (file != NULL && fclose(file) != 0 && error == 0)
        error = -EIO;
    if (error == 0 && rename(temporary, path) != 0)
        error = -errno;
    if (error != 0 && file != NULL)
        (void)unlink(temporary);
    free(temporary);
    return error;
}

static int read_all(FILE *file, const struct train_course *course, struct header *header)
{
    struct part parts[PARTS];
    uint64_t hash = 0, expected;

    list_parts(course, header, parts);
    for (unsigned k = 0; k < PARTS; k++) {
        if (fread(parts[k].bytes, 1, parts[k].size, file) != parts[k].size)
            return -EBADMSG;
        hash = train_hash(hash, parts[k].bytes, parts[k].size);
        if (k == 0 && header->magic != MAGIC)
            return -EBADMSG;
        if (k == 0 && header->fingerprint != course->fingerprint)
            return -ESTALE;
    }
    return fread(&expected, sizeof expected, 1, file) == 1 && expected == hash ? 0 : -EBADMSG;
}

static bool is_sound(const struct train_course *course, const struct header *header)
{
    for (unsigned l = 0; l < TRAIN_LANES; l++) {
        const struct train_place place = header->place[l];

        if (place.lesson != UINT32_MAX &&
            (place.lesson >= course->lesson_count ||
             place.position > course->lessons[place.lesson].block->size))
            return false;
    }
    return true;
}

int train_checkpoint_load(struct train_course *course, const char *path)
{
    struct header header;
    FILE *const file = fopen(path, "re");
    int error = file == NULL ? -errno : read_all(file, course, &header);

    if (file != NULL)
        fclose(file);
    if (error == 0 && !is_sound(course, &header))
        error = -EBADMSG;
    if (error != 0)
        return error;
    course->batch = header.batch;
    course->done = header.done;
    course->loss = header.loss;
    course->lesson_next = header.lesson_next;
    memcpy(course->place, header.place, sizeof course->place);
    memcpy(course->net->gate, header.gate, sizeof course->net->gate);
    return 0;
}
