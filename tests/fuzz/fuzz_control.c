/* SPDX-License-Identifier: BSD-2-Clause
 *
 * fuzz_control.c - the daemon's end of the control socket (fs/control.c, fs/control_verbs.c): a real
 * socket on a store with its compactor, and a client that sends any bytes and then nothing more.
 *
 * Input: what is sent. Properties: every request gets one answer, of lines "key=value" ended by "ok"
 * or by "error", a positive number and a text; none holds a control character; a request that is too
 * long ends the connection after saying so; afterwards the daemon still answers.
 */
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "fs/control.h"
#include "fs/control_text.h"
#include "fs/core.h"
#include "fuzz.h"

enum { ANSWER_MAX = 1 << 22, SENT_MAX = 1 << 16 };

static char socket_path[128];

static void start(void)
{
    static struct fs fs;
    static struct index *index;
    struct fs_options options;
    const struct index_options index_options = {.flags = INDEX_OPEN_CREATE, .map_size = 1u << 30};
    char path[128], error[256];

    if (index != NULL)
        return;
    snprintf(path, sizeof path, "%s/store", fuzz_scratch());
    snprintf(socket_path, sizeof socket_path, "%.100s/" FS_CONTROL_SOCKET, path);
    fs_options_init(&options);
    options.threads = 1;
    FUZZ_CHECK(index_open(path, &index_options, &index, error, sizeof error) == 0);
    FUZZ_CHECK(fs_start(&fs, index, &options) == 0);
    FUZZ_CHECK(fs_control_start(&fs, "/mnt/fuzz") == 0);
}

static int connected(void)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    FUZZ_CHECK(fd >= 0 && strlen(socket_path) < sizeof address.sun_path);
    strcpy(address.sun_path, socket_path);
    FUZZ_CHECK(connect(fd, (struct sockaddr *)&address, sizeof address) == 0);
    return fd;
}

/* Sends and receives at once, or both ends could wait for the other. Returns the answer's size. */
static size_t talk(const uint8_t *data, size_t size, char *answer)
{
    const int fd = connected();
    size_t sent = 0, got = 0;
    bool sending = true;

    for (;;) {
        ssize_t n;

        if (sending && sent < size) {
            n = send(fd, data + sent, size - sent, MSG_NOSIGNAL | MSG_DONTWAIT);
            if (n > 0)
                sent += (size_t)n;
            else if (errno == EPIPE || errno == ECONNRESET)
                sending = false;
        }
        if (sending && sent == size) {
            (void)shutdown(fd, SHUT_WR);
            sending = false;
        }
        FUZZ_CHECK(got < ANSWER_MAX);
        n = recv(fd, answer + got, ANSWER_MAX - got, sending ? MSG_DONTWAIT : 0);
        if (n == 0 || (n < 0 && errno == ECONNRESET))
            break;
        if (n > 0)
            got += (size_t)n;
    }
    close(fd);
    return got;
}

/* Checks one line and tells whether it ends an answer. */
static bool ends(const char *line, size_t size)
{
    int number = 0;

    for (size_t i = 0; i < size; i++)
        FUZZ_CHECK(!iscntrl((unsigned char)line[i]));
    if (size == 2 && memcmp(line, "ok", 2) == 0)
        return true;
    if (size > 6 && memcmp(line, "error ", 6) == 0) {
        FUZZ_CHECK(sscanf(line + 6, "%d", &number) == 1 && number > 0 && number < 4096);
        return true;
    }
    FUZZ_CHECK(memchr(line, '=', size) != NULL);
    return false;
}

/* Requests that must be answered, and whether all that follows one is refused. */
static unsigned requests(const uint8_t *data, size_t size, bool *refused)
{
    unsigned count = 0;
    size_t start = 0;

    *refused = false;
    for (size_t i = 0; i < size; i++) {
        if (data[i] != '\n' && i - start + 1 == FS_CONTROL_REQUEST_MAX) {
            *refused = true;
            break;
        }
        if (data[i] == '\n') {
            count++;
            start = i + 1;
        }
    }
    return count;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static char *answer;
    bool refused;
    unsigned answers = 0;
    size_t got;

    if (size > SENT_MAX)
        return 0;
    start();
    if (answer == NULL)
        answer = malloc(ANSWER_MAX);
    FUZZ_CHECK(answer != NULL);
    const unsigned expected = requests(data, size, &refused);

    got = talk(data, size, answer);
    for (char *line = answer, *end = answer + got; line < end;) {
        char *const newline = memchr(line, '\n', (size_t)(end - line));

        if (newline == NULL) {
            FUZZ_CHECK(refused); /* cut off by a reset: what it had not read was still coming */
            break;
        }
        answers += ends(line, (size_t)(newline - line));
        line = newline + 1;
    }
    /* The reset may also swallow answers that were on their way. */
    FUZZ_CHECK(refused ? answers <= expected + 1 : answers == expected);
    got = talk((const uint8_t *)"hello\n", 6, answer);
    FUZZ_CHECK(got > 3 && memcmp(answer + got - 3, "ok\n", 3) == 0);
    return 0;
}
