/* SPDX-License-Identifier: BSD-2-Clause
 *
 * treecheck.h - parts of the checker of whole trees. The idea is that of fsstress (SGI, now in
 * xfstests), which does random things to a tree and looks for crashes; this one also knows what each
 * of them must answer. Every operation is done to the file system and to a model in memory, and its
 * result, errors included, is compared; listings, attributes and contents are compared with the
 * model, too.
 *
 * An operation says by itself what it does (paths of name numbers, ranges, a seed for bytes) and is
 * defined in every state, if only by its errno: so any part of a recorded list of operations is
 * again a list that can be run. Replaying and shrinking rest on that (delta debugging: Zeller and
 * Hildebrandt, IEEE TSE 28(2), 2002).
 *
 * Trees: each process has one of its own, whose top directory is the same for all, so that several
 * processes change one directory at once (names carry the process's number); and all have one in
 * common, where the tree's lock is held around an operation and its model.
 */
#ifndef TESTS_MOUNT_TREECHECK_H
#define TESTS_MOUNT_TREECHECK_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/types.h>

#define TC_PROCESSES 16
#define TC_NAMES     9                      /* names a directory can hold */
#define TC_DEPTH     5                      /* names in a path that an operation gives */
#define TC_NODES     56                     /* files, directories and links of a tree */
#define TC_LIMIT     (5u * 131072u + 5000u) /* most bytes of a file: five default blocks and a part */
#define TC_XATTRS    3
#define TC_SLOTS     4  /* open files of a process */
#define TC_LOG       40 /* operations shown after a failure */

enum tc_kind { TC_FREE, TC_FILE, TC_DIRECTORY, TC_SYMLINK, TC_FIFO };

struct tc_xattr {
    bool set;
    uint32_t length, seed;
};

/* One inode of the model. FREE again when it has neither names nor open files. */
struct tc_node {
    enum tc_kind kind;
    unsigned target;       /* symlink: a name number, beside the link */
    mode_t mode;           /* permission bits */
    unsigned names, opens; /* links (directory: 1), open slots */
    size_t size;           /* file */
    bool time_known;       /* mtime is as set, nothing has changed the content since */
    struct timespec mtime;
    struct tc_xattr xattr[TC_XATTRS];
    int parent, child[TC_NAMES]; /* directory; node numbers, -1 for none */
};

/* A model; node 0 is the top directory. In shared memory, so by numbers, not by pointers. */
struct tc_tree {
    pthread_mutex_t lock; /* process-shared; guards all below in the common tree */
    struct tc_node node[TC_NODES];
    unsigned char data[TC_NODES][TC_LIMIT]; /* all beyond size are zeros */
};

struct tc_path {
    uint8_t depth, name[TC_DEPTH];
};

struct tc_op {
    uint8_t kind;   /* index into tc_kinds */
    uint8_t common; /* 1: in the common tree */
    uint8_t slot, slot2;
    struct tc_path path, path2;
    uint32_t offset, length, seed, flags;
};

/* A list of operations of one process, in shared memory: it outlives the process. */
struct tc_trace {
    _Atomic uint32_t count; /* the last one may not be done */
    uint32_t size;
    struct tc_op *op;
};

struct tc_slot {
    int fd, node, flags; /* fd -1: closed; flags as for open */
    bool common;
};

/* What all processes of a run share. */
struct tc_board {
    _Atomic uint64_t operations;
    _Atomic uint64_t unsupported; /* bit: index in tc_kinds */
    struct tc_tree common;
    struct tc_tree own[TC_PROCESSES];
};

struct tc_worker {
    unsigned number, processes;
    uint64_t random, seed;
    struct tc_board *board;
    struct tc_trace *trace;
    const char *directory; /* of the run */
    const char *hook;      /* command for remounts and background work, or NULL */
    const char *plant;     /* name of a planted fault, or NULL */
    struct tc_slot slot[TC_SLOTS];
    int common, own; /* descriptors of the trees' top directories, -1 while away for a remount */
    bool quiet;      /* failures are not printed: a trial of the shrinker */
    unsigned char *buffer, *other; /* TC_LIMIT bytes each */
    uint32_t plant_state;
};

/* ---- treecheck_model.c: names and files in memory, errors as the kernel finds them -------------- */

void tc_model_init(struct tc_tree *tree);

/* Where a path leads. parent, name: of the last component, also when node is -1 (missing). */
struct tc_place {
    int parent, node;
    unsigned name;
};
/* 0 or a negative errno. follow: a symlink as last component. The top directory has parent -1. */
int tc_resolve(const struct tc_tree *tree, const struct tc_path *path, bool follow,
               struct tc_place *place);
/* Number of a free node made KIND with one name at PLACE. The caller knows that there is one. */
int tc_model_make(struct tc_tree *tree, const struct tc_place *place, enum tc_kind kind,
                  mode_t mode);
bool tc_model_full(const struct tc_tree *tree);
/* Takes away the name at PLACE; the node with its last name and open file. */
void tc_model_unlink(struct tc_tree *tree, const struct tc_place *place);
void tc_model_close(struct tc_tree *tree, int node);
void tc_model_resize(struct tc_tree *tree, int node, size_t size);
/* 0 or a negative errno, and the change done. */
int tc_model_rename(struct tc_tree *tree, const struct tc_path *from, const struct tc_path *to,
                    unsigned flags);
unsigned tc_model_subdirectories(const struct tc_tree *tree, int node);
bool tc_model_empty(const struct tc_tree *tree, int node);

/* ---- treecheck_operations.c: names; treecheck_data.c: contents ---------------------------------- */

struct tc_call {
    struct tc_worker *worker;
    struct tc_tree *tree;
    const struct tc_op *op;
    int top; /* descriptor of the tree's top directory */
};

enum tc_wants { TC_ANY, TC_PLACE, TC_SLOT, TC_SLOT_PAIR, TC_PATH_PAIR, TC_HOOK };
struct tc_operation {
    const char *name;
    unsigned weight;
    enum tc_wants wants;
    bool (*run)(const struct tc_call *call); /* false: the file system does not have it */
};
extern const struct tc_operation tc_kinds[]; /* treecheck_trace.c */
extern const unsigned tc_kind_count;

bool tc_do_open(const struct tc_call *call);
bool tc_do_mkdir(const struct tc_call *call);
bool tc_do_rmdir(const struct tc_call *call);
bool tc_do_unlink(const struct tc_call *call);
bool tc_do_link(const struct tc_call *call);
bool tc_do_symlink(const struct tc_call *call);
bool tc_do_mkfifo(const struct tc_call *call);
bool tc_do_rename(const struct tc_call *call);
bool tc_do_chmod(const struct tc_call *call);
bool tc_do_utimes(const struct tc_call *call);
bool tc_do_setxattr(const struct tc_call *call);
bool tc_do_removexattr(const struct tc_call *call);
bool tc_do_sync_path(const struct tc_call *call);
bool tc_do_look(const struct tc_call *call);
bool tc_do_verify(const struct tc_call *call);
bool tc_do_compare(const struct tc_call *call);
bool tc_do_hook(const struct tc_call *call);

bool tc_do_close(const struct tc_call *call);
bool tc_do_read(const struct tc_call *call);
bool tc_do_write(const struct tc_call *call);
bool tc_do_ftruncate(const struct tc_call *call);
bool tc_do_truncate(const struct tc_call *call);
bool tc_do_punch(const struct tc_call *call);
bool tc_do_zero(const struct tc_call *call);
bool tc_do_allocate(const struct tc_call *call);
bool tc_do_map_read(const struct tc_call *call);
bool tc_do_map_write(const struct tc_call *call);
bool tc_do_copy(const struct tc_call *call);
bool tc_do_seek(const struct tc_call *call);
bool tc_do_sync(const struct tc_call *call);
bool tc_do_forget(const struct tc_call *call);

/* Text of PATH below the tree's top; "." for the top itself. */
#define TC_TEXT ((TC_DEPTH + 1) * 256)
const char *tc_xattr_name(unsigned number);
void tc_text(const struct tc_call *call, const struct tc_path *path, char text[TC_TEXT]);
void tc_name(const struct tc_worker *worker, bool common, unsigned name, char text[256]);
/* The call returned RESULT (-1: errno is looked at); the model says EXPECTED, 0 or a negative errno,
 * or a count. Fails unless they agree. */
void tc_expect(const struct tc_call *call, long result, long expected);
/* LENGTH bytes that follow from SEED: noise, text, zeros or a constant. */
void tc_fill(unsigned char *bytes, size_t length, uint32_t seed);
void tc_close_all(struct tc_worker *worker);
void tc_enter(struct tc_worker *worker); /* opens the top directories */
void tc_leave(struct tc_worker *worker); /* and closes everything */

/* ---- treecheck_compare.c ------------------------------------------------------------------------ */

/* NODE against what the file system has under NAME in the directory AT. content: files are read,
 * directories listed. */
void tc_compare_node(const struct tc_call *call, int node, int at, const char *name, bool content);
void tc_compare_tree(struct tc_worker *worker, bool common);
void tc_compare_bytes(const struct tc_call *call, int node, const unsigned char *got, size_t offset,
                      size_t length, const char *how);

/* ---- treecheck_generate.c ----------------------------------------------------------------------- */

uint64_t tc_random(struct tc_worker *worker);
size_t tc_below(struct tc_worker *worker, size_t below);
/* The next operation. The common tree's lock is held when op->common is set by the caller. */
void tc_generate(struct tc_worker *worker, struct tc_op *op);

/* ---- treecheck_trace.c -------------------------------------------------------------------------- */

int tc_kind_named(const char *name);
struct tc_trace *tc_trace_new(uint32_t size);
void tc_print_op(FILE *out, const struct tc_op *op);
bool tc_trace_write(const char *path, const struct tc_trace *trace, uint64_t seed);
bool tc_trace_read(const char *path, struct tc_trace **trace);
/* Prints and ends the process with status 1. */
_Noreturn void tc_fail(const struct tc_call *call, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* ---- treecheck_run.c ---------------------------------------------------------------------------- */

/* One operation, and the record of it. */
void tc_step(struct tc_worker *worker, const struct tc_op *op);
/* Runs a hook; false when there is none. Fails when it fails. */
bool tc_hook(struct tc_worker *worker, const char *what);

struct tc_plan {
    const char *directory, *hook, *plant;
    unsigned processes, rounds;
    uint64_t operations; /* of each process, all rounds together */
    uint64_t seed;
    double end; /* monotonic seconds; a run that is under way then ends early */
};
/* One run in a directory of its own below plan->directory. trace: of process 0, filled. 0 passed,
 * 1 failed, the directory kept. */
int tc_run(const struct tc_plan *plan, struct tc_board *board, struct tc_trace *trace);
/* The same for a given list of operations, in one process. */
int tc_replay(const struct tc_plan *plan, struct tc_board *board, const struct tc_trace *trace,
              bool quiet);
double tc_now(void);
/* Removes what a run has left, for which no descriptor is open. */
void tc_remove(const char *directory);

/* ---- treecheck_shrink.c ------------------------------------------------------------------------- */

/* Makes TRACE as short as it can while it fails, within SECONDS. Returns how many it tried. */
unsigned tc_shrink(const struct tc_plan *plan, struct tc_board *board, struct tc_trace *trace,
                   double seconds);

#endif
