/* SPDX-License-Identifier: BSD-2-Clause
 *
 * control.c - the socket in the store: who may connect, how lines are read and answered. What the
 * verbs mean is control_verbs.c.
 *
 * One thread accepts; each connection has a thread of its own, because a wait or a sync takes as
 * long as it takes. There are at most CLIENTS_MAX of them: a connection beyond that is told so and
 * closed. A client that does not read its answer is dropped after SEND_SECONDS, one that sends no
 * newline within a request's length is told so and dropped. Nothing a client sends makes the
 * daemon keep more memory than its slot and one answer.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <syslog.h>
#include <unistd.h>

#include "control.h"
#include "control_text.h"
#include "control_verbs.h"

#define CLIENTS_MAX  32u
#define SEND_SECONDS 10

enum slot_state { SLOT_FREE, SLOT_RUNNING, SLOT_ENDED };

struct client {
    struct fs_control *control;
    pthread_t thread;
    int fd;
    enum slot_state state; /* guarded by fs_control.mutex */
};

struct fs_control {
    struct fs *fs;
    struct fs_control_view view;
    int directory; /* the store, O_PATH: the address of the socket goes through it */
    int listener;
    int stop; /* eventfd: readable once everything is to end */
    pthread_t acceptor;
    pthread_mutex_t mutex;
    struct client clients[CLIENTS_MAX];
};

static bool send_all(int fd, const char *data, size_t size)
{
    while (size > 0) {
        const ssize_t n = send(fd, data, size, MSG_NOSIGNAL);

        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return false;
        data += n;
        size -= (size_t)n;
    }
    return true;
}

static bool send_error(int fd, int error, const char *text)
{
    char line[256];
    const int n = snprintf(line, sizeof line, "error %d %s\n", error, text);

    return send_all(fd, line, (size_t)n);
}

/* Waits for input; false when it is time to end. */
static bool await_input(const struct fs_control *control, int fd)
{
    struct pollfd fds[2] = {{.fd = fd, .events = POLLIN}, {.fd = control->stop, .events = POLLIN}};

    for (;;) {
        if (poll(fds, 2, -1) < 0) {
            if (errno == EINTR)
                continue;
            return false;
        }
        return fds[1].revents == 0;
    }
}

static bool serve_line(struct client *client, char *line)
{
    struct fs_reply reply = {0};
    bool alive;

    fs_control_verb(&client->control->view, line, &reply);
    alive = reply.data != NULL && send_all(client->fd, reply.data, reply.size);
    free(reply.data);
    return alive;
}

/* Reads requests until the peer closes, misbehaves, or the daemon stops. */
static void serve(struct client *client)
{
    char buffer[FS_CONTROL_REQUEST_MAX];
    size_t filled = 0;

    while (await_input(client->control, client->fd)) {
        const ssize_t n = recv(client->fd, buffer + filled, sizeof buffer - filled, 0);
        char *newline;

        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return;
        filled += (size_t)n;
        while ((newline = memchr(buffer, '\n', filled)) != NULL) {
            const size_t used = (size_t)(newline - buffer) + 1;

            *newline = '\0';
            if (memchr(buffer, '\0', used - 1) != NULL) {
                if (!send_error(client->fd, EINVAL, "request holds a NUL byte"))
                    return;
            } else if (!serve_line(client, buffer)) {
                return;
            }
            filled -= used;
            memmove(buffer, buffer + used, filled);
        }
        if (filled == sizeof buffer) {
            send_error(client->fd, EMSGSIZE, "request is longer than 4096 bytes");
            return;
        }
    }
}

static bool stopping(const struct fs_control *control)
{
    struct pollfd fd = {.fd = control->stop, .events = POLLIN};

    return poll(&fd, 1, 0) > 0;
}

static void *client_thread(void *arg)
{
    struct client *client = arg;

    serve(client);
    pthread_mutex_lock(&client->control->mutex);
    /* A connection still open when the daemon stops stays open: its end tells the peer that the
     * process is gone, which is later than this. */
    if (!stopping(client->control)) {
        close(client->fd);
        client->fd = -1;
    }
    client->state = SLOT_ENDED;
    pthread_mutex_unlock(&client->control->mutex);
    return NULL;
}

/* Root and the daemon's own user may give orders. */
static bool peer_allowed(int fd)
{
    struct ucred peer;
    socklen_t size = sizeof peer;

    return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 &&
           (peer.uid == 0 || peer.uid == geteuid());
}

/* A free slot, after joining the threads that have ended. NULL: all are in use. */
static struct client *free_slot(struct fs_control *control)
{
    struct client *found = NULL;

    pthread_mutex_lock(&control->mutex);
    for (unsigned i = 0; i < CLIENTS_MAX; i++) {
        struct client *client = &control->clients[i];

        if (client->state == SLOT_ENDED) {
            pthread_join(client->thread, NULL);
            client->state = SLOT_FREE;
        }
        if (client->state == SLOT_FREE && found == NULL)
            found = client;
    }
    pthread_mutex_unlock(&control->mutex);
    return found;
}

static void admit(struct fs_control *control, int fd)
{
    const struct timeval limit = {.tv_sec = SEND_SECONDS};
    struct client *client;
    int error;

    (void)setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
    if (!peer_allowed(fd)) {
        send_error(fd, EPERM, "only root and the daemon's user may connect");
        close(fd);
        return;
    }
    client = free_slot(control);
    if (client == NULL) {
        send_error(fd, EBUSY, "too many connections");
        close(fd);
        return;
    }
    client->control = control;
    client->fd = fd;
    pthread_mutex_lock(&control->mutex);
    error = pthread_create(&client->thread, NULL, client_thread, client);
    if (error == 0)
        client->state = SLOT_RUNNING;
    pthread_mutex_unlock(&control->mutex);
    if (error != 0) {
        send_error(fd, EAGAIN, "no thread for this connection");
        close(fd);
    }
}

static void *accept_thread(void *arg)
{
    struct fs_control *control = arg;

    while (await_input(control, control->listener)) {
        const int fd = accept4(control->listener, NULL, NULL, SOCK_CLOEXEC);

        if (fd >= 0) {
            admit(control, fd);
        } else if (errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS) {
            /* The connection stays in the backlog and poll would return at once: wait a little for
             * descriptors or memory. */
            struct pollfd stop = {.fd = control->stop, .events = POLLIN};

            (void)poll(&stop, 1, 100);
        }
    }
    return NULL;
}

/* Binds the socket in the store. The store's lock is held, so a socket that is there already was
 * left by a daemon that was killed. */
static int bind_socket(struct fs_control *control)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};

    fs_control_address(control->directory, address.sun_path, sizeof address.sun_path);
    if (unlink(address.sun_path) != 0 && errno != ENOENT)
        return -errno;
    control->listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (control->listener < 0)
        return -errno;
    /* The mode of the descriptor is the mode the name is born with. */
    if (fchmod(control->listener, 0600) != 0 ||
        bind(control->listener, (struct sockaddr *)&address, sizeof address) != 0 ||
        listen(control->listener, 16) != 0)
        return -errno;
    return 0;
}

static void control_free(struct fs_control *control)
{
    if (control->directory >= 0)
        close(control->directory);
    if (control->listener >= 0)
        close(control->listener);
    if (control->stop >= 0)
        close(control->stop);
    pthread_mutex_destroy(&control->mutex);
    free(control);
}

/* Signals are for the main thread: the threads started here must not take them. */
static int start_acceptor(struct fs_control *control)
{
    sigset_t all;
    sigset_t old;
    int error;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    error = -pthread_create(&control->acceptor, NULL, accept_thread, control);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    return error;
}

int fs_control_start(struct fs *fs, const char *mountpoint)
{
    struct fs_control *control = calloc(1, sizeof *control);
    int error;

    if (control == NULL)
        return -ENOMEM;
    control->fs = fs;
    control->view.fs = fs;
    snprintf(control->view.mountpoint, sizeof control->view.mountpoint, "%s",
             mountpoint != NULL ? mountpoint : "");
    control->listener = -1;
    pthread_mutex_init(&control->mutex, NULL);
    control->stop = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    control->view.stop = control->stop;
    control->directory = open(index_path(fs->index), O_PATH | O_DIRECTORY | O_CLOEXEC);
    error = control->stop < 0 || control->directory < 0 ? -errno : bind_socket(control);
    if (error == 0)
        error = start_acceptor(control);
    if (error != 0) {
        fs_log(LOG_ERR, "%s/%s: cannot listen: %s", index_path(fs->index), FS_CONTROL_SOCKET,
               strerror(-error));
        control_free(control);
        return error;
    }
    fs->control = control;
    return 0;
}

void fs_control_stop(struct fs *fs)
{
    struct fs_control *control = fs->control;
    char address[64];

    if (control == NULL)
        return;
    if (eventfd_write(control->stop, 1) != 0)
        fs_log(LOG_ERR, "control socket: cannot wake its threads: %s", strerror(errno));
    pthread_join(control->acceptor, NULL);
    for (unsigned i = 0; i < CLIENTS_MAX; i++) {
        bool used;

        pthread_mutex_lock(&control->mutex);
        used = control->clients[i].state != SLOT_FREE;
        pthread_mutex_unlock(&control->mutex);
        if (used)
            pthread_join(control->clients[i].thread, NULL);
    }
    fs_control_address(control->directory, address, sizeof address);
    (void)unlink(address);
    fs->control = NULL;
    control_free(control);
}
