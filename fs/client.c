/* SPDX-License-Identifier: BSD-2-Clause
 *
 * client.c - the tools' end of the control socket: finding the mount a path lies on, talking to its
 * daemon, waiting for the daemon's end.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "control_text.h"
#include "fs.h"

#define MOUNT_TYPE "fuse.sepfs"

struct fs_client {
    int fd;
    int pidfd;           /* of the daemon, -1 when it lives in another PID namespace */
    size_t filled, line; /* bytes in the buffer; of them the line last returned */
    char buffer[FS_CONTROL_ANSWER_MAX];
};

/* ---- mounts -------------------------------------------------------------------------------- */

/* Turns the octal escapes of mountinfo (blank, tab, newline, backslash) into bytes, in place. */
static void unescape(char *text)
{
    char *out = text;

    while (*text != '\0') {
        if (text[0] == '\\' && text[1] >= '0' && text[1] <= '3' && text[2] >= '0' &&
            text[2] <= '7' && text[3] >= '0' && text[3] <= '7') {
            *out++ = (char)((text[1] - '0') << 6 | (text[2] - '0') << 3 | (text[3] - '0'));
            text += 4;
        } else {
            *out++ = *text++;
        }
    }
    *out = '\0';
}

/* Cuts a line of mountinfo: "id parent dev root MOUNTPOINT options [optional...] - TYPE SOURCE
 * ...". Returns false for a line of another form. */
static bool parse_mount(char *line, char **mountpoint, char **type, char **source)
{
    char *save = NULL;
    char *field = strtok_r(line, " \n", &save);

    for (unsigned i = 0; field != NULL && i < 4; i++)
        field = strtok_r(NULL, " \n", &save);
    *mountpoint = field;
    while (field != NULL && strcmp(field, "-") != 0)
        field = strtok_r(NULL, " \n", &save);
    if (field == NULL)
        return false;
    *type = strtok_r(NULL, " \n", &save);
    *source = strtok_r(NULL, " \n", &save);
    if (*type == NULL || *source == NULL)
        return false;
    unescape(*mountpoint);
    unescape(*source);
    return true;
}

static bool covers(const char *mountpoint, const char *path)
{
    const size_t length = strlen(mountpoint);

    return strcmp(mountpoint, "/") == 0 || (strncmp(mountpoint, path, length) == 0 &&
                                            (path[length] == '/' || path[length] == '\0'));
}

/* The mount that PATH (absolute, resolved) lies on: the longest mount point above it, of several at
 * one place the last, which hides the others. */
static int find_mount(const char *path, char *mountpoint, char *store)
{
    FILE *file = fopen("/proc/self/mountinfo", "re");
    char *line = NULL;
    size_t capacity = 0;
    size_t best = 0;
    bool ours = false;

    if (file == NULL)
        return -errno;
    while (getline(&line, &capacity, file) > 0) {
        char *point;
        char *type;
        char *source;

        if (!parse_mount(line, &point, &type, &source) || !covers(point, path) ||
            strlen(point) < best)
            continue;
        best = strlen(point);
        ours = strcmp(type, MOUNT_TYPE) == 0 && best < PATH_MAX && strlen(source) < PATH_MAX;
        if (ours) {
            strcpy(mountpoint, point);
            strcpy(store, source);
        }
    }
    free(line);
    fclose(file);
    return ours ? 0 : -ENODEV;
}

int fs_client_find(const char *path, char *mountpoint, char *store, uint64_t *ino)
{
    char *real = realpath(path, NULL);
    struct stat st;
    int error;

    if (real == NULL)
        return -errno;
    error = find_mount(real, mountpoint, store);
    if (error == 0 && stat(real, &st) != 0)
        error = -errno;
    if (error == 0)
        *ino = st.st_ino;
    free(real);
    return error;
}

/* ---- connection ---------------------------------------------------------------------------- */

static int connect_to(const char *store, int *out)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    const int directory = open(store, O_PATH | O_DIRECTORY | O_CLOEXEC);
    int error = 0;
    int fd;

    if (directory < 0)
        return -errno;
    fs_control_address(directory, address.sun_path, sizeof address.sun_path);
    fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || connect(fd, (struct sockaddr *)&address, sizeof address) != 0)
        error = errno == ENOENT || errno == ECONNREFUSED ? -ENOTCONN : -errno;
    close(directory);
    if (error != 0 && fd >= 0)
        close(fd);
    else
        *out = fd;
    return error;
}

/* The daemon as a process, so that its end can be awaited exactly. */
static int open_peer(int fd)
{
    struct ucred peer;
    socklen_t size = sizeof peer;

    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0 || peer.pid <= 0)
        return -1;
    return (int)syscall(SYS_pidfd_open, peer.pid, 0);
}

int fs_client_open(const char *store, struct fs_client **out)
{
    struct fs_client *client = malloc(sizeof *client);
    int error;

    if (client == NULL)
        return -ENOMEM;
    client->filled = client->line = 0;
    error = connect_to(store, &client->fd);
    if (error != 0) {
        free(client);
        return error;
    }
    client->pidfd = open_peer(client->fd);
    *out = client;
    return 0;
}

void fs_client_close(struct fs_client *client)
{
    if (client == NULL)
        return;
    close(client->fd);
    if (client->pidfd >= 0)
        close(client->pidfd);
    free(client);
}

static int send_request(struct fs_client *client, const char *request)
{
    struct iovec parts[2] = {{.iov_base = (void *)(uintptr_t)request, .iov_len = strlen(request)},
                             {.iov_base = (void *)(uintptr_t) "\n", .iov_len = 1}};
    struct msghdr message = {.msg_iov = parts, .msg_iovlen = 2};
    const size_t size = parts[0].iov_len + 1;
    ssize_t n;

    if (size > FS_CONTROL_REQUEST_MAX || strchr(request, '\n') != NULL)
        return -EINVAL;
    do
        n = sendmsg(client->fd, &message, MSG_NOSIGNAL);
    while (n < 0 && errno == EINTR);
    /* A request is far smaller than a socket buffer: it goes out whole or the peer is gone. */
    return n == (ssize_t)size ? 0 : -EIO;
}

/* Next line of the answer without its newline; NULL when the connection broke. */
static char *read_line(struct fs_client *client)
{
    client->filled -= client->line;
    memmove(client->buffer, client->buffer + client->line, client->filled);
    client->line = 0;
    for (;;) {
        char *newline = memchr(client->buffer, '\n', client->filled);
        ssize_t n;

        if (newline != NULL) {
            *newline = '\0';
            client->line = (size_t)(newline - client->buffer) + 1;
            return client->buffer;
        }
        if (client->filled == sizeof client->buffer)
            return NULL;
        n = recv(client->fd, client->buffer + client->filled,
                 sizeof client->buffer - client->filled, 0);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return NULL;
        client->filled += (size_t)n;
    }
}

/* "error ERRNO TEXT" */
static int parse_error(const char *line, char *error, size_t size)
{
    char *end;
    const long number = strtol(line + strlen("error "), &end, 10);

    snprintf(error, size, "%s", *end == ' ' ? end + 1 : end);
    return number > 0 && number < 4096 ? (int)-number : -EIO;
}

int fs_client_call(struct fs_client *client, const char *request,
                   void (*field)(void *arg, const char *key, const char *value), void *arg,
                   char *error, size_t size)
{
    char *line;
    unsigned lines = 0;
    int result = send_request(client, request);

    if (result == -EINVAL) {
        snprintf(error, size, "request is too long or holds a newline");
        return result;
    }
    /* A daemon that refuses a connection says why before it closes: read that even when sending
     * failed. */
    while ((line = read_line(client)) != NULL) {
        char *equals;

        if (strcmp(line, "ok") == 0)
            return 0;
        if (strncmp(line, "error ", strlen("error ")) == 0)
            return parse_error(line, error, size);
        equals = strchr(line, '=');
        if (equals == NULL || fs_percent_decode(equals + 1) != 0 || ++lines > FS_CONTROL_LINES_MAX)
            break;
        *equals = '\0';
        if (field != NULL)
            field(arg, line, equals + 1);
    }
    snprintf(error, size, "the daemon closed the connection");
    return -EIO;
}

static int64_t now_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

int fs_client_wait_exit(struct fs_client *client, int timeout_ms)
{
    /* Without a pidfd, the end of the connection, which the daemon keeps until it exits. */
    struct pollfd fd = {.fd = client->pidfd >= 0 ? client->pidfd : client->fd,
                        .events = client->pidfd >= 0 ? POLLIN : POLLRDHUP};
    const int64_t end = timeout_ms >= 0 ? now_ms() + timeout_ms : 0;

    for (;;) {
        const int64_t left = timeout_ms >= 0 ? end - now_ms() : -1;
        const int n = poll(&fd, 1, timeout_ms < 0 ? -1 : left > 0 ? (int)left : 0);

        if (n > 0)
            return 0;
        if (n == 0 && timeout_ms >= 0)
            return -ETIMEDOUT;
        if (n < 0 && errno != EINTR)
            return -errno;
    }
}
