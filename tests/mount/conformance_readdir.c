/* SPDX-License-Identifier: BSD-2-Clause
 *
 * conformance_readdir.c - listing directories, above all while they change: an entry that is there
 * from the first to the last call is seen exactly once, whatever else comes and goes.
 */
#include <dirent.h>
#include <sys/syscall.h>

#include "conformance.h"

#define ENTRIES 5000u

static DIR *open_directory(const char *name)
{
    DIR *directory = opendir(name);
    CF_CHECK(directory != NULL);
    return directory;
}

/* readdir that tells errors from the end. */
static struct dirent *next(DIR *directory)
{
    errno = 0;
    struct dirent *entry = readdir(directory);
    CF_EQUAL(errno, 0);
    return entry;
}

/* "stay-00042" to 42; ENTRIES for other names. */
static unsigned number_of(const char *name)
{
    unsigned number;
    char rest;
    if (sscanf(name, "stay-%u%c", &number, &rest) == 1 && number < ENTRIES)
        return number;
    return ENTRIES;
}

static void make_entries(const char *directory, unsigned count)
{
    char name[64];
    CF_OK(mkdir(directory, 0755));
    for (unsigned i = 0; i < count; i++) {
        snprintf(name, sizeof name, "%s/stay-%05u", directory, i);
        CF_OK(close(CF_OK(open(name, O_WRONLY | O_CREAT, 0644))));
    }
}

static void empty_directory(void)
{
    CF_OK(mkdir("dir", 0755));
    DIR *directory = open_directory("dir");
    unsigned self = 0, parent = 0, others = 0;
    for (struct dirent *entry; (entry = next(directory));) {
        if (strcmp(entry->d_name, ".") == 0) {
            self++;
            CF_EQUAL(entry->d_ino, cf_stat("dir").st_ino);
            CF_EQUAL(entry->d_type, DT_DIR);
        } else if (strcmp(entry->d_name, "..") == 0) {
            parent++;
            CF_EQUAL(entry->d_ino, cf_stat(".").st_ino);
            CF_EQUAL(entry->d_type, DT_DIR);
        } else {
            others++;
        }
    }
    CF_EQUAL(self, 1);
    CF_EQUAL(parent, 1);
    CF_EQUAL(others, 0);
    CF_CHECK(next(directory) == NULL); /* and again at the end */
    closedir(directory);
}

static void types_and_inodes(void)
{
    cf_write_file("file", "x");
    CF_OK(mkdir("dir", 0755));
    CF_OK(symlink("x", "link"));
    CF_OK(mkfifo("fifo", 0644));
    CF_OK(mknod("socket", S_IFSOCK | 0644, 0));
    CF_OK(link("file", "hard"));
    DIR *directory = open_directory(".");
    unsigned seen = 0;
    for (struct dirent *entry; (entry = next(directory));) {
        if (entry->d_name[0] == '.')
            continue;
        const struct stat status = cf_stat(entry->d_name);
        CF_EQUAL(entry->d_ino, status.st_ino);
        if (entry->d_type != DT_UNKNOWN)
            CF_EQUAL(entry->d_type, IFTODT(status.st_mode));
        seen++;
    }
    CF_EQUAL(seen, 6);
    closedir(directory);
}

static void expect_each_once(const unsigned char *seen, unsigned count)
{
    for (unsigned i = 0; i < count; i++)
        CF_EQUAL(seen[i] + 10 * i, 1 + 10 * i);
}

static void many(void)
{
    unsigned char seen[ENTRIES + 1] = {0};
    make_entries("dir", ENTRIES);
    DIR *directory = open_directory("dir");
    for (struct dirent *entry; (entry = next(directory));)
        seen[number_of(entry->d_name)]++;
    expect_each_once(seen, ENTRIES);
    CF_EQUAL(seen[ENTRIES], 2);
    closedir(directory);
}

struct churn {
    struct cf_signal running;
    int stop; /* read end: end of file says stop */
};

/* Creates and removes other names, replaces and renames them, until told to stop. */
static void change_directory(void *arg)
{
    struct churn *churn = arg;
    char name[64], other[64], byte;
    for (unsigned i = 0;; i++) {
        snprintf(name, sizeof name, "dir/come-%u", i);
        CF_OK(close(CF_OK(open(name, O_WRONLY | O_CREAT, 0644))));
        snprintf(other, sizeof other, "dir/moved-%u", i % 100);
        if (i % 2)
            CF_OK(rename(name, other));
        else if (i >= 100) {
            snprintf(other, sizeof other, "dir/come-%u", i - 100);
            CF_OK(unlink(other));
        }
        if (i == 200)
            cf_signal_send(&churn->running);
        if (i % 16 == 0 && read(churn->stop, &byte, 1) == 0)
            return;
    }
}

static void while_others_change(void)
{
    make_entries("dir", ENTRIES);
    int ends[2];
    CF_OK(pipe2(ends, O_CLOEXEC | O_NONBLOCK));
    struct churn churn = {cf_signal_new(), ends[0]};
    const pid_t child = CF_OK(fork());
    if (child == 0) {
        close(ends[1]);
        change_directory(&churn);
        _exit(0);
    }
    cf_signal_wait(&churn.running);
    for (unsigned round = 0; round < 5; round++) {
        unsigned char seen[ENTRIES + 1] = {0};
        DIR *directory = open_directory("dir");
        for (struct dirent *entry; (entry = next(directory));) {
            const unsigned number = number_of(entry->d_name);
            if (number < ENTRIES)
                seen[number]++;
        }
        closedir(directory);
        expect_each_once(seen, ENTRIES);
    }
    close(ends[1]);
    cf_join(child);
}

/* As rm -r does: unlink what was just read. Nothing may be skipped. */
static void remove_while_reading(void)
{
    char name[300];
    make_entries("dir", 3000);
    DIR *directory = open_directory("dir");
    for (struct dirent *entry; (entry = next(directory));) {
        if (entry->d_name[0] == '.')
            continue;
        snprintf(name, sizeof name, "dir/%s", entry->d_name);
        CF_OK(unlink(name));
    }
    closedir(directory);
    CF_OK(rmdir("dir"));
}

static void rewind_sees_changes(void)
{
    make_entries("dir", 10);
    DIR *directory = open_directory("dir");
    while (next(directory))
        ;
    cf_write_file("dir/new", "x");
    CF_OK(unlink("dir/stay-00003"));
    rewinddir(directory);
    unsigned char seen[ENTRIES + 1] = {0};
    bool new = false;
    for (struct dirent *entry; (entry = next(directory));) {
        seen[number_of(entry->d_name)]++;
        new = new || strcmp(entry->d_name, "new") == 0;
    }
    CF_CHECK(new);
    for (unsigned i = 0; i < 10; i++)
        CF_EQUAL(seen[i], i == 3 ? 0 : 1);
    closedir(directory);
}

/* A remembered position leads to the same next entry, in any order, also when entries before and
 * after it have gone. */
static void positions(void)
{
    enum { COUNT = 1000 };
    static char names[COUNT + 2][32];
    static long places[COUNT + 3];
    char path[64];
    make_entries("dir", COUNT);
    DIR *directory = open_directory("dir");
    for (unsigned i = 0; i < COUNT + 2; i++) {
        places[i] = telldir(directory);
        snprintf(names[i], sizeof names[i], "%.31s", next(directory)->d_name);
    }
    places[COUNT + 2] = telldir(directory);
    CF_CHECK(next(directory) == NULL);
    for (unsigned i = 0; i < COUNT + 2; i++) {
        const unsigned at = i * 701 % (COUNT + 2); /* no common factor: each once */
        seekdir(directory, places[at]);
        CF_EQUAL(strcmp(next(directory)->d_name, names[at]), 0);
    }
    seekdir(directory, places[COUNT + 2]);
    CF_CHECK(next(directory) == NULL);
    for (unsigned i = 0; i < COUNT + 2; i += 2) {
        snprintf(path, sizeof path, "dir/%.31s", names[i]);
        if (names[i][0] != '.')
            CF_OK(unlink(path));
    }
    closedir(directory);
    directory = open_directory("dir"); /* nothing is buffered in a new stream */
    for (unsigned i = 1; i < COUNT + 2; i += 2) {
        seekdir(directory, places[i]);
        CF_EQUAL(strcmp(next(directory)->d_name, names[i]), 0);
    }
    closedir(directory);
}

static void small_buffers(void)
{
    unsigned char seen[ENTRIES + 1] = {0};
    char buffer[300] __attribute__((aligned(8))); /* room for a few entries only */
    make_entries("dir", 1000);
    const int fd = CF_OK(open("dir", O_RDONLY | O_DIRECTORY));
    for (long size; (size = CF_OK(syscall(SYS_getdents64, fd, buffer, sizeof buffer))) > 0;) {
        for (long at = 0; at < size;) {
            const struct dirent64 *entry = (const struct dirent64 *)(const void *)(buffer + at);
            seen[number_of(entry->d_name)]++;
            at += entry->d_reclen;
        }
    }
    expect_each_once(seen, 1000);
    char tiny[16] __attribute__((aligned(8)));
    CF_OK(lseek(fd, 0, SEEK_SET));
    CF_FAILS(syscall(SYS_getdents64, fd, tiny, sizeof tiny), EINVAL);
}

static void two_streams(void)
{
    make_entries("dir", 100);
    DIR *one = open_directory("dir"), *two = open_directory("dir");
    for (unsigned i = 0; i < 50; i++)
        CF_CHECK(next(one) != NULL);
    unsigned in_two = 0, in_one = 50;
    while (next(two))
        in_two++;
    while (next(one))
        in_one++;
    CF_EQUAL(in_two, 102);
    CF_EQUAL(in_one, 102);
    closedir(one);
    closedir(two);
}

static const struct cf_case cases[] = {
    {"an empty directory lists \".\" and \"..\" once", empty_directory},
    {"types and inode numbers agree with stat", types_and_inodes},
    {"5,000 entries are listed once each", many},
    {"entries that stay are seen exactly once while others come and go", while_others_change},
    {"removing what was read leaves nothing behind", remove_while_reading},
    {"rewinddir shows what has changed", rewind_sees_changes},
    {"telldir positions stay good, also after removals", positions},
    {"getdents with small buffers", small_buffers},
    {"two streams of one directory are independent", two_streams},
    {NULL, NULL},
};

const struct cf_topic cf_topic_readdir = {"readdir", cases};
