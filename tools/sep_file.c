/* SPDX-License-Identifier: BSD-2-Clause
 *
 * sep_file.c - one operand of sep from open to close: which files are taken, what the output is
 * called, what it inherits, and what happens to the input. The rules are those of xz where it has
 * one.
 *
 * An input is removed only after its output is on disk (fsync of the file and of its directory) and
 * only if the name still leads to the file that was read. An output that replaces a file is written
 * beside it and takes its name at the end, so that a failure leaves the old one.
 */
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sep_tool.h"

/* ---- input --------------------------------------------------------------------------------------
 */

/* Whether the output takes the input's place. */
static bool replaces_input(const struct tool_options *options)
{
    return !options->to_stdout && options->output == NULL && options->mode != MODE_TEST &&
           options->mode != MODE_LIST;
}

static const char *refusal(const struct tool_options *options, const struct stat *stat)
{
    if (S_ISDIR(stat->st_mode))
        return "is a directory";
    if (!replaces_input(options) || options->force)
        return NULL;
    if (!S_ISREG(stat->st_mode))
        return "is not a regular file";
    if (options->keep)
        return NULL;
    if (stat->st_mode & (S_ISUID | S_ISGID | S_ISVTX))
        return "has its set-user-id, set-group-id or sticky bit set";
    if (stat->st_nlink > 1)
        return "has more than one hard link";
    return NULL;
}

/* 0, or -1 when it was refused or failed. */
static int input_open(struct tool *tool, const char *path, struct input *input)
{
    const struct tool_options *const options = tool->options;
    *input = (struct input){
        .fd = STDIN_FILENO, .path = path, .name = path != NULL ? path : "(standard input)"};
    if (path != NULL) {
        const bool follow = options->force || options->keep || !replaces_input(options);
        /* O_NONBLOCK: not to wait for somebody to open the other end of a FIFO that is refused */
        input->fd =
            open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK | (follow ? 0 : O_NOFOLLOW));
        if (input->fd < 0 && errno == ELOOP && !follow) {
            tool_warn(tool, input->name, "is a symbolic link, skipped");
            return -1;
        }
    }
    if (input->fd < 0 || fstat(input->fd, &input->stat) != 0) {
        tool_error(tool, input->name, "%s", strerror(errno));
        return -1;
    }
    const char *const refused = refusal(options, &input->stat);
    if (refused != NULL && (path != NULL || S_ISDIR(input->stat.st_mode))) {
        tool_warn(tool, input->name, "%s, skipped", refused);
        return -1;
    }
    if (path != NULL && !S_ISREG(input->stat.st_mode)) {
        const int flags = fcntl(input->fd, F_GETFL);
        if (flags >= 0)
            fcntl(input->fd, F_SETFL, flags & ~O_NONBLOCK);
    }
    if (S_ISREG(input->stat.st_mode)) {
        const off_t at = lseek(input->fd, 0, SEEK_CUR);
        input->regular = at >= 0;
        input->start = at > 0 ? (uint64_t)at : 0;
        if (input->stat.st_size > at)
            input->size = (uint64_t)(input->stat.st_size - at);
    }
    return 0;
}

static void input_close(struct input *input)
{
    if (input->path != NULL && input->fd >= 0)
        close(input->fd);
}

/* ---- the output's name --------------------------------------------------------------------------
 */

static bool has_suffix(const char *path)
{
    const size_t length = strlen(path), suffix = strlen(CONTAINER_SUFFIX);
    return length > suffix && strcmp(path + length - suffix, CONTAINER_SUFFIX) == 0 &&
           path[length - suffix - 1] != '/';
}

/* The name for PATH's output, to be freed; NULL after a warning or an error. */
static char *output_name(struct tool *tool, const char *path)
{
    const bool compress = tool->options->mode == MODE_COMPRESS;
    char *name = NULL;
    if (compress && has_suffix(path)) {
        tool_warn(tool, path, "has the suffix " CONTAINER_SUFFIX " already, skipped");
    } else if (!compress && !has_suffix(path)) {
        tool_warn(tool, path, "does not end in " CONTAINER_SUFFIX ", skipped");
    } else if (compress ? asprintf(&name, "%s" CONTAINER_SUFFIX, path) < 0
                        : (name = strndup(path, strlen(path) - strlen(CONTAINER_SUFFIX))) == NULL) {
        tool_error(tool, path, "%s", strerror(ENOMEM));
        name = NULL;
    }
    return name;
}

/* ---- output -------------------------------------------------------------------------------------
 */

int output_write(struct tool *tool, struct output *output, const void *bytes, size_t size)
{
    int error = 0;
    if (!output->discard && size > 0)
        error = io_write(output->fd, bytes, size, tool->stop);
    if (error == 0) {
        output->position += size;
        if (size > 0)
            output->hole_at_end = false;
    } else if (error != -ECANCELED) {
        tool_error(tool, output->name, "cannot write: %s", strerror(-error));
    }
    return error;
}

int output_zeros(struct tool *tool, struct output *output, uint64_t size)
{
    static const uint8_t zeros[64 << 10];
    if (output->discard) {
        output->position += size;
        return 0;
    }
    if (output->regular && size > 0) {
        if (size > INT64_MAX || lseek(output->fd, (off_t)size, SEEK_CUR) < 0) {
            tool_error(tool, output->name, "cannot write: %s", strerror(EFBIG));
            return -EFBIG;
        }
        output->position += size;
        output->hole_at_end = true;
        return 0;
    }
    while (size > 0) {
        const size_t part = size < sizeof zeros ? (size_t)size : sizeof zeros;
        const int error = output_write(tool, output, zeros, part);
        if (error != 0)
            return error;
        size -= part;
    }
    return 0;
}

/* A new file beside PATH, which is to take its name. */
static int open_beside(struct output *output, const char *path)
{
    char *beside = NULL;
    const char *const slash = strrchr(path, '/');
    const int directory = slash != NULL ? (int)(slash - path + 1) : 0;
    output->replaces = strdup(path);
    if (output->replaces == NULL || asprintf(&beside, "%.*s.sep-XXXXXX", directory, path) < 0)
        return -ENOMEM;
    output->fd = mkostemp(beside, O_CLOEXEC);
    if (output->fd < 0) {
        const int error = -errno;
        free(beside);
        return error;
    }
    output->path = beside;
    return 0;
}

/* Opens PATH for writing; -EEXIST when something is there that may not be replaced. */
static int output_create(const struct tool_options *options, const struct input *input,
                         struct output *output, const char *path)
{
    struct stat stat_there;
    output->regular = true;
    output->fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (output->fd >= 0) {
        output->path = strdup(path);
        if (output->path != NULL)
            return 0;
        unlink(path);
        return -ENOMEM;
    }
    if (errno != EEXIST || !options->force)
        return -errno;
    if (stat(path, &stat_there) != 0)
        return errno == ENOENT ? open_beside(output, path) : -errno; /* a dangling link */
    if (stat_there.st_dev == input->stat.st_dev && stat_there.st_ino == input->stat.st_ino)
        return -EEXIST;
    if (S_ISREG(stat_there.st_mode))
        return open_beside(output, path);
    output->regular = false; /* a device, a FIFO: it is written to, and stays */
    output->fd = open(path, O_WRONLY | O_CLOEXEC);
    return output->fd >= 0 ? 0 : -errno;
}

/* 0, or -1 after a message. */
static int output_open(struct tool *tool, const struct input *input, struct output *output,
                       const char *path)
{
    const struct tool_options *const options = tool->options;
    if (options->mode == MODE_TEST) {
        *output = (struct output){.fd = -1, .name = "(nothing)", .discard = true};
        return 0;
    }
    if (path == NULL) {
        *output = (struct output){.fd = STDOUT_FILENO, .name = "(standard output)"};
        if (options->mode != MODE_COMPRESS || !isatty(STDOUT_FILENO))
            return 0;
        tool_error(tool, output->name, "is a terminal: compressed data is not written to it");
        return -1;
    }
    *output = (struct output){.fd = -1, .name = path};
    const int error = output_create(options, input, output, path);
    if (error == -EEXIST)
        tool_error(tool, path, options->force ? "is the input itself" : "exists; -f replaces it");
    else if (error != 0)
        tool_error(tool, path, "cannot create: %s", strerror(-error));
    return error == 0 ? 0 : -1;
}

/* Owner, mode and times of the input. As far as the owner cannot be set, nobody else gets rights
 * through the mode that he had not before. */
static void output_inherit(struct tool *tool, const struct input *input, struct output *output)
{
    const struct stat *const stat = &input->stat;
    mode_t mode = stat->st_mode & 0777;
    if (!S_ISREG(stat->st_mode))
        return;
    if (fchown(output->fd, stat->st_uid, (gid_t)-1) != 0 && geteuid() == 0)
        tool_warn(tool, output->name, "cannot set the owner: %s", strerror(errno));
    if (fchown(output->fd, (uid_t)-1, stat->st_gid) != 0) {
        tool_warn(tool, output->name, "cannot set the group: %s", strerror(errno));
        /* the group it has now gets what others have, no more */
        mode = (mode & 0707) | (mode_t)((mode & 0070) & ((mode & 0007) << 3));
    }
    const struct timespec times[2] = {stat->st_atim, stat->st_mtim};
    if (fchmod(output->fd, mode) != 0 || futimens(output->fd, times) != 0)
        tool_warn(tool, output->name, "cannot set mode and times: %s", strerror(errno));
}

static int sync_directory(const char *path)
{
    char *const copy = strdup(path);
    if (copy == NULL)
        return -ENOMEM;
    const int fd = open(dirname(copy), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    /* some file systems cannot sync a directory, and say EINVAL */
    const int error = fd < 0 || (fsync(fd) != 0 && errno != EINVAL) ? -errno : 0;
    if (fd >= 0)
        close(fd);
    free(copy);
    return error;
}

/* Gives the output its attributes and its name. SYNC: returns when it is on disk. */
static int output_finish(struct tool *tool, const struct input *input, struct output *output,
                         bool sync)
{
    int error = 0;
    if (output->path == NULL)
        return 0;
    if (output->hole_at_end && ftruncate(output->fd, (off_t)output->position) != 0)
        error = -errno;
    if (error == 0)
        output_inherit(tool, input, output);
    if (error == 0 && sync && fsync(output->fd) != 0)
        error = -errno;
    if (close(output->fd) != 0 && error == 0)
        error = -errno;
    output->fd = -1;
    if (error == 0 && output->replaces != NULL && rename(output->path, output->replaces) != 0)
        error = -errno;
    if (error == 0 && sync)
        error = sync_directory(output->replaces != NULL ? output->replaces : output->path);
    if (error != 0) {
        tool_error(tool, output->name, "cannot finish: %s", strerror(-error));
        return error;
    }
    free(output->path);
    output->path = NULL; /* to stay */
    return 0;
}

/* Removes what was not finished. */
static void output_close(struct tool *tool, struct output *output)
{
    if (output->fd >= 0 && output->fd != STDOUT_FILENO && close(output->fd) != 0)
        tool_error(tool, output->name, "cannot write: %s", strerror(errno));
    if (output->path != NULL)
        unlink(output->path);
    free(output->path);
    free(output->replaces);
}

static void input_remove(struct tool *tool, const struct input *input)
{
    struct stat now;
    if (!S_ISREG(input->stat.st_mode))
        return; /* -f took a device or a FIFO */
    if ((tool->options->force ? stat : lstat)(input->path, &now) != 0 ||
        now.st_dev != input->stat.st_dev || now.st_ino != input->stat.st_ino)
        tool_error(tool, input->name, "was replaced meanwhile: not removed");
    else if (unlink(input->path) != 0)
        tool_error(tool, input->name, "cannot remove: %s", strerror(errno));
}

/* ---- one operand --------------------------------------------------------------------------------
 */

static void summary(struct tool *tool, const struct input *input, const struct outcome *outcome)
{
    char plain[CLI_TEXT], stored[CLI_TEXT];
    if (tool->options->verbose > 0)
        tool_note(tool, input->name, "%s plain, %s compressed, %.2f:1",
                  cli_bytes(outcome->plain, plain), cli_bytes(outcome->stored, stored),
                  cli_ratio(outcome->plain, outcome->stored));
}

static int process(struct tool *tool, struct input *input, const char *path)
{
    const struct tool_options *const options = tool->options;
    struct output output;
    struct outcome outcome = {0};
    if (output_open(tool, input, &output, path) != 0) {
        output_close(tool, &output);
        return 0;
    }
    int error = options->mode == MODE_COMPRESS ? compress_file(tool, input, &output, &outcome)
                : options->recover             ? recover_file(tool, input, &output, &outcome)
                                               : decompress_file(tool, input, &output, &outcome);
    cli_progress_clear(&tool->progress);
    const bool remove =
        replaces_input(options) && input->path != NULL && !options->keep && !outcome.damaged;
    if (error == 0)
        error = output_finish(tool, input, &output, remove);
    output_close(tool, &output);
    if (error == 0)
        summary(tool, input, &outcome);
    if (error == 0 && remove)
        input_remove(tool, input);
    return error == -ECANCELED ? error : 0;
}

int file_process(struct tool *tool, const char *path)
{
    const struct tool_options *const options = tool->options;
    struct input input;
    char *name = NULL;
    int result = 0;
    if (path == NULL && isatty(STDIN_FILENO) && options->mode != MODE_COMPRESS) {
        tool_error(tool, "(standard input)", "is a terminal: compressed data is not read from it");
        return 0;
    }
    if (input_open(tool, path, &input) != 0)
        goto out;
    if (options->mode == MODE_LIST) {
        result = list_file(tool, &input) == -ECANCELED ? -ECANCELED : 0;
        goto out;
    }
    if (path != NULL && replaces_input(options)) {
        name = output_name(tool, path);
        if (name == NULL)
            goto out;
    }
    result = process(tool, &input, name != NULL ? name : options->output);
out:
    free(name);
    input_close(&input);
    return result;
}
