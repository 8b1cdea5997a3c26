/* SPDX-License-Identifier: BSD-2-Clause
 *
 * conformance.h - how a rule of POSIX (or of Linux, where POSIX leaves it open) is written down.
 *
 * A topic is a table of cases, a case is one rule. Each case runs in a process of its own, in an
 * empty directory of its own that is its working directory (mode 0777, umask 022), with the runner's
 * user. So a case may leave descriptors, locks, mappings, files and another effective user behind.
 *
 * A case ends by returning (passed), by a failed CF_ macro (one line with file, line and what was
 * seen) or by CF_SKIP, for what the file system or the user at hand cannot do at all: a wrong answer
 * is never a reason to skip. All of this works in children that a case forks with cf_fork, too.
 */
#ifndef TESTS_MOUNT_CONFORMANCE_H
#define TESTS_MOUNT_CONFORMANCE_H

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

struct cf_case {
    const char *rule; /* what must hold, as a sentence */
    void (*run)(void);
};

struct cf_topic {
    const char *name;
    const struct cf_case *cases; /* ends with a NULL rule */
};

extern const struct cf_topic cf_topic_open, cf_topic_write, cf_topic_link, cf_topic_rename,
    cf_topic_exchange, cf_topic_directory, cf_topic_mode, cf_topic_owner, cf_topic_time,
    cf_topic_truncate, cf_topic_hole, cf_topic_allocate, cf_topic_copy, cf_topic_map, cf_topic_lock,
    cf_topic_xattr, cf_topic_acl, cf_topic_name, cf_topic_readdir, cf_topic_sync, cf_topic_process,
    cf_topic_limit, cf_topic_large;

/* ---- checks -------------------------------------------------------------------------------------
 */

/* Evaluates to the call's result; the case fails when it is -1. */
#define CF_OK(call)                                                                                \
    _Generic((call), int : cf_ok_int, long : cf_ok)((call), #call, __FILE__, __LINE__)
/* The call must return -1 with this errno. */
#define CF_FAILS(call, code) cf_fails((call), (code), (code), #call, __FILE__, __LINE__)
/* For the few rules where the standard allows two errors. */
#define CF_FAILS_EITHER(call, code, other)                                                         \
    cf_fails((call), (code), (other), #call, __FILE__, __LINE__)
#define CF_EQUAL(actual, expected)                                                                 \
    cf_equal((intmax_t)(actual), (intmax_t)(expected), #actual, __FILE__, __LINE__)
#define CF_CHECK(condition) cf_check((condition), #condition, __FILE__, __LINE__)
/* SIZE bytes alike; names the first that differs. */
#define CF_SAME(actual, expected, size)                                                            \
    cf_same((actual), (expected), (size), #actual, __FILE__, __LINE__)
#define CF_SKIP(...) cf_skip(__VA_ARGS__)
/* As CF_OK, but an errno that says "this file system does not have it" skips the case. */
#define CF_OK_OR_SKIP(call) cf_ok_or_skip((call), #call, __FILE__, __LINE__)

int cf_ok_int(int result, const char *text, const char *file, int line);
long cf_ok(long result, const char *text, const char *file, int line);
int cf_ok_or_skip(int result, const char *text, const char *file, int line);
void cf_fails(intmax_t result, int code, int other, const char *text, const char *file, int line);
void cf_equal(intmax_t actual, intmax_t expected, const char *text, const char *file, int line);
void cf_check(bool condition, const char *text, const char *file, int line);
void cf_same(const void *actual, const void *expected, size_t size, const char *text,
             const char *file, int line);
_Noreturn void cf_skip(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* ---- processes and users ------------------------------------------------------------------------
 */

/* Runs BODY(arg) in a child that ends by itself. cf_join waits for it and ends the case the way the
 * child ended, when that was not by returning from BODY. */
pid_t cf_fork(void (*body)(void *arg), void *arg);
void cf_join(pid_t child);

/* One-shot signals between parent and child over a pipe; create before cf_fork. cf_signal_wait fails
 * the case after ten seconds. */
struct cf_signal {
    int read, write;
};
struct cf_signal cf_signal_new(void);
void cf_signal_send(const struct cf_signal *signal);
void cf_signal_wait(const struct cf_signal *signal);

#define CF_USER  1001 /* two users and groups that need not exist in the user database */
#define CF_OTHER 1002

/* Skips unless this process may switch users and other users may enter the mount at all. */
void cf_need_users(void);
/* Effective user and group from here on, with GROUPS[0..count) as supplementary groups. */
void cf_become(uid_t uid, gid_t gid);
void cf_become_with(uid_t uid, gid_t gid, const gid_t *groups, size_t count);
void cf_become_root(void);

/* ---- files --------------------------------------------------------------------------------------
 */

/* Creates or replaces NAME with TEXT as content, mode 0644. */
void cf_write_file(const char *name, const char *text);
/* The content of NAME must be TEXT. */
void cf_expect_file(const char *name, const char *text);
/* Opens NAME read-write, creating it. */
int cf_open(const char *name);
/* All or the case fails. */
void cf_pwrite(int fd, const void *data, size_t size, off_t offset);
void cf_pread(int fd, void *data, size_t size, off_t offset);
/* Every byte of [offset, offset + size) must read as VALUE. */
void cf_expect_fill(int fd, unsigned char value, size_t size, off_t offset);
/* SIZE bytes that differ by position and SEED; the caller frees. */
unsigned char *cf_pattern(size_t size, uint64_t seed);

struct stat cf_stat(const char *name); /* of NAME itself, not of a symlink's target */
struct stat cf_fstat(int fd);
bool cf_exists(const char *name);

/* Waits until a file changed now gets a later time stamp than one changed before, whatever the
 * granularity of the kernel's clock. */
void cf_tick(void);
int cf_compare_times(struct timespec a, struct timespec b); /* -1, 0, 1 */

#endif
