/* SPDX-License-Identifier: BSD-2-Clause
 *
 * daemon.h - what the commands that steer a mounted sepfs do alike: find the mount that a path lies
 * on, ask its daemon, take its answer apart, and be interrupted.
 */
#ifndef TOOLS_DAEMON_H
#define TOOLS_DAEMON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct fs_client;

struct daemon {
    const char *program, *path; /* for messages */
    struct fs_client *client;
    uint64_t ino; /* of the path */
};

/* PROGRAM and PATH are borrowed. False after one error line that says why; close all the same. */
bool daemon_open(struct daemon *daemon, const char *program, const char *path);
void daemon_close(struct daemon *daemon);

/* A key of an answer, and where its value goes in the caller's struct. */
struct daemon_field {
    const char *key;
    size_t offset;
    size_t size; /* 0: an uint64_t; otherwise text in so many bytes */
};

/* Sends REQUEST and puts the fields of the answer that are among the COUNT FIELDS into ANSWER; the
 * others stay as they are. 0, or a negative errno after one error line. */
int daemon_call(const struct daemon *daemon, const char *request, const struct daemon_field *fields,
                size_t count, void *answer);

/* SIGINT and SIGTERM no longer end the process; they end sleeps. */
void daemon_catch_signals(void);
/* Whether one of them came since. */
bool daemon_interrupted(void);

#endif
