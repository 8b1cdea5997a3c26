/* SPDX-License-Identifier: BSD-2-Clause
 *
 * powercut.h - what the workload tells the checker, through marks in the log of record.h: each
 * intention before it is acted on, each promise once the call that makes it has returned.
 *
 * An actor is one thread of one session; it works alone in a directory of its own, one thing after
 * the other, so the order of its operations is that of its marks. Its files are numbered from 0 as
 * they are made, its names from 0 to POWERCUT_NAMES - 1.
 */
#ifndef TEST_CRASH_POWERCUT_H
#define TEST_CRASH_POWERCUT_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#define POWERCUT_BLOCK    16384u                 /* bytes */
#define POWERCUT_FILE_MAX (12u * POWERCUT_BLOCK) /* bytes */
#define POWERCUT_NAMES    10u
#define POWERCUT_FILES    512u /* of an actor */
#define POWERCUT_ACTORS   64u
#define POWERCUT_MAP      (UINT64_C(1) << 28) /* bytes, of the index */
#define POWERCUT_PACK     (256u << 10)        /* bytes */
#define POWERCUT_CONF     "note"              /* a setting in sepfs.conf */
#define POWERCUT_TAG      "user.tag"          /* an attribute of files */
#define POWERCUT_MODELS   8u
#define POWERCUT_HASH     UINT64_C(0x5EF5000000000000) /* of model 0; the others follow */
#define POWERCUT_NO_FILE  UINT32_MAX

enum mark_kind {
    /* Promises. */
    MARK_OPENED = 1, /* the store exists */
    MARK_NAMES,      /* all names of ACTOR */
    MARK_SYNCED,     /* and the contents of FILE */
    MARK_ALL,        /* and of all its files */
    MARK_REPAIRED,   /* nothing is damaged any more */
    MARK_MODEL_SET,  /* the model with the number FILE is there */
    MARK_CONF_SET,   /* the setting has the value SEED */
    /* Intentions: names. Each is one transaction. */
    MARK_MKDIR,    /* the directory of ACTOR */
    MARK_CREATE,   /* FILE, empty, under NAME */
    MARK_LINK,     /* TO is another name of NAME's file */
    MARK_RENAME,   /* NAME becomes TO, and replaces what had that name */
    MARK_EXCHANGE, /* NAME and TO */
    MARK_UNLINK,   /* NAME */
    MARK_TAG,      /* the attribute of FILE becomes SEED */
    /* Intentions: contents of FILE. */
    MARK_WRITE,    /* powercut_fill(CONTENT, SEED) of LENGTH bytes at OFFSET */
    MARK_TRUNCATE, /* to OFFSET bytes */
    MARK_ZERO,     /* a hole at OFFSET of LENGTH bytes, the size is kept */
    MARK_COPY,     /* LENGTH bytes at SEED of file TO, to OFFSET */
    MARK_MODEL,    /* powercut_fill(CONTENT, SEED) of LENGTH bytes is to be the model number FILE */
    MARK_MODEL_DROP, /* the model number FILE is to go */
    MARK_DAMAGE,     /* records that follow from others are to become wrong */
    MARK_CONF,       /* the setting is to have the value SEED */
    MARK_INO         /* no intention: FILE has the number SEED */
};

struct mark {
    uint32_t kind; /* enum mark_kind */
    uint32_t actor, file, name, to;
    uint32_t content; /* enum powercut_content */
    uint64_t offset, length, seed;
};

enum powercut_content { POWERCUT_TEXT, POWERCUT_NOISE, POWERCUT_ZEROS };

static inline uint64_t powercut_random(uint64_t *state)
{
    uint64_t x = *state += UINT64_C(0x9E3779B97F4A7C15);
    x = (x ^ (x >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94D049BB133111EB);
    return x ^ (x >> 31);
}

static inline void powercut_fill(uint8_t *data, size_t size, uint32_t content, uint64_t seed)
{
    uint64_t state = seed * 2 + 1, bits = 0;
    for (size_t i = 0; i < size; i++) {
        if (i % 8 == 0)
            bits = powercut_random(&state);
        const uint8_t byte = (uint8_t)(bits >> (8 * (i % 8)));
        data[i] = content == POWERCUT_NOISE  ? byte
                  : content == POWERCUT_TEXT ? (uint8_t)('a' + (byte & 15))
                                             : 0;
    }
}

static inline void powercut_dir_name(uint32_t actor, char name[16])
{
    snprintf(name, 16, "actor%u", actor);
}

static inline void powercut_file_name(uint32_t number, char name[16])
{
    snprintf(name, 16, "name%u", number);
}

#endif
