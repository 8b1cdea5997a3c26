/* SPDX-License-Identifier: BSD-2-Clause
 *
 * inject.h - faults in calls of the C library, made by inject.c for the program that it is linked into
 * or loaded before with LD_PRELOAD. The controls lie in shared memory, so that one process can arm a
 * fault in another, and see afterwards whether it was met.
 *
 * What counts as a call: one of an armed kind that is about a file or directory below the store, or
 * about memory or threads. Standard streams, sockets and devices neither count nor fail.
 */
#ifndef TEST_FAULT_INJECT_H
#define TEST_FAULT_INJECT_H

#include <stdatomic.h>
#include <stdint.h>

#define INJECT_VARIABLE "SEPFS_INJECT" /* environment: file with the controls */
#define INJECT_SHORT    10000          /* "errno": the call does half of what was asked */

enum inject_kind {
    INJECT_OPEN = 1,        /* open, openat, mkdirat, fdopendir */
    INJECT_READ = 2,        /* pread */
    INJECT_WRITE = 4,       /* pwrite, pwritev, writev */
    INJECT_SYNC = 8,        /* fsync, fdatasync, msync */
    INJECT_NAME = 16,       /* renameat, unlinkat */
    INJECT_SPACE = 32,      /* ftruncate, fallocate */
    INJECT_STATUS = 64,     /* fstat, fstatvfs, readdir */
    INJECT_CLOSE = 128,     /* close: it fails, and the descriptor is gone */
    INJECT_LOCK = 256,      /* flock */
    INJECT_MEMORY = 512,    /* malloc, calloc, realloc, aligned_alloc, posix_memalign, mmap */
    INJECT_THREAD = 1024,   /* pthread_create */
    INJECT_FILES = 511,     /* all that are about files */
    INJECT_TRANSFER = 2 + 4 /* those that can be short */
};

struct inject {
    _Atomic uint64_t calls;   /* counted while armed */
    _Atomic uint64_t fail_at; /* number of the first call that fails, from 1; 0 = none */
    atomic_uint forever;      /* so do all after it */
    atomic_uint kinds;        /* enum inject_kind; 0 = not armed */
    atomic_int error;         /* errno, or INJECT_SHORT */
    _Atomic uint64_t hits;    /* calls that failed */
    atomic_uint hit_kind;     /* enum inject_kind of the first */
    void *_Atomic where[12];  /* return addresses of the first, in the process that met it */
    uint64_t host_free;       /* bytes that statvfs says are free; 0 = the truth */
    char top[256];            /* the store; calls by absolute paths count below it only */
};

/* Uses these controls from now on: a mapping that the caller made. */
void inject_use(struct inject *controls);
/* Counts from 0 and fails call FAIL_AT of KINDS with ERROR. */
void inject_arm(struct inject *controls, unsigned kinds, int error, uint64_t fail_at, int forever);
void inject_disarm(struct inject *controls);

#endif
