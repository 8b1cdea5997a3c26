/* SPDX-License-Identifier: BSD-2-Clause
 *
 * fuzz_client.c - the tools' end of the control socket (fs/client.c): a peer that answers any bytes
 * and closes.
 *
 * Input: the answer. Properties: a call ends with 0, or a negative errno and a text; it hands on
 * exactly the pairs that stand before the line that ended it, decoded; none holds more than was
 * sent.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "fs/control_text.h"
#include "fs/fs.h"
#include "fuzz.h"

enum { ANSWER_MAX = 100 << 10 }; /* bytes; a socket's buffer holds them */

static char store[128];

static int listening(void)
{
    static int listener = -1;
    struct sockaddr_un address = {.sun_family = AF_UNIX};

    if (listener >= 0)
        return listener;
    snprintf(store, sizeof store, "%s/store", fuzz_scratch());
    FUZZ_CHECK(mkdir(store, 0700) == 0);
    snprintf(address.sun_path, sizeof address.sun_path, "%.80s/" FS_CONTROL_SOCKET, store);
    listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    FUZZ_CHECK(listener >= 0 && bind(listener, (struct sockaddr *)&address, sizeof address) == 0 &&
               listen(listener, 4) == 0);
    return listener;
}

struct seen {
    size_t pairs, bytes;
};

static void on_field(void *arg, const char *key, const char *value)
{
    struct seen *const seen = arg;

    FUZZ_CHECK(strchr(key, '=') == NULL && strchr(key, '\n') == NULL);
    seen->pairs++;
    seen->bytes += strlen(key) + strlen(value);
}

/* How many pairs the client may see at most: lines with a '=' before the first that ends a call. */
static size_t pairs_in(const uint8_t *data, size_t size)
{
    size_t pairs = 0;

    while (size > 0) {
        const uint8_t *const newline = memchr(data, '\n', size);
        const size_t length = newline != NULL ? (size_t)(newline - data) : size;

        if (newline == NULL || (length == 2 && memcmp(data, "ok", 2) == 0))
            break;
        pairs += memchr(data, '=', length) != NULL;
        data += length + 1;
        size -= length + 1;
    }
    return pairs;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const int listener = listening();
    struct fs_client *client;
    struct seen seen = {0};
    char text[64] = "", request[FS_CONTROL_REQUEST_MAX];
    int peer, result;

    if (size > ANSWER_MAX)
        return 0;
    FUZZ_CHECK(fs_client_open(store, &client) == 0);
    peer = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
    FUZZ_CHECK(peer >= 0);
    FUZZ_CHECK(size == 0 || send(peer, data, size, MSG_NOSIGNAL | MSG_DONTWAIT) == (ssize_t)size);
    FUZZ_CHECK(shutdown(peer, SHUT_WR) == 0);
    result = fs_client_call(client, "stats", on_field, &seen, text, sizeof text);
    FUZZ_CHECK(recv(peer, request, sizeof request, 0) == 6 && memcmp(request, "stats\n", 6) == 0);
    FUZZ_CHECK(result <= 0 && result > -4096);
    FUZZ_CHECK(seen.pairs <= pairs_in(data, size) && seen.bytes <= size);
    FUZZ_CHECK(seen.pairs <= FS_CONTROL_LINES_MAX);
    if (result == 0)
        FUZZ_CHECK(seen.pairs <= size / 2);
    /* The rest of the answer, until it is used up: every call ends. */
    for (unsigned i = 0; i < 4; i++)
        (void)fs_client_call(client, "x", on_field, &seen, text, sizeof text);
    FUZZ_CHECK(fs_client_call(client, "two\nlines", NULL, NULL, text, sizeof text) == -EINVAL);
    close(peer);
    fs_client_close(client);
    return 0;
}
