/* SPDX-License-Identifier: BSD-2-Clause
 *
 * conformance_process.c - rules between processes: what fork and exec do to locks, programs that
 * run, one process's changes in another's eyes, and descriptors in poll, fcntl and ioctl.
 */
#include <poll.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/file.h>
#include <sys/inotify.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/wait.h>

#include "conformance.h"

/* ---- locks over fork and exec ------------------------------------------------------------------- */

static int set_range(int fd, short type)
{
    struct flock lock = {.l_type = type, .l_whence = SEEK_SET};
    return fcntl(fd, F_SETLK, &lock);
}

static void fails_to_lock(void *arg)
{
    CF_FAILS_EITHER(set_range(*(const int *)arg, F_WRLCK), EAGAIN, EACCES);
}

static void locks_not_inherited(void)
{
    int fd = cf_open("file");
    CF_OK(set_range(fd, F_WRLCK));
    cf_join(cf_fork(fails_to_lock, &fd)); /* the same descriptor, another process */
    int other = cf_open("file");
    cf_join(cf_fork(fails_to_lock, &other));
}

static void releases_flock(void *arg)
{
    CF_OK(flock(*(const int *)arg, LOCK_UN));
}

static void flock_inherited(void)
{
    int fd = cf_open("file");
    const int other = cf_open("file");
    CF_OK(flock(fd, LOCK_EX));
    CF_FAILS(flock(other, LOCK_EX | LOCK_NB), EWOULDBLOCK);
    cf_join(cf_fork(releases_flock, &fd)); /* the open file is shared: so is its lock */
    CF_OK(flock(other, LOCK_EX | LOCK_NB));
}

struct program {
    struct cf_signal running;
    int keep, closed; /* descriptors: inherited, and closed on exec */
    int input;        /* what the program waits for */
};

static void run_cat(void *arg)
{
    const struct program *program = arg;
    CF_OK(set_range(program->keep, F_WRLCK));
    CF_OK(flock(program->closed, LOCK_EX));
    CF_OK(dup2(program->input, STDIN_FILENO));
    CF_OK(dup2(program->running.write, STDOUT_FILENO));
    execl("/bin/sh", "sh", "-c", "echo; read x", (char *)NULL);
    CF_OK(-1);
}

static void locks_over_exec(void)
{
    int input[2];
    struct program program = {.running = cf_signal_new()};
    CF_OK(pipe2(input, O_CLOEXEC));
    program.input = input[0];
    program.keep = CF_OK(open("keep", O_RDWR | O_CREAT, 0644));
    program.closed = CF_OK(open("closed", O_RDWR | O_CREAT | O_CLOEXEC, 0644));
    const int keep = cf_open("keep"), closed = cf_open("closed");
    const pid_t child = cf_fork(run_cat, &program);
    CF_OK(close(program.closed)); /* the child's is the last descriptor, and exec closes it */
    cf_signal_wait(&program.running);
    CF_FAILS_EITHER(set_range(keep, F_WRLCK), EAGAIN, EACCES);
    CF_OK(flock(closed, LOCK_EX));
    CF_EQUAL(write(input[1], "\n", 1), 1);
    cf_join(child);
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    CF_OK(fcntl(keep, F_SETLKW, &lock)); /* the end of a process releases */
}

/* ---- programs ----------------------------------------------------------------------------------- */

static void copy_program(const char *from, const char *to)
{
    static char buffer[1 << 16];
    const int in = CF_OK(open(from, O_RDONLY));
    const int out = CF_OK(open(to, O_WRONLY | O_CREAT | O_CLOEXEC, 0755));
    for (ssize_t size; (size = CF_OK(read(in, buffer, sizeof buffer))) > 0;)
        CF_EQUAL(write(out, buffer, (size_t)size), size);
    CF_OK(close(in));
    CF_OK(close(out));
}

static void exec_program(void *arg)
{
    const struct program *program = arg;
    CF_OK(dup2(program->input, STDIN_FILENO));
    CF_OK(dup2(program->running.write, STDOUT_FILENO));
    execl("./program", "program", "-c", "echo; read x", (char *)NULL);
    if (errno == EACCES)
        CF_SKIP("mounted noexec");
    CF_OK(-1);
}

static void running_program_is_busy(void)
{
    int input[2];
    struct program program = {.running = cf_signal_new()};
    copy_program("/bin/sh", "program");
    CF_OK(pipe2(input, O_CLOEXEC));
    program.input = input[0];
    const pid_t child = cf_fork(exec_program, &program);
    cf_signal_wait(&program.running);
    CF_FAILS(open("program", O_WRONLY), ETXTBSY);
    CF_FAILS(open("program", O_RDWR | O_TRUNC), ETXTBSY);
    CF_FAILS(truncate("program", 0), ETXTBSY);
    CF_OK(unlink("program")); /* its name may go */
    CF_EQUAL(write(input[1], "\n", 1), 1);
    int status;
    CF_OK(waitpid(child, &status, 0));
}

static void exec_of_written(void *arg)
{
    (void)arg;
    execl("./program", "program", "-c", "true", (char *)NULL);
    if (errno == EACCES)
        CF_SKIP("mounted noexec");
    CF_EQUAL(errno, ETXTBSY);
}

static void written_program_is_busy(void)
{
    copy_program("/bin/sh", "program");
    const int fd = CF_OK(open("program", O_WRONLY));
    cf_join(cf_fork(exec_of_written, NULL));
    CF_OK(close(fd));
}

static void exec_forbidden(void *arg)
{
    execl(arg, arg, (char *)NULL);
    CF_EQUAL(errno, EACCES);
}

static void program_needs_x(void)
{
    copy_program("/bin/true", "program");
    CF_OK(chmod("program", 0666));
    cf_join(cf_fork(exec_forbidden, "./program")); /* root, too, needs one x bit */
    CF_OK(mkdir("directory", 0777));
    cf_join(cf_fork(exec_forbidden, "./directory"));
}

/* ---- what others see ---------------------------------------------------------------------------- */

static void make_and_remove(void *arg)
{
    (void)arg;
    cf_write_file("name", "by a child");
    CF_OK(mkdir("dir", 0755));
    CF_OK(symlink("name", "link"));
    CF_OK(unlink("gone"));
}

static void missing_names_appear(void)
{
    cf_write_file("gone", "");
    for (unsigned i = 0; i < 3; i++) { /* so that a cache of missing names has them */
        CF_CHECK(!cf_exists("name") && !cf_exists("dir") && !cf_exists("link"));
        CF_CHECK(cf_exists("gone"));
    }
    cf_join(cf_fork(make_and_remove, NULL));
    cf_expect_file("name", "by a child");
    cf_expect_file("link", "by a child");
    CF_CHECK(cf_exists("dir") && !cf_exists("gone"));
}

static void stat_of_other(void *arg)
{
    const int fd = *(const int *)arg;
    cf_pwrite(fd, "12345678", 8, 8);
    CF_OK(fchmod(fd, 0640));
}

static void changes_show_in_stat(void)
{
    int fd = cf_open("file");
    CF_EQUAL(cf_stat("file").st_size, 0);
    cf_join(cf_fork(stat_of_other, &fd));
    CF_EQUAL(cf_stat("file").st_size, 16);
    CF_EQUAL(cf_stat("file").st_mode & 07777, 0640);
}

/* Bytes of a file that only grows by 'x' and is cut to nothing: a reader never sees others. */
static void grow_and_cut(void *arg)
{
    char block[3000];
    const int fd = CF_OK(open("file", O_WRONLY | O_APPEND));
    memset(block, 'x', sizeof block);
    for (unsigned i = 0; i < 1500; i++) {
        CF_EQUAL(write(fd, block, sizeof block), sizeof block);
        if (i % 100 == 99)
            CF_OK(ftruncate(fd, 0));
    }
    cf_signal_send(arg);
}

static void readers_see_what_was_written(void)
{
    static char buffer[1 << 19];
    struct cf_signal done = cf_signal_new();
    const int fd = cf_open("file");
    const pid_t child = cf_fork(grow_and_cut, &done);
    struct pollfd ready = {.fd = done.read, .events = POLLIN};
    while (poll(&ready, 1, 0) == 0) {
        const ssize_t size = CF_OK(pread(fd, buffer, sizeof buffer, 0));
        for (ssize_t i = 0; i < size; i++) {
            /* zeros: a page that was cut off between the look at the size and the copy */
            CF_CHECK(buffer[i] == 'x' || buffer[i] == 0);
        }
    }
    cf_join(child);
}

static void write_own_byte(void *arg)
{
    static char block[200000];
    const int byte = *(const unsigned char *)arg, fd = CF_OK(open("file", O_RDWR));
    memset(block, byte, sizeof block);
    for (unsigned i = 0; i < 25; i++)
        cf_pwrite(fd, block, sizeof block, 100);
}

static void writes_do_not_mix(void)
{
    unsigned char one = '1', two = '2';
    const int fd = cf_open("file");
    const pid_t first = cf_fork(write_own_byte, &one), second = cf_fork(write_own_byte, &two);
    cf_join(first);
    cf_join(second);
    unsigned char last;
    cf_pread(fd, &last, 1, 100);
    CF_CHECK(last == '1' || last == '2');
    cf_expect_fill(fd, last, 200000, 100); /* all of the last write, or all of the other's */
}

static void events_are_told(void)
{
    char events[4096] __attribute__((aligned(8)));
    uint32_t seen = 0;
    const int fd = CF_OK(inotify_init1(IN_NONBLOCK | IN_CLOEXEC));
    CF_OK(inotify_add_watch(fd, ".", IN_CREATE | IN_MODIFY | IN_ATTRIB | IN_MOVED_TO | IN_DELETE));
    cf_write_file("file", "text");
    CF_OK(chmod("file", 0600));
    CF_OK(rename("file", "other"));
    CF_OK(unlink("other"));
    const ssize_t size = CF_OK(read(fd, events, sizeof events));
    for (ssize_t i = 0; i < size;) {
        const struct inotify_event *event = (const void *)(events + i);
        seen |= event->mask;
        i += (ssize_t)(sizeof *event + event->len);
    }
    CF_EQUAL(seen & (IN_CREATE | IN_MODIFY | IN_ATTRIB | IN_MOVED_TO | IN_DELETE),
             IN_CREATE | IN_MODIFY | IN_ATTRIB | IN_MOVED_TO | IN_DELETE);
}

static void working_directory_moves(void)
{
    char path[4096];
    CF_OK(mkdir("one", 0755));
    CF_OK(chdir("one"));
    CF_OK(rename("../one", "../two"));
    CF_CHECK(getcwd(path, sizeof path) != NULL);
    CF_CHECK(strcmp(strrchr(path, '/'), "/two") == 0);
    cf_write_file("file", "in two");
    cf_expect_file("../two/file", "in two");
    CF_OK(unlink("file"));
    CF_OK(rmdir("../two"));
    CF_CHECK(getcwd(path, sizeof path) == NULL && errno == ENOENT);
}

/* ---- descriptors -------------------------------------------------------------------------------- */

static void always_ready(void)
{
    const int fd = cf_open("file"), set = CF_OK(epoll_create1(EPOLL_CLOEXEC));
    struct pollfd ready = {.fd = fd, .events = POLLIN | POLLOUT};
    struct epoll_event event = {.events = EPOLLIN};
    CF_EQUAL(poll(&ready, 1, 0), 1);
    CF_EQUAL(ready.revents, POLLIN | POLLOUT);
    if (epoll_ctl(set, EPOLL_CTL_ADD, fd, &event) == 0) /* FUSE: as poll, once it was asked */
        CF_EQUAL(epoll_wait(set, &event, 1, 0), 1);
    else
        CF_EQUAL(errno, EPERM);
}

static void append_by_fcntl(void)
{
    const int fd = cf_open("file");
    cf_pwrite(fd, "0123456789", 10, 0);
    CF_OK(fcntl(fd, F_SETFL, O_APPEND));
    CF_EQUAL(fcntl(fd, F_GETFL) & (O_APPEND | O_ACCMODE), O_APPEND | O_RDWR);
    CF_EQUAL(write(fd, "a", 1), 1);
    CF_OK(fcntl(fd, F_SETFL, 0));
    CF_EQUAL(lseek(fd, 0, SEEK_SET), 0);
    CF_EQUAL(write(fd, "b", 1), 1);
    cf_expect_file("file", "b123456789a");
}

static void unknown_requests(void)
{
    int bytes;
    const int fd = cf_open("file");
    cf_pwrite(fd, "0123456789", 10, 0);
    CF_EQUAL(lseek(fd, 3, SEEK_SET), 3);
    CF_FAILS(ioctl(fd, TIOCGWINSZ, &bytes), ENOTTY);
    CF_OK(ioctl(fd, FIONREAD, &bytes));
    CF_EQUAL(bytes, 7);
    CF_CHECK(!isatty(fd));
}

static void sendfile_and_splice(void)
{
    int ends[2];
    unsigned char *bytes = cf_pattern(300000, 3), *got = malloc(300000);
    const int in = cf_open("in"), out = cf_open("out");
    cf_pwrite(in, bytes, 300000, 0);
    CF_CHECK(got != NULL);
    off_t offset = 100;
    for (size_t left = 299900; left;)
        left -= (size_t)CF_OK(sendfile(out, in, &offset, left));
    CF_EQUAL(offset, 300000);
    cf_pread(out, got, 299900, 0);
    CF_SAME(got, bytes + 100, 299900);
    CF_OK(pipe(ends));
    CF_OK(ftruncate(out, 0));
    loff_t from = 0, to = 0;
    while (from < 300000) {
        const ssize_t part = CF_OK(splice(in, &from, ends[1], NULL, 60000, 0));
        for (ssize_t left = part; left;)
            left -= CF_OK(splice(ends[0], NULL, out, &to, (size_t)left, 0));
    }
    cf_pread(out, got, 300000, 0);
    CF_SAME(got, bytes, 300000);
    free(bytes);
    free(got);
}

static void read_of_directory(void)
{
    char byte;
    CF_OK(mkdir("dir", 0755));
    const int fd = CF_OK(open("dir", O_RDONLY));
    CF_FAILS(read(fd, &byte, 1), EISDIR);
    CF_FAILS(pread(fd, &byte, 1, 0), EISDIR);
    CF_FAILS(write(fd, "", 1), EBADF);
    CF_FAILS_EITHER(ftruncate(fd, 0), EINVAL, EBADF);
    CF_CHECK(mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd, 0) == MAP_FAILED && errno == ENODEV);
}

static const struct cf_case cases[] = {
    {"POSIX locks are not inherited by a child", locks_not_inherited},
    {"a flock is shared with a child", flock_inherited},
    {"exec keeps locks of the process, and drops those of closed descriptors", locks_over_exec},
    {"a running program cannot be written: ETXTBSY", running_program_is_busy},
    {"a file that is open for writing cannot be run: ETXTBSY", written_program_is_busy},
    {"a program needs an x bit and is no directory", program_needs_x},
    {"names that were missing are seen once another process makes them", missing_names_appear},
    {"size and mode changed by another process show in stat", changes_show_in_stat},
    {"a reader of a file that grows and is cut sees its bytes only", readers_see_what_was_written},
    {"writes of two processes to one range do not mix", writes_do_not_mix},
    {"inotify tells of creation, change and removal", events_are_told},
    {"a working directory may be moved and removed", working_directory_moves},
    {"files are always ready for poll; epoll says so or refuses them", always_ready},
    {"O_APPEND may be switched by fcntl", append_by_fcntl},
    {"unknown ioctls are ENOTTY; FIONREAD counts up to the end", unknown_requests},
    {"sendfile and splice move the same bytes", sendfile_and_splice},
    {"directories are not read, written, cut or mapped", read_of_directory},
    {NULL, NULL},
};

const struct cf_topic cf_topic_process = {"process", cases};
