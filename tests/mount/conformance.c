/* SPDX-License-Identifier: BSD-2-Clause
 *
 * conformance.c - runs the rules of the conformance_*.c files against a directory, which may lie on
 * any file system: a suite that passes on ext4 and tmpfs is one whose failures elsewhere mean
 * something.
 *
 * One line a case: "ok", "FAIL" with the reason, or "skip" with the reason; then a summary. Exit 0;
 * 1 when a case failed (with --no-skips also when one was skipped); 2 for usage.
 *
 * A case that takes longer than its deadline is killed, and everything it started with it.
 */
#include <dirent.h>
#include <getopt.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <time.h>

#include "conformance.h"
#include "conformance_report.h"

#define DEADLINE_MS 600000 /* a case; the slowest makes 100,000 files */

static const struct cf_topic *const topics[] = {
    &cf_topic_open,     &cf_topic_write,   &cf_topic_link,      &cf_topic_rename,
    &cf_topic_exchange, &cf_topic_mode,    &cf_topic_owner,     &cf_topic_time,
    &cf_topic_truncate, &cf_topic_hole,    &cf_topic_copy,      &cf_topic_allocate,
    &cf_topic_map,      &cf_topic_lock,    &cf_topic_xattr,     &cf_topic_acl,
    &cf_topic_name,     &cf_topic_readdir, &cf_topic_directory, &cf_topic_sync,
    &cf_topic_process,  &cf_topic_limit,   &cf_topic_large,
};

struct options {
    const char *only; /* substring of "topic: rule", NULL = all */
    bool list, no_skips;
    bool large; /* the topic of that name, too */
};

struct counts {
    unsigned passed, failed, skipped;
};

/* By descriptors: a case may make paths that are too long to name. One descriptor a level. */
static int remove_tree(int parent, const char *name)
{
    const int fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    DIR *directory = fd < 0 ? NULL : fdopendir(fd);
    if (!directory)
        return -1;
    int result = 0;
    for (struct dirent *entry; (entry = readdir(directory));) {
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
            continue;
        if (unlinkat(fd, entry->d_name, 0) && (errno != EISDIR || remove_tree(fd, entry->d_name)))
            result = -1;
    }
    closedir(directory);
    return unlinkat(parent, name, AT_REMOVEDIR) ? -1 : result;
}

/* The child's side: never returns. */
static _Noreturn void run_child(const struct cf_case *rule, const char *directory, int report)
{
    setpgid(0, 0);
    cf_report_to(report);
    umask(022);
    if (chdir(directory)) {
        cf_report(CF_FAILED, "%s: %s", directory, strerror(errno));
        _exit(CF_FAILED);
    }
    rule->run();
    _exit(CF_PASSED);
}

/* Milliseconds of the monotonic clock. */
static int64_t now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * INT64_C(1000) + now.tv_nsec / 1000000;
}

/* Reads the child's report up to end of file or deadline; false when the deadline came first. A
 * descendant that outlives the case would hold the pipe open: the deadline ends that, too. */
static bool read_report(int fd, char *text, size_t size)
{
    const int64_t end = now_ms() + DEADLINE_MS;
    size_t used = 0;
    for (;;) {
        struct pollfd ready = {.fd = fd, .events = POLLIN};
        const int64_t left = end - now_ms();
        text[used] = '\0';
        if (left <= 0 || poll(&ready, 1, (int)left) == 0)
            return false;
        char spill[256];
        const bool full = used + 1 >= size;
        const ssize_t got =
            full ? read(fd, spill, sizeof spill) : read(fd, text + used, size - 1 - used);
        if (got == 0)
            return true;
        if (got > 0 && !full)
            used += (size_t)got;
    }
}

static enum cf_result run_case(const struct cf_case *rule, const char *directory, char *text,
                               size_t size)
{
    int report[2], status;
    if (mkdir(directory, 0777) || chmod(directory, 0777) || pipe2(report, O_CLOEXEC)) {
        snprintf(text, size, "%s: %s", directory, strerror(errno));
        return CF_FAILED;
    }
    const pid_t child = fork();
    if (child == 0) {
        close(report[0]);
        run_child(rule, directory, report[1]);
    }
    close(report[1]);
    const bool in_time = child > 0 && read_report(report[0], text, size);
    close(report[0]);
    if (child < 0)
        return CF_FAILED;
    if (!in_time)
        kill(-child, SIGKILL);
    while (waitpid(child, &status, 0) < 0 && errno == EINTR)
        ;
    kill(-child, SIGKILL); /* what a failed case left running in its process group */
    if (!in_time) {
        snprintf(text, size, "not done after %d seconds", DEADLINE_MS / 1000);
        return CF_FAILED;
    }
    if (WIFSIGNALED(status)) {
        snprintf(text, size, "killed by signal %d (%s)", WTERMSIG(status),
                 strsignal(WTERMSIG(status)));
        return CF_FAILED;
    }
    return (enum cf_result)WEXITSTATUS(status);
}

static void run_topic(const struct cf_topic *topic, const char *base, const struct options *options,
                      struct counts *counts)
{
    if (topic == &cf_topic_large && !options->large && !options->list)
        return;
    for (unsigned i = 0; topic->cases[i].rule; i++) {
        const struct cf_case *rule = &topic->cases[i];
        char title[512], directory[PATH_MAX], text[PATH_MAX + 256] = "";
        snprintf(title, sizeof title, "%s: %s", topic->name, rule->rule);
        if (options->only && !strstr(title, options->only))
            continue;
        if (options->list) {
            puts(title);
            continue;
        }
        snprintf(directory, sizeof directory, "%s/%s-%u", base, topic->name, i + 1);
        enum cf_result result = run_case(rule, directory, text, sizeof text);
        if (remove_tree(AT_FDCWD, directory) && result != CF_FAILED) {
            snprintf(text, sizeof text, "removing %s: %s", directory, strerror(errno));
            result = CF_FAILED;
        }
        switch (result) {
        case CF_PASSED:
            counts->passed++;
            printf("ok    %s\n", title);
            break;
        case CF_SKIPPED:
            counts->skipped++;
            printf("skip  %s: %s\n", title, text);
            break;
        default:
            counts->failed++;
            printf("FAIL  %s: %s\n", title, text);
        }
        fflush(stdout);
    }
}

static int usage(FILE *out)
{
    fprintf(out, "usage: conformance [--only=TEXT] [--no-skips] [--large] DIRECTORY\n"
                 "       conformance --list\n"
                 "Checks the rules of POSIX and Linux for files in DIRECTORY.\n");
    return out == stdout ? 0 : 2;
}

static bool parse(int argc, char **argv, struct options *options)
{
    static const struct option names[] = {
        {"only", required_argument, NULL, 'o'}, {"no-skips", no_argument, NULL, 'n'},
        {"large", no_argument, NULL, 'g'},      {"list", no_argument, NULL, 'l'},
        {"help", no_argument, NULL, 'h'},       {NULL, 0, NULL, 0}};
    for (int c; (c = getopt_long(argc, argv, "", names, NULL)) != -1;) {
        switch (c) {
        case 'o':
            options->only = optarg;
            break;
        case 'n':
            options->no_skips = true;
            break;
        case 'g':
            options->large = true;
            break;
        case 'l':
            options->list = true;
            break;
        case 'h':
            exit(usage(stdout));
        default:
            return false;
        }
    }
    return argc - optind == (options->list ? 0 : 1);
}

int main(int argc, char **argv)
{
    struct options options = {0};
    struct counts counts = {0};
    char base[PATH_MAX] = "";
    if (!parse(argc, argv, &options))
        return usage(stderr);
    if (!options.list) {
        char root[PATH_MAX];
        if (!realpath(argv[optind], root) ||
            snprintf(base, sizeof base, "%s/conformance-XXXXXX", root) >= (int)sizeof base ||
            !mkdtemp(base) || chmod(base, 0755)) {
            fprintf(stderr, "conformance: %s: %s\n", argv[optind], strerror(errno));
            return 2;
        }
    }
    for (size_t i = 0; i < sizeof topics / sizeof *topics; i++)
        run_topic(topics[i], base, &options, &counts);
    if (options.list)
        return 0;
    if (rmdir(base)) {
        printf("FAIL  %s does not end empty: %s\n", base, strerror(errno));
        counts.failed++;
    }
    printf("%u passed, %u failed, %u skipped\n", counts.passed, counts.failed, counts.skipped);
    return counts.failed || (options.no_skips && counts.skipped) ||
                   counts.passed + counts.skipped == 0
               ? 1
               : 0;
}
