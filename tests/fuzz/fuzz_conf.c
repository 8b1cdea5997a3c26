/* SPDX-License-Identifier: BSD-2-Clause
 *
 * fuzz_conf.c - sepfs.conf (index/conf.c), on files in memory through the table of system calls.
 *
 * Input: the file; what follows a NUL byte is a value to set. Properties: what is accepted has the
 * required keys in range; a value that could be set is the one that a new reader of the file
 * gets, together with all other keys; a refused value changes nothing.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "fuzz.h"
#include "index/internal.h"

enum { FD = 1000, ROOM = 1 << 16 };

static uint8_t file[ROOM], written[ROOM];
static size_t file_size, written_size;

static int memory_openat(int dir, const char *path, int flags, mode_t mode)
{
    (void)dir;
    (void)path;
    (void)mode;
    if (flags & O_CREAT)
        written_size = 0;
    return FD;
}

static int memory_close(int fd)
{
    (void)fd;
    return 0;
}

static int memory_fstat(int fd, struct stat *status)
{
    (void)fd;
    *status = (struct stat){.st_mode = S_IFREG | 0600, .st_size = (off_t)file_size};
    return 0;
}

static ssize_t memory_pread(int fd, void *data, size_t size, off_t offset)
{
    const size_t left = file_size - (size_t)offset;

    (void)fd;
    if (size > left)
        size = left;
    memcpy(data, file + offset, size);
    return (ssize_t)size;
}

static ssize_t memory_pwritev(int fd, const struct iovec *parts, int count, off_t offset)
{
    (void)fd;
    FUZZ_CHECK(count == 1 && (size_t)offset == written_size);
    if (parts->iov_len > ROOM - written_size) {
        errno = ENOSPC;
        return -1;
    }
    memcpy(written + written_size, parts->iov_base, parts->iov_len);
    written_size += parts->iov_len;
    return (ssize_t)parts->iov_len;
}

static int memory_fsync(int fd)
{
    (void)fd;
    return 0;
}

static int memory_renameat(int from_dir, const char *from, int to_dir, const char *to)
{
    (void)from_dir;
    (void)to_dir;
    FUZZ_CHECK(strcmp(from, "sepfs.conf.new") == 0 && strcmp(to, "sepfs.conf") == 0);
    memcpy(file, written, written_size);
    file_size = written_size;
    return 0;
}

static int memory_unlinkat(int dir, const char *path, int flags)
{
    (void)dir;
    (void)path;
    (void)flags;
    return 0;
}

static const struct index_io memory = {
    .openat = memory_openat,
    .close = memory_close,
    .pread = memory_pread,
    .pwritev = memory_pwritev,
    .fsync = memory_fsync,
    .fstat = memory_fstat,
    .renameat = memory_renameat,
    .unlinkat = memory_unlinkat,
};

static void begin(struct index *index)
{
    static char path[] = "store";

    memset(index, 0, sizeof *index);
    index->io = &memory;
    index->path = path;
    pthread_mutex_init(&index->conf_mutex, NULL);
}

static void end(struct index *index)
{
    index_conf_free(index);
    pthread_mutex_destroy(&index->conf_mutex);
}

/* Both say the same of every key. */
static void same(const struct index *a, const struct index *b, const char *but)
{
    char value[2048];

    for (size_t i = 0; i < a->conf_count; i++) {
        const char *const key = a->conf[i].key;

        if (key == NULL || strcmp(key, but) == 0)
            continue;
        FUZZ_CHECK(index_conf_get(b, key, value, sizeof value) == 0);
        FUZZ_CHECK(strcmp(a->conf[i].value, value) == 0);
    }
}

static void set(struct index *index, const char *text)
{
    struct index again;
    char error[256], value[2048], before[2048] = "";
    const bool had = index_conf_get(index, "fuzz", before, sizeof before) == 0;

    if (index_conf_set(index, "fuzz", text) == 0) {
        begin(&again);
        FUZZ_CHECK(index_conf_load(&again, error, sizeof error) == 0);
        FUZZ_CHECK(index_conf_get(&again, "fuzz", value, sizeof value) == 0);
        FUZZ_CHECK(strcmp(value, text) == 0);
        same(index, &again, "");
        same(&again, index, "");
        FUZZ_CHECK(memcmp(again.uuid, index->uuid, 16) == 0 &&
                   again.block_size == index->block_size);
        end(&again);
    } else {
        FUZZ_CHECK((index_conf_get(index, "fuzz", value, sizeof value) == 0) == had);
        if (had)
            FUZZ_CHECK(strcmp(value, before) == 0);
    }
    FUZZ_CHECK(index_conf_set(index, "uuid", text) == -EINVAL); /* not to be changed */
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const uint8_t *const nul = size > 0 ? memchr(data, 0, size) : NULL;
    struct fuzz_input rest = {data, 0};
    struct index index;
    char error[256] = "";
    int result;

    file_size = nul != NULL ? (size_t)(nul - data) : size;
    if (file_size > ROOM)
        file_size = ROOM;
    if (nul != NULL)
        rest = (struct fuzz_input){nul + 1, size - (size_t)(nul - data) - 1};
    if (rest.left > 0 && rest.at[rest.left - 1] == '\0' && file_size < ROOM)
        file[file_size] = 0; /* a NUL in the file itself is refused: tried when the value ends so */
    if (file_size > 0)
        memcpy(file, data, file_size);
    if (rest.left > 0 && rest.at[rest.left - 1] == '\0' && file_size < ROOM)
        file_size++;
    begin(&index);
    result = index_conf_load(&index, error, sizeof error);
    if (result != 0) {
        FUZZ_CHECK(error[0] != '\0');
    } else {
        char *const text = fuzz_text(&rest);

        FUZZ_CHECK(index.block_size >= INDEX_BLOCK_MIN && index.block_size <= INDEX_PLAIN_MAX &&
                   (index.block_size & (index.block_size - 1)) == 0);
        set(&index, text);
        free(text);
    }
    end(&index);
    return 0;
}
