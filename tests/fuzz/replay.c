/* SPDX-License-Identifier: BSD-2-Clause
 *
 * replay.c - runs a fuzz target without libFuzzer: on every file of a corpus directory, and on a
 * number of mutations of each that follow from a fixed seed. The input at work is kept in a file
 * while it runs, whose name is printed when the target ends the process.
 *
 * usage: TARGET MUTATIONS DIRECTORY|FILE...
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fuzz.h"

enum { INPUT_MAX = 1 << 20 };

static uint8_t input[INPUT_MAX], changed[INPUT_MAX];
static size_t changed_size;
static unsigned long runs;
static const char *running = "?"; /* path of the input, or of the one that was changed */

/* Only calls that a signal handler may make. */
static void on_abort(int number)
{
    static const char before[] = "replay: while running (perhaps changed) ";
    static const char kept[] = "; the input is kept in replay-crash\n";
    const int fd = open("replay-crash", O_WRONLY | O_CREAT | O_TRUNC, 0600);
    bool written = fd >= 0 && write(fd, changed, changed_size) == (ssize_t)changed_size;

    written = write(STDERR_FILENO, before, sizeof before - 1) > 0 && written;
    written = write(STDERR_FILENO, running, strlen(running)) > 0 && written;
    if (written)
        (void)!write(STDERR_FILENO, kept, sizeof kept - 1);
    signal(number, SIG_DFL);
    raise(number);
}

static uint64_t next_random(uint64_t *state)
{
    /* SplitMix64 */
    uint64_t z = *state += 0x9e3779b97f4a7c15u;

    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

static void run(void)
{
    uint8_t *const exact = malloc(changed_size > 0 ? changed_size : 1);

    if (exact == NULL)
        abort();
    memcpy(exact, changed, changed_size);
    (void)LLVMFuzzerTestOneInput(exact, changed_size);
    free(exact);
    runs++;
}

static void mutate(uint64_t *seed)
{
    static const uint8_t extremes[] = {0, 1, 0x7f, 0x80, 0xff, '/', '%', '='};
    const unsigned steps = 1 + (unsigned)(next_random(seed) % 4);

    for (unsigned i = 0; i < steps && changed_size > 0; i++) {
        const size_t at = next_random(seed) % changed_size;
        const uint64_t value = next_random(seed);

        switch (next_random(seed) % 5) {
        case 0:
            changed[at] ^= (uint8_t)(1u << (value % 8));
            break;
        case 1:
            changed[at] = extremes[value % sizeof extremes];
            break;
        case 2:
            changed[at] = (uint8_t)value;
            break;
        case 3: /* a piece goes */
            memmove(changed + at, changed + at + 1, changed_size - at - 1);
            changed_size--;
            break;
        default: /* the end goes, or a piece comes twice */
            if (value % 4 == 0) {
                changed_size = at;
            } else if (changed_size < INPUT_MAX) {
                memmove(changed + at + 1, changed + at, changed_size - at);
                changed_size++;
            }
        }
    }
}

static int replay_file(const char *path, unsigned long mutations)
{
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    const ssize_t size = fd >= 0 ? read(fd, input, sizeof input) : -1;
    uint64_t seed = (uint64_t)size;

    if (size < 0) {
        perror(path);
        return 1;
    }
    close(fd);
    running = path;
    for (unsigned long i = 0; i <= mutations; i++) {
        memcpy(changed, input, (size_t)size);
        changed_size = (size_t)size;
        if (i > 0)
            mutate(&seed);
        run();
    }
    return 0;
}

static int replay(const char *path, unsigned long mutations)
{
    struct dirent **names;
    char *full;
    const int count = scandir(path, &names, NULL, alphasort);
    int failed = 0;

    if (count < 0)
        return replay_file(path, mutations);
    for (int i = 0; i < count; i++) {
        if (names[i]->d_name[0] != '.') {
            if (asprintf(&full, "%s/%s", path, names[i]->d_name) < 0)
                abort();
            failed |= replay_file(full, mutations);
            free(full);
        }
        free(names[i]);
    }
    free(names);
    return failed;
}

int main(int argc, char **argv)
{
    const unsigned long mutations = argc > 2 ? strtoul(argv[1], NULL, 10) : 0;
    int failed = 0;

    if (argc < 3) {
        fprintf(stderr, "usage: %s MUTATIONS DIRECTORY|FILE...\n", argv[0]);
        return 2;
    }
    signal(SIGABRT, on_abort);
    signal(SIGSEGV, on_abort);
    for (int i = 2; i < argc; i++)
        failed |= replay(argv[i], mutations);
    printf("%lu runs\n", runs);
    if (runs == 0) /* a corpus that is not there proves nothing */
        failed = 1;
    return failed;
}
