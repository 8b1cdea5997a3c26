/* SPDX-License-Identifier: BSD-2-Clause
 *
 * test_control.c - the control socket, both ends: encoding, verbs, and what garbage, long lines,
 * slow readers and crowds of clients get.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "fs/control.h"
#include "fs/control_text.h"
#include "fs/fs.h"
#include "store.h"

static void percent_encoding(void **state)
{
    static const char nasty[] = "a b%c=d\n\t\x7f\xc3\xa9/\x01";
    char text[64];
    char small[8];

    assert_int_equal(fs_percent_encode(nasty, text, sizeof text), 28);
    assert_string_equal(text, "a%20b%25c%3Dd%0A%09%7F\xc3\xa9/%01");
    assert_int_equal(fs_percent_decode(text), 0);
    assert_string_equal(text, nasty);
    assert_int_equal(fs_percent_encode("abcd  ", small, sizeof small), 10);
    assert_string_equal(small, "abcd%20"); /* cut between codes, terminated */
    strcpy(text, "%4");
    assert_int_equal(fs_percent_decode(text), -EINVAL);
    strcpy(text, "%zz");
    assert_int_equal(fs_percent_decode(text), -EINVAL);
    strcpy(text, "a%00b");
    assert_int_equal(fs_percent_decode(text), -EINVAL);
}

static void setup(struct store *store)
{
    store_create(store);
    store_start(store);
    assert_int_equal(fs_control_start(&store->fs, "/mnt/with blank"), 0);
}

static void teardown(struct store *store)
{
    char path[300];

    store_stop(store);
    snprintf(path, sizeof path, "%s/%s", store->path, FS_CONTROL_SOCKET);
    assert_int_equal(access(path, F_OK), -1);
    store_remove(store);
}

struct answer {
    char text[4096];
    unsigned fields;
};

static void on_field(void *arg, const char *key, const char *value)
{
    struct answer *answer = arg;
    const size_t at = strlen(answer->text);

    answer->fields++;
    snprintf(answer->text + at, sizeof answer->text - at, "%s=%s\n", key, value);
}

/* The answer's value of KEY as a number; fails the test when it is not there. */
static uint64_t number(const struct answer *answer, const char *key)
{
    char start[64];
    const char *found;

    snprintf(start, sizeof start, "%s=", key);
    found = strstr(answer->text, start);
    if (found == NULL)
        fail_msg("no %s in: %s", key, answer->text);
    return strtoull(found + strlen(start), NULL, 10);
}

static int ask(struct fs_client *client, const char *request, struct answer *answer, char *error)
{
    *answer = (struct answer){0};
    return fs_client_call(client, request, on_field, answer, error, 256);
}

static void verbs(void **state)
{
    struct store store;
    struct fs_client *client;
    struct answer answer;
    struct stat st;
    char error[256];
    char path[300];
    uint8_t bytes[3000];

    setup(&store);
    snprintf(path, sizeof path, "%s/%s", store.path, FS_CONTROL_SOCKET);
    assert_int_equal(lstat(path, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0600);
    assert_int_equal(fs_client_open(store.path, &client), 0);

    assert_int_equal(ask(client, "hello", &answer, error), 0);
    assert_int_equal(number(&answer, "pid"), getpid());
    assert_non_null(strstr(answer.text, "mountpoint=/mnt/with blank\n"));
    assert_non_null(strstr(answer.text, store.path));

    store_text(bytes, sizeof bytes, 1);
    store_file(&store, INDEX_ROOT_INO, "file", bytes, sizeof bytes);
    assert_int_equal(ask(client, "sync", &answer, error), 0);
    assert_int_equal(answer.fields, 0);
    assert_false(index_dirty(store.index));
    assert_int_equal(ask(client, "stats", &answer, error), 0);
    assert_int_equal(number(&answer, "blocks_written"), 1);
    assert_int_equal(number(&answer, "dirty_bytes"), 0);

    assert_int_equal(ask(client, "compact ino=0 all=1", &answer, error), 0);
    snprintf(path, sizeof path, "wait ticket=%llu timeout_ms=60000",
             (unsigned long long)number(&answer, "ticket"));
    assert_int_equal(ask(client, path, &answer, error), 0);
    assert_int_equal(number(&answer, "done"), 1);
    assert_int_equal(number(&answer, "blocks_done"), 1);
    assert_int_equal(number(&answer, "error"), 0);

    assert_int_equal(ask(client, "pause", &answer, error), 0);
    assert_int_equal(ask(client, "status", &answer, error), 0);
    assert_int_equal(number(&answer, "paused"), 1);
    assert_int_equal(ask(client, "resume", &answer, error), 0);
    assert_int_equal(number(&answer, "paused"), 0);
    fs_client_close(client);
    teardown(&store);
}

static void bad_requests_are_named(void **state)
{
    static const struct {
        const char *request;
        int error;
        const char *text;
    } bad[] = {
        {"", -ENOSYS, "unknown verb"},
        {"rm -rf", -ENOSYS, "unknown verb"},
        {"status now=1", -EINVAL, "unknown argument now"},
        {"compact all", -EINVAL, "argument is not key=value: all"},
        {"compact =1", -EINVAL, "argument is not key=value: =1"},
        {"compact all=2", -EINVAL, "all: not a number up to 1"},
        {"compact all=-1", -EINVAL, "all: not a number up to 1"},
        {"compact all=%zz", -EINVAL, "all: bad percent-encoding"},
        {"compact method=brotli", -EINVAL, "method brotli: codec unknown to this build"},
        {"compact method=zstd:99", -EINVAL, "method zstd:99: size, level or pointer out of range"},
        {"compact ino=99999999999999999999", -EINVAL,
         "ino: not a number up to 18446744073709551615"},
        {"wait ticket=77", -ENOENT, "no request with ticket 77"},
        {"wait ticket=1 timeout_ms=99999999", -EINVAL, "timeout_ms: not a number up to 3600000"},
        {"wait a=1 b=1 c=1 d=1 e=1 f=1 g=1 h=1 i=1 j=1 k=1 l=1 m=1 n=1 o=1 p=1 q=1", -EINVAL,
         "too many arguments"},
    };
    struct store store;
    struct fs_client *client;
    struct answer answer;
    char error[256];

    setup(&store);
    assert_int_equal(fs_client_open(store.path, &client), 0);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_int_equal(ask(client, bad[i].request, &answer, error), bad[i].error);
        assert_string_equal(error, bad[i].text);
    }
    assert_int_equal(ask(client, "two\nlines", &answer, error), -EINVAL);
    assert_int_equal(ask(client, "hello", &answer, error), 0); /* the connection still serves */
    fs_client_close(client);
    teardown(&store);
}

/* ---- raw connections ----------------------------------------------------------------------- */

static int raw_connect(const struct store *store)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    snprintf(address.sun_path, sizeof address.sun_path, "%.80s/%s", store->path, FS_CONTROL_SOCKET);
    assert_true(fd >= 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&address, sizeof address), 0);
    return fd;
}

/* Reads until the peer closes or SIZE - 1 bytes are there. */
static size_t read_all(int fd, char *text, size_t size)
{
    size_t filled = 0;
    ssize_t n;

    while (filled < size - 1 && (n = read(fd, text + filled, size - 1 - filled)) > 0)
        filled += (size_t)n;
    text[filled] = '\0';
    return filled;
}

static void garbage_and_long_lines(void **state)
{
    struct store store;
    char line[8192];
    char text[4096];
    int fd;

    setup(&store);
    memset(line, 'x', sizeof line);
    fd = raw_connect(&store);
    (void)!send(fd, line, sizeof line, MSG_NOSIGNAL);
    read_all(fd, text, sizeof text); /* the daemon closes by itself */
    assert_true(strncmp(text, "error 90 request is longer", 26) == 0 || text[0] == '\0');
    close(fd);

    fd = raw_connect(&store);
    assert_int_equal(send(fd, "hel\0lo\n\xff\xfe\n", 10, MSG_NOSIGNAL), 10);
    shutdown(fd, SHUT_WR);
    read_all(fd, text, sizeof text);
    assert_string_equal(text, "error 22 request holds a NUL byte\nerror 38 unknown verb\n");
    close(fd);

    /* Requests in pieces, and several in one piece. */
    fd = raw_connect(&store);
    assert_int_equal(send(fd, "fo", 2, MSG_NOSIGNAL), 2);
    assert_int_equal(send(fd, "o\nbar\nhel", 9, MSG_NOSIGNAL), 9);
    shutdown(fd, SHUT_WR);
    read_all(fd, text, sizeof text);
    assert_string_equal(text, "error 38 unknown verb\nerror 38 unknown verb\n");
    close(fd);
    teardown(&store);
}

/* More clients than there are places: those beyond are told so; places become free again. */
static void crowds(void **state)
{
    struct store store;
    struct fs_client *client;
    struct answer answer;
    char error[256];
    char text[256];
    int fds[40];
    unsigned refused = 0;
    int result = -EIO;

    setup(&store);
    for (unsigned i = 0; i < 40; i++) {
        fds[i] = raw_connect(&store);
        assert_int_equal(send(fds[i], "nonsense\n", 9, MSG_NOSIGNAL), 9);
        shutdown(fds[i], SHUT_WR);
        /* The answer must have come before the next one knocks, or places may be free by then. */
        assert_true(recv(fds[i], text, sizeof text - 1, MSG_PEEK) > 0);
    }
    for (unsigned i = 0; i < 40; i++) {
        read_all(fds[i], text, sizeof text);
        if (strcmp(text, "error 16 too many connections\n") == 0)
            refused++;
        else
            assert_string_equal(text, "error 38 unknown verb\n");
        close(fds[i]);
    }
    assert_true(refused <= 8);
    for (unsigned i = 0; i < 100 && result != 0; i++) {
        assert_int_equal(fs_client_open(store.path, &client), 0);
        result = ask(client, "hello", &answer, error);
        fs_client_close(client);
    }
    assert_int_equal(result, 0);
    teardown(&store);
}

static void idle_places_are_limited(void **state)
{
    struct store store;
    int fds[33];
    char text[256];

    setup(&store);
    for (unsigned i = 0; i < 32; i++) {
        fds[i] = raw_connect(&store);
        assert_int_equal(send(fds[i], "x\n", 2, MSG_NOSIGNAL), 2);
        assert_true(recv(fds[i], text, sizeof text, 0) > 0); /* it has its place and keeps it */
    }
    fds[32] = raw_connect(&store);
    read_all(fds[32], text, sizeof text);
    assert_string_equal(text, "error 16 too many connections\n");
    for (unsigned i = 0; i < 33; i++)
        close(fds[i]);
    teardown(&store);
}

/* One client never reads: others are served meanwhile, and stopping does not wait for it. */
static void slow_reader(void **state)
{
    struct store store;
    struct fs_client *client;
    struct answer answer;
    char error[256];
    const int size = 4096;
    int fd;

    setup(&store);
    fd = raw_connect(&store);
    (void)setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &size, sizeof size);
    fcntl(fd, F_SETFL, O_NONBLOCK);
    for (unsigned i = 0; i < 2000; i++)
        (void)!send(fd, "stats\nstats\n", 12, MSG_NOSIGNAL);
    assert_int_equal(fs_client_open(store.path, &client), 0);
    assert_int_equal(ask(client, "hello", &answer, error), 0);
    fs_client_close(client);
    close(fd);
    teardown(&store);
}

/* ---- addresses ----------------------------------------------------------------------------- */

static void long_store_paths(void **state)
{
    struct store store;
    struct fs_client *client;
    struct answer answer;
    char error[256];
    char base[256];
    size_t length;

    store_create(&store);
    snprintf(base, sizeof base, "%s", store.path);
    while (strlen(store.path) < 200) {
        length = strlen(store.path);
        snprintf(store.path + length, sizeof store.path - length, "/a-rather-long-directory-name");
        assert_int_equal(mkdir(store.path, 0700), 0);
    }
    store_start(&store);
    assert_int_equal(fs_client_open(store.path, &client), -ENOTCONN);
    assert_int_equal(fs_control_start(&store.fs, "/m"), 0);
    assert_int_equal(fs_client_open(store.path, &client), 0);
    assert_int_equal(ask(client, "hello", &answer, error), 0);
    fs_client_close(client);
    store_stop(&store);
    assert_int_equal(fs_client_open(store.path, &client), -ENOTCONN);
    strcpy(store.path, base);
    store_remove(&store);
}

/* A socket left behind by a daemon that was killed is replaced. */
static void stale_socket(void **state)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    struct store store;
    struct fs_client *client;
    int fd;

    store_create(&store);
    store_start(&store);
    snprintf(address.sun_path, sizeof address.sun_path, "%.80s/%s", store.path, FS_CONTROL_SOCKET);
    fd = socket(AF_UNIX, SOCK_STREAM, 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof address), 0);
    close(fd);
    assert_int_equal(fs_client_open(store.path, &client), -ENOTCONN);
    assert_int_equal(fs_control_start(&store.fs, "/m"), 0);
    assert_int_equal(fs_client_open(store.path, &client), 0);
    fs_client_close(client);
    teardown(&store);
}

static void paths_off_any_mount(void **state)
{
    char mountpoint[PATH_MAX];
    char store[PATH_MAX];
    uint64_t ino;

    assert_int_equal(fs_client_find("/", mountpoint, store, &ino), -ENODEV);
    assert_int_equal(fs_client_find("/proc/self", mountpoint, store, &ino), -ENODEV);
    assert_int_equal(fs_client_find("/no/such/path", mountpoint, store, &ino), -ENOENT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(percent_encoding),
        cmocka_unit_test(verbs),
        cmocka_unit_test(bad_requests_are_named),
        cmocka_unit_test(garbage_and_long_lines),
        cmocka_unit_test(crowds),
        cmocka_unit_test(idle_places_are_limited),
        cmocka_unit_test(slow_reader),
        cmocka_unit_test(long_store_paths),
        cmocka_unit_test(stale_socket),
        cmocka_unit_test(paths_off_any_mount),
    };

    return cmocka_run_group_tests_name("control socket", tests, NULL, NULL);
}
