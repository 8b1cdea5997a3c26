/* SPDX-License-Identifier: BSD-2-Clause
 *
 * model_files.c - see model_files.h.
 */
#include "model_files.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli.h"

/* 0 or a negative errno; *bytes is the caller's. */
static int read_all(int fd, uint8_t **bytes, size_t *size)
{
    struct stat status;
    if (fstat(fd, &status) != 0)
        return -errno;
    if (S_ISDIR(status.st_mode))
        return -EISDIR;
    if (!S_ISREG(status.st_mode))
        return -EINVAL;
    if ((uint64_t)status.st_size > SEP_MODEL_FILE_MAX)
        return -EFBIG;
    *bytes = malloc((size_t)status.st_size + 1);
    if (*bytes == NULL)
        return -ENOMEM;
    for (*size = 0; *size < (size_t)status.st_size;) {
        const ssize_t got = read(fd, *bytes + *size, (size_t)status.st_size - *size);
        if (got < 0)
            return -errno;
        if (got == 0)
            break;
        *size += (size_t)got;
    }
    return 0;
}

bool model_files_add(struct model_files *files, const char *program, const char *path)
{
    uint8_t *bytes = NULL;
    size_t size = 0;
    if (files->count == SEP_CONTEXT_MODELS_MAX) {
        cli_error(program, path, "at most %u models can be used", SEP_CONTEXT_MODELS_MAX);
        return false;
    }
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    int error = fd < 0 ? -errno : read_all(fd, &bytes, &size);
    enum sep_status status = SEP_OK;
    if (fd >= 0)
        close(fd);
    if (error == 0)
        status = sep_model_load(bytes, size, &files->list[files->count]);
    free(bytes);
    if (error == 0 && status == SEP_OK) {
        files->count++;
        return true;
    }
    cli_error(program, path, "%s", error != 0 ? strerror(-error) : sep_status_text(status));
    return false;
}

enum sep_status model_files_give(const struct model_files *files, struct sep_context *context)
{
    enum sep_status status = SEP_OK;
    for (unsigned i = 0; i < files->count && status == SEP_OK; i++)
        status = sep_context_add_model(context, files->list[i], true);
    return status;
}

void model_files_free(struct model_files *files)
{
    for (unsigned i = 0; i < files->count; i++)
        sep_model_free(files->list[i]);
    files->count = 0;
}
