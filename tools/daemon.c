/* SPDX-License-Identifier: BSD-2-Clause
 *
 * daemon.c - see daemon.h.
 */
#include "daemon.h"

#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "fs/fs.h"

/* ---- the daemon ------------------------------------------------------------------------------- */

bool daemon_open(struct daemon *daemon, const char *program, const char *path)
{
    char *const mountpoint = malloc(PATH_MAX), *const store = malloc(PATH_MAX);
    int error = mountpoint == NULL || store == NULL ? -ENOMEM : 0;
    *daemon = (struct daemon){.program = program, .path = path};
    if (error == 0)
        error = fs_client_find(path, mountpoint, store, &daemon->ino);
    if (error == -ENODEV) {
        cli_error(program, path, "does not lie on a mounted sepfs");
    } else if (error != 0) {
        cli_error(program, path, "%s", strerror(-error));
    } else if ((error = fs_client_open(store, &daemon->client)) != 0) {
        cli_error(program, store, "cannot reach the daemon: %s",
                  error == -ENOTCONN ? "it does not listen (mounted read-only?)"
                                     : strerror(-error));
    }
    free(mountpoint);
    free(store);
    return error == 0;
}

void daemon_close(struct daemon *daemon)
{
    fs_client_close(daemon->client);
    daemon->client = NULL;
}

/* ---- answers ---------------------------------------------------------------------------------- */

struct answer {
    const struct daemon_field *fields;
    size_t count;
    char *to;
};

static void on_field(void *arg, const char *key, const char *value)
{
    const struct answer *const answer = arg;
    for (size_t i = 0; i < answer->count; i++) {
        const struct daemon_field *const field = &answer->fields[i];
        if (strcmp(key, field->key) != 0)
            continue;
        if (field->size > 0)
            snprintf(answer->to + field->offset, field->size, "%s", value);
        else
            (void)cli_parse_u64(value, 0, UINT64_MAX, (uint64_t *)(answer->to + field->offset));
    }
}

int daemon_call(const struct daemon *daemon, const char *request, const struct daemon_field *fields,
                size_t count, void *answer)
{
    struct answer wanted = {fields, count, answer};
    char reason[256];
    const int error =
        fs_client_call(daemon->client, request, on_field, &wanted, reason, sizeof reason);
    if (error != 0)
        cli_error(daemon->program, daemon->path, "%s", reason);
    return error;
}

/* ---- signals ---------------------------------------------------------------------------------- */

static volatile sig_atomic_t interrupted;

static void on_signal(int number)
{
    interrupted = 1;
}

void daemon_catch_signals(void)
{
    const struct sigaction action = {.sa_handler = on_signal}; /* no SA_RESTART */
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
}

bool daemon_interrupted(void)
{
    return interrupted != 0;
}
