/* SPDX-License-Identifier: BSD-2-Clause
 *
 * conformance_large.c - rules on a directory of 100,000 entries; only with --large, since making and
 * removing them takes seconds. What is true of a small directory often ends where a listing takes
 * many requests and the directory changes between them.
 */
#include <dirent.h>

#include "conformance.h"

#define ENTRIES 100000u
#define CHANGES 15 /* every so many entries read, one is removed, one made and one renamed */

/* Names of fixed length: 'k' stays, 'g' goes, 'm' is moved, 'n' is new. */
static void name_of(char kind, unsigned number, char name[32])
{
    snprintf(name, 32, "%c-%06u-name", kind, number);
}

static char kind_of(unsigned number)
{
    return number % 10 == 3 ? 'g' : number % 10 == 7 ? 'm' : 'k';
}

static void change(unsigned step)
{
    char name[32], other[32];
    /* from both ends, so that the changes lie before and behind what is being read */
    const unsigned ten = step % 2 ? step / 2 : ENTRIES / 10 - 1 - step / 2;
    name_of('g', ten * 10 + 3, name);
    CF_OK(unlink(name));
    name_of('n', step, name);
    CF_OK(mknod(name, S_IFREG | 0644, 0));
    name_of('m', ten * 10 + 7, name);
    name_of('n', ENTRIES + step, other);
    CF_OK(rename(name, other));
}

/* "k-000012-name" -> 12; ENTRIES when it is no such name. */
static unsigned number_of(const char *name)
{
    unsigned number;
    char end;
    return name[0] == 'k' && sscanf(name, "k-%6u-nam%c", &number, &end) == 2 ? number : ENTRIES;
}

static void hundred_thousand(void)
{
    static unsigned char seen[ENTRIES + 1];
    char name[32];
    CF_OK(mkdir("dir", 0755));
    CF_OK(chdir("dir"));
    for (unsigned i = 0; i < ENTRIES; i++) {
        name_of(kind_of(i), i, name);
        CF_OK(mknod(name, S_IFREG | 0644, 0));
    }
    DIR *directory = opendir(".");
    CF_CHECK(directory != NULL);
    unsigned read = 0, step = 0;
    errno = 0;
    for (const struct dirent *entry; (entry = readdir(directory)); read++) {
        const unsigned number = number_of(entry->d_name);
        if (number < ENTRIES)
            CF_EQUAL(seen[number]++, 0);
        if (read % CHANGES == 0 && step < ENTRIES / 10)
            change(step++);
        errno = 0;
    }
    CF_EQUAL(errno, 0);
    CF_CHECK(step > 5000);
    for (unsigned i = 0; i < ENTRIES; i++) {
        if (kind_of(i) == 'k')
            CF_EQUAL(seen[i], 1);
    }
    rewinddir(directory);
    for (read = 0; readdir(directory);)
        read++;
    CF_EQUAL(read, ENTRIES + 2); /* one was made for each that was removed; "." and ".." */
    closedir(directory);
    CF_EQUAL(cf_stat(".").st_nlink, 2);
}

static const struct cf_case cases[] = {
    {"what stays in a directory of 100,000 entries is seen exactly once while it changes",
     hundred_thousand},
    {NULL, NULL},
};

const struct cf_topic cf_topic_large = {"large", cases};
