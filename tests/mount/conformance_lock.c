/* SPDX-License-Identifier: BSD-2-Clause
 *
 * conformance_lock.c - flock(2), POSIX record locks (of a process) and OFD locks (of an open file).
 */
#include <signal.h>
#include <sys/file.h>
#include <sys/wait.h>

#include "conformance.h"

static struct flock range(short type, off_t start, off_t length)
{
    return (struct flock){.l_type = type, .l_whence = SEEK_SET, .l_start = start, .l_len = length};
}

static int set(int fd, short type, off_t start, off_t length)
{
    struct flock lock = range(type, start, length);
    return fcntl(fd, F_SETLK, &lock);
}

static int set_open(int fd, short type, off_t start, off_t length)
{
    struct flock lock = range(type, start, length);
    return fcntl(fd, F_OFD_SETLK, &lock);
}

/* ---- flock --------------------------------------------------------------------------------------
 */

static void flock_conflicts(void)
{
    const int one = cf_open("file"), two = cf_open("file");
    CF_OK(flock(one, LOCK_EX | LOCK_NB));
    CF_FAILS(flock(two, LOCK_SH | LOCK_NB), EWOULDBLOCK);
    CF_FAILS(flock(two, LOCK_EX | LOCK_NB), EWOULDBLOCK);
    CF_OK(flock(one, LOCK_SH | LOCK_NB)); /* down: others may share */
    CF_OK(flock(two, LOCK_SH | LOCK_NB));
    CF_FAILS(flock(two, LOCK_EX | LOCK_NB), EWOULDBLOCK);
    CF_OK(flock(one, LOCK_UN));
    CF_OK(flock(two, LOCK_EX | LOCK_NB));
}

static void flock_of_description(void)
{
    const int one = cf_open("file"), twin = CF_OK(dup(one)), other = cf_open("file");
    CF_OK(flock(one, LOCK_EX | LOCK_NB));
    CF_OK(flock(twin, LOCK_EX | LOCK_NB));
    CF_OK(close(one));
    CF_FAILS(flock(other, LOCK_EX | LOCK_NB), EWOULDBLOCK);
    CF_OK(close(twin));
    CF_OK(flock(other, LOCK_EX | LOCK_NB));
}

struct waiter {
    struct cf_signal started, locked;
};

static void wait_for_flock(void *arg)
{
    const struct waiter *waiter = arg;
    const int fd = CF_OK(open("file", O_RDWR));
    CF_FAILS(flock(fd, LOCK_EX | LOCK_NB), EWOULDBLOCK);
    cf_signal_send(&waiter->started);
    CF_OK(flock(fd, LOCK_EX));
    cf_expect_file("file", "released"); /* written by the parent while it held the lock */
    cf_signal_send(&waiter->locked);
}

static void flock_waits(void)
{
    const struct waiter waiter = {cf_signal_new(), cf_signal_new()};
    const int fd = cf_open("file");
    CF_OK(flock(fd, LOCK_EX));
    const pid_t child = cf_fork(wait_for_flock, (void *)(uintptr_t)&waiter);
    cf_signal_wait(&waiter.started);
    cf_write_file("file", "released");
    CF_OK(flock(fd, LOCK_UN));
    cf_signal_wait(&waiter.locked);
    cf_join(child);
}

/* ---- POSIX --------------------------------------------------------------------------------------
 */

struct probe {
    short type;
    off_t start, length;
    int expected; /* 0 or errno */
};

static void try_lock(void *arg)
{
    const struct probe *probe = arg;
    const int fd = CF_OK(open("file", O_RDWR));
    const int result = set(fd, probe->type, probe->start, probe->length);
    if (probe->expected)
        CF_FAILS_EITHER(result, EAGAIN, EACCES);
    else
        CF_EQUAL(result, 0);
}

/* What another process gets. */
static void other_gets(short type, off_t start, off_t length, int expected)
{
    struct probe probe = {type, start, length, expected};
    cf_join(cf_fork(try_lock, &probe));
}

static void posix_ranges(void)
{
    const int fd = cf_open("file");
    CF_OK(set(fd, F_WRLCK, 100, 100));
    other_gets(F_WRLCK, 0, 100, 0);
    other_gets(F_WRLCK, 99, 2, EAGAIN);
    other_gets(F_RDLCK, 199, 1, EAGAIN);
    other_gets(F_WRLCK, 200, 0, 0);
    CF_OK(set(fd, F_UNLCK, 140, 20)); /* splits it in two */
    other_gets(F_WRLCK, 140, 20, 0);
    other_gets(F_WRLCK, 139, 1, EAGAIN);
    other_gets(F_WRLCK, 160, 1, EAGAIN);
    CF_OK(set(fd, F_RDLCK, 100, 10)); /* part of it becomes shared */
    other_gets(F_RDLCK, 100, 10, 0);
    other_gets(F_WRLCK, 100, 10, EAGAIN);
    other_gets(F_RDLCK, 110, 1, EAGAIN);
    CF_OK(set(fd, F_WRLCK, 0, 0)); /* to the end, wherever that will be */
    other_gets(F_RDLCK, INT64_C(1) << 40, 1, EAGAIN);
}

static void report_holder(void *arg)
{
    const int fd = CF_OK(open("file", O_RDWR));
    struct flock lock = range(F_WRLCK, 0, 0);
    CF_OK(fcntl(fd, F_GETLK, &lock));
    CF_EQUAL(lock.l_type, F_RDLCK);
    CF_EQUAL(lock.l_start, 10);
    CF_EQUAL(lock.l_len, 20);
    CF_EQUAL(lock.l_pid, *(const pid_t *)arg);
    lock = range(F_RDLCK, 0, 0);
    CF_OK(fcntl(fd, F_GETLK, &lock));
    CF_EQUAL(lock.l_type, F_UNLCK);
}

static void posix_reports_holder(void)
{
    pid_t self = getpid();
    CF_OK(set(cf_open("file"), F_RDLCK, 10, 20));
    cf_join(cf_fork(report_holder, &self));
}

static void posix_of_process(void)
{
    const int one = cf_open("file"), two = cf_open("file");
    CF_OK(set(one, F_WRLCK, 0, 0));
    CF_OK(set(two, F_WRLCK, 0, 0)); /* the same process */
    other_gets(F_WRLCK, 0, 0, EAGAIN);
    CF_OK(close(two)); /* POSIX: closing any descriptor of the file drops all */
    other_gets(F_WRLCK, 0, 0, 0);
}

static void lock_and_die(void *arg)
{
    CF_OK(set(CF_OK(open("file", O_RDWR)), F_WRLCK, 0, 0));
    cf_signal_send(arg);
    for (;;)
        pause();
}

static void posix_of_killed(void)
{
    struct cf_signal locked = cf_signal_new();
    const int fd = cf_open("file");
    const pid_t child = cf_fork(lock_and_die, &locked);
    cf_signal_wait(&locked);
    CF_FAILS_EITHER(set(fd, F_WRLCK, 0, 0), EAGAIN, EACCES);
    CF_OK(kill(child, SIGKILL));
    CF_OK(waitpid(child, NULL, 0));
    struct flock lock = range(F_WRLCK, 0, 0);
    CF_OK(fcntl(fd, F_SETLKW, &lock));
}

static void wait_for_range(void *arg)
{
    const struct waiter *waiter = arg;
    const int fd = CF_OK(open("file", O_RDWR));
    struct flock lock = range(F_WRLCK, 5, 1);
    cf_signal_send(&waiter->started);
    CF_OK(fcntl(fd, F_SETLKW, &lock));
    cf_expect_file("other", "released");
    cf_signal_send(&waiter->locked);
}

static void posix_waits(void)
{
    const struct waiter waiter = {cf_signal_new(), cf_signal_new()};
    const int fd = cf_open("file");
    CF_OK(set(fd, F_WRLCK, 0, 10));
    const pid_t child = cf_fork(wait_for_range, (void *)(uintptr_t)&waiter);
    cf_signal_wait(&waiter.started);
    cf_write_file("other", "released"); /* not "file": closing that would drop the lock */
    CF_OK(set(fd, F_UNLCK, 0, 10));
    cf_signal_wait(&waiter.locked);
    cf_join(child);
}

/* Holds byte 1, waits for byte 0, which the parent holds while it waits for byte 1. One of the two
 * must get EDEADLK; whoever gets the lock instead gets it because the other gave up. */
static void lock_crosswise(void *arg)
{
    const struct waiter *waiter = arg;
    const int fd = CF_OK(open("file", O_RDWR));
    CF_OK(set(fd, F_WRLCK, 1, 1));
    cf_signal_send(&waiter->started);
    struct flock lock = range(F_WRLCK, 0, 1);
    if (fcntl(fd, F_SETLKW, &lock)) {
        CF_EQUAL(errno, EDEADLK);
        cf_signal_send(&waiter->locked);
    }
}

static void posix_deadlock(void)
{
    const struct waiter waiter = {cf_signal_new(), cf_signal_new()};
    const int fd = cf_open("file");
    CF_OK(set(fd, F_WRLCK, 0, 1));
    const pid_t child = cf_fork(lock_crosswise, (void *)(uintptr_t)&waiter);
    cf_signal_wait(&waiter.started);
    struct flock lock = range(F_WRLCK, 1, 1);
    if (fcntl(fd, F_SETLKW, &lock))
        CF_EQUAL(errno, EDEADLK);
    else
        cf_signal_wait(&waiter.locked);
    CF_OK(set(fd, F_UNLCK, 0, 0));
    cf_join(child);
}

/* ---- OFD ----------------------------------------------------------------------------------------
 */

static void ofd_of_description(void)
{
    const int one = cf_open("file"), two = cf_open("file"), three = cf_open("file");
    CF_OK(set_open(one, F_WRLCK, 0, 10));
    CF_FAILS_EITHER(set_open(two, F_WRLCK, 5, 1), EAGAIN, EACCES);
    CF_OK(set_open(two, F_WRLCK, 10, 10));
    CF_OK(close(three)); /* drops nothing, unlike with locks of a process */
    CF_FAILS_EITHER(set_open(two, F_RDLCK, 0, 1), EAGAIN, EACCES);
    struct flock lock = range(F_WRLCK, 0, 1);
    CF_OK(fcntl(two, F_OFD_GETLK, &lock));
    CF_EQUAL(lock.l_type, F_WRLCK);
    CF_EQUAL(lock.l_pid, -1);
    CF_OK(close(one));
    CF_OK(set_open(two, F_WRLCK, 0, 10));
}

static void ofd_against_posix(void)
{
    const int one = cf_open("file"), two = cf_open("file");
    CF_OK(set_open(one, F_WRLCK, 0, 10));
    CF_FAILS_EITHER(set(two, F_WRLCK, 0, 1), EAGAIN, EACCES);
    other_gets(F_WRLCK, 0, 1, EAGAIN);
    CF_OK(set_open(one, F_UNLCK, 0, 0));
    CF_OK(set(two, F_WRLCK, 0, 1));
    CF_FAILS_EITHER(set_open(one, F_WRLCK, 0, 1), EAGAIN, EACCES);
}

static void needs_access_mode(void)
{
    CF_OK(close(cf_open("file")));
    const int reader = CF_OK(open("file", O_RDONLY)), writer = CF_OK(open("file", O_WRONLY));
    CF_FAILS(set(reader, F_WRLCK, 0, 1), EBADF);
    CF_FAILS(set(writer, F_RDLCK, 0, 1), EBADF);
    CF_OK(flock(reader, LOCK_EX | LOCK_NB)); /* flock does not care */
}

static const struct cf_case cases[] = {
    {"flock: exclusive against shared, up and down", flock_conflicts},
    {"flock belongs to the open file, until its last descriptor is closed", flock_of_description},
    {"flock waits until the lock is free", flock_waits},
    {"POSIX: ranges conflict, split and change their type", posix_ranges},
    {"POSIX: F_GETLK names range, type and holder", posix_reports_holder},
    {"POSIX: locks belong to the process, and any close drops them", posix_of_process},
    {"POSIX: the locks of a killed process are free", posix_of_killed},
    {"POSIX: F_SETLKW waits until the range is free", posix_waits},
    {"POSIX: a deadlock is found", posix_deadlock},
    {"OFD: locks belong to the open file", ofd_of_description},
    {"OFD and POSIX locks conflict with each other", ofd_against_posix},
    {"locks need a descriptor of their mode", needs_access_mode},
    {NULL, NULL},
};

const struct cf_topic cf_topic_lock = {"lock", cases};
