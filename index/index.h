/* SPDX-License-Identifier: BSD-2-Clause
 *
 * index.h - the store on disk: LMDB index, pack files, locks and commits. The only public header of
 * index/. Knows codec numbers, not codecs; knows nothing of FUSE. docs/format.md describes every
 * record byte by byte.
 *
 * Guarantees
 *  - What index_commit() acknowledged survives kill -9 and power cuts, names and bytes alike. A
 *    store needs no repair after either: what was not committed is simply absent.
 *  - Pack bytes are synced before the transaction that refers to them commits. Bytes of a block
 *    that lost its last reference are given back only after the commit that dropped it is durable.
 *  - Inode numbers and block ids are never reused. The plain bytes of a block id never change: a
 *    cache keyed by block id needs no invalidation. Where and how they are stored may change.
 *
 * Threads
 *  LMDB has one writer, and its lock belongs to the thread that began the transaction. One index
 *  thread begins and commits all write transactions; every other thread works inside the current
 *  one between index_begin(INDEX_WRITE) and index_end(), which is a mutex and costs no context
 *  switch. Operations between them are all or nothing with respect to commits. Keep them short: no
 *  codec work and no pack I/O in between. Lock order: fs inode locks before index_begin.
 *
 * Errors
 *  0 or a negative errno. -ENOENT: no such record. -EUCLEAN: a record on disk is malformed, or its
 *  checksum does not match (it is logged with table and key). -ENOSPC: host or map full, found by index_reserve before anything was
 *  accepted. When an operation fails half-way for any other reason (no memory, LMDB error) the
 *  index refuses further writes with -EROFS until it is opened again; the last commit stays good.
 */
#ifndef INDEX_INDEX_H
#define INDEX_INDEX_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <time.h>

#define INDEX_FORMAT_VERSION 0u /* of the whole store; a newer one is refused */
#define INDEX_ROOT_INO       1u /* the root directory, as FUSE wants it */
#define INDEX_NAME_MAX       255u
#define INDEX_SYMLINK_MAX    4095u
#define INDEX_XATTR_SIZE_MAX 65536u
#define INDEX_INLINE_MAX     256u /* bytes of file content kept in the inode record */
#define INDEX_LINK_MAX       65000u

struct index;     /* an open store */
struct index_txn; /* access to its records, from index_begin to index_end */

typedef void (*index_log_fn)(void *arg, int syslog_priority, const char *line);

/* ---- opening ------------------------------------------------------------------------------- */

enum index_open_flags {
    INDEX_OPEN_CREATE = 1, /* create the store when PATH is missing or an empty directory */
    INDEX_OPEN_READONLY =
        2,                 /* take no lock, start no thread, change nothing; works beside a mount */
    INDEX_OPEN_COPIES = 8, /* keep copies of the index for salvage: one a day, and at the close */
    INDEX_OPEN_NO_RECOVER = 4, /* fsck: do not finish interrupted work (orphans, pack tails) */
};

struct index_options {
    unsigned flags;      /* enum index_open_flags */
    uint32_t block_size; /* at creation: power of two, 16 KiB..4 MiB; 0 = 128 KiB. Otherwise 0 */
    uint64_t map_size;   /* LMDB map in bytes; 0 = 1 TiB (tests use small ones) */
    uint32_t pack_size;  /* a pack is sealed beyond this; 0 = 256 MiB */
    index_log_fn log;    /* may be NULL */
    void *log_arg;
};

/* Opens (or creates) the store at PATH. On failure returns a negative errno and writes one clear
 * lower-case reason without trailing newline to ERROR (size bytes), e.g. "not a sepfs store",
 * "store is mounted by process 1234", "store format 7 is newer than this program (0)".
 * Errnos: -ENOENT, -ENOTDIR, -ENOTEMPTY (a non-empty directory that is no store), -EBUSY (locked),
 * -EPROTONOSUPPORT (newer format), -EUCLEAN (damaged), -EACCES, -ENOSPC, ...
 * Must be called after the last fork. */
int index_open(const char *path, const struct index_options *options, struct index **index,
               char *error, size_t size);

/* Commits, trims pack preallocation, rewrites an index file that is mostly free pages, unlocks.
 * Returns the error of the last commit. */
int index_close(struct index *index);

uint32_t index_block_size(const struct index *index);
const char *index_path(const struct index *index);
const uint8_t *index_uuid(const struct index *index); /* 16 bytes */
bool index_readonly(const struct index *index);       /* opened so, or degraded after an error */

/* ---- transactions -------------------------------------------------------------------------- */

enum index_access { INDEX_READ, INDEX_WRITE };

/* Enters the current transaction; sees everything done before, committed or not. Blocks while
 * another thread is inside or a commit runs. -EROFS for INDEX_WRITE on a read-only index. Does not
 * nest. */
int index_begin(struct index *index, enum index_access access, struct index_txn **txn);
void index_end(struct index_txn *txn);

/* Makes everything done so far durable (packs, then index). Callers that arrive while a commit runs
 * share the next one. Returns 0 also when there is nothing to commit. */
int index_commit(struct index *index);

/* True when there is something to commit. */
bool index_dirty(const struct index *index);

/* Seconds (monotonic clock) since the oldest uncommitted change, 0 when clean. */
double index_dirty_age(const struct index *index);

/* Promises room for BYTES of pack data (records included) and for the index pages of the operations
 * that store them; also called with 0 before operations that only add names. Preallocates pack
 * space on the host in steps. -ENOSPC (or -EDQUOT) when the host or the map is full. Deletions
 * never need it: a last reserve is kept for them. index_release gives back what was promised and is
 * called once the data is stored or dropped. Call outside index_begin: on a full host it commits, to
 * get back what was deleted. */
int index_reserve(struct index *index, uint64_t bytes);
void index_release(struct index *index, uint64_t bytes);

/* ---- inodes -------------------------------------------------------------------------------- */

enum index_inode_flags {
    INDEX_INODE_INLINE = 1, /* content (regular file) or target (symlink) lies in the record */
};

struct index_inode {
    uint64_t ino;
    uint64_t
        parent;    /* directory: its parent, exact. Others: a directory that holds a name, a hint */
    uint64_t size; /* logical bytes; as of the last flushed block */
    uint64_t stored; /* bytes on disk charged to this file, for st_blocks */
    uint32_t mode, uid, gid, nlink, rdev, generation;
    uint32_t flags; /* enum index_inode_flags */
    struct timespec atime, mtime, ctime, btime;
    uint32_t inline_size;    /* 0 unless INDEX_INODE_INLINE */
    const void *inline_data; /* points into the map until the next write in this txn or index_end */
};

/* Allocates the next inode number (never reused, also after a crash). Needs INDEX_WRITE. */
uint64_t index_inode_new(struct index_txn *txn);
int index_inode_get(struct index_txn *txn, uint64_t ino, struct index_inode *inode);
int index_inode_put(struct index_txn *txn, const struct index_inode *inode);

/* Removes the record, its xattrs and any orphan mark. Its extents must be gone already. */
int index_inode_delete(struct index_txn *txn, uint64_t ino);

/* First inode with number >= FROM. -ENOENT at the end. */
int index_inode_next(struct index_txn *txn, uint64_t from, struct index_inode *inode);

/* Work to finish after a crash: "remove extents from block FROM on" (but none that the size of an
 * inode with links covers), and, when the inode has no links left, the inode as well. index_orphan_next: first mark with ino >= FROM_INO. */
int index_orphan_set(struct index_txn *txn, uint64_t ino, uint64_t from);
int index_orphan_clear(struct index_txn *txn, uint64_t ino);
int index_orphan_next(struct index_txn *txn, uint64_t from_ino, uint64_t *ino, uint64_t *from);

/* ---- names --------------------------------------------------------------------------------- */

struct index_dirent {
    uint64_t ino;
    uint64_t cookie; /* readdir offset of the entry *after* this one resumes at cookie + 1;
                        stable while the entry exists; 16 <= cookie < 2^63 */
    uint8_t type;    /* DT_* */
    uint8_t name_size;
    char name[INDEX_NAME_MAX + 1]; /* NUL-terminated copy */
};

/* Names are 1..255 bytes, any but '/' and NUL; not "." and "..". -EEXIST, -ENOENT, -ENAMETOOLONG.
 */
int index_dirent_lookup(struct index_txn *txn, uint64_t dir, const char *name,
                        struct index_dirent *entry);
int index_dirent_add(struct index_txn *txn, uint64_t dir, const char *name, uint64_t ino,
                     uint8_t type);
int index_dirent_replace(struct index_txn *txn, uint64_t dir, const char *name, uint64_t ino,
                         uint8_t type); /* -ENOENT when the name is not there */
int index_dirent_remove(struct index_txn *txn, uint64_t dir, const char *name);

/* First entry with cookie >= FROM. -ENOENT at the end. */
int index_dirent_next(struct index_txn *txn, uint64_t dir, uint64_t from,
                      struct index_dirent *entry);
bool index_dir_empty(struct index_txn *txn, uint64_t dir);

/* Path of an inode from the root ("/a/b"), through parent links and a scan of the last directory;
 * for messages. Writes "inode N" when no name is found. Returns TEXT. */
const char *index_inode_path(struct index_txn *txn, uint64_t ino, char *text, size_t size);

/* ---- extended attributes ------------------------------------------------------------------- */

int index_xattr_get(struct index_txn *txn, uint64_t ino, const char *name, const void **value,
                    size_t *size); /* points into the map; -ENODATA */
/* flags: 0, XATTR_CREATE (-EEXIST) or XATTR_REPLACE (-ENODATA) */
int index_xattr_set(struct index_txn *txn, uint64_t ino, const char *name, const void *value,
                    size_t size, int flags);
int index_xattr_remove(struct index_txn *txn, uint64_t ino, const char *name); /* -ENODATA */
/* First attribute whose name sorts after AFTER ("" = first). name: 256 bytes. -ENOENT at the end.
 */
int index_xattr_next(struct index_txn *txn, uint64_t ino, const char *after, char *name);
bool index_xattr_any(struct index_txn *txn, uint64_t ino);

/* ---- blocks -------------------------------------------------------------------------------- */

/* XXH3-128 of plain bytes, low and high half. */
struct index_hash {
    uint64_t low, high;
};

enum index_class { INDEX_HOT = 0, INDEX_COLD = 1 }; /* appended to different packs */

struct index_location {
    uint32_t pack;
    uint32_t payload_size; /* bytes */
    uint64_t offset;       /* of the record header in the pack, bytes */
};

/* Bytes of a pack record besides its payload. */
#define INDEX_RECORD_HEADER 80u

enum index_block_flags {
    INDEX_BLOCK_INCOMPRESSIBLE =
        1,                  /* a cold codec was tried, or a sample said so: leave it alone */
    INDEX_BLOCK_SHARED = 2, /* holds pieces of several files (made by the compactor) */
};

struct index_block {
    uint64_t id;
    struct index_location at;
    uint32_t plain_size;  /* bytes, 1..block size */
    uint32_t references;  /* extents that name it */
    uint32_t live;        /* plain bytes covered by those extents, saturating at 2^32-1 */
    uint8_t codec, level; /* struct sep_method */
    uint16_t flags;       /* enum index_block_flags */
    uint64_t model;       /* content hash of the model it needs, 0 = none */
    uint64_t owner_ino,
        owner_block; /* a file and block number it was stored for; a hint for salvage.
                        Kept in the pack record only: zero when read from the index */
    struct index_hash hash;
};

/* Next block id; needs no transaction. */
uint64_t index_block_new(struct index *index);

/* Appends a record to the open pack of CLASS and fills block->at. id, plain_size, codec, level,
 * flags, model, owner and hash must be set. The record becomes part of the store when a transaction
 * puts the block; otherwise it is garbage that index_gc and recovery find. Thread-safe; call
 * outside index_begin. */
int index_pack_append(struct index *index, enum index_class class, struct index_block *block,
                      const void *payload, size_t payload_size);

/* Reads a record's payload into BUFFER (block->at.payload_size bytes) and checks magic, header
 * against *block (id, sizes, codec, hash) and checksum. Call outside index_begin. -EIO: damaged or
 * unreadable; -ESTALE: the pack is gone (look the block up again: it has moved). A caller that gets
 * -EIO looks the block up again as well and believes the error only when the location is unchanged.
 */
int index_pack_read(struct index *index, const struct index_block *block, void *buffer);

struct index_hash index_hash_of(const void *plain, size_t size);

int index_block_get(struct index_txn *txn, uint64_t id, struct index_block *block);
/* Adds a new block (references and live start at 0; extents raise them), its hash record and, for
 * class HOT, its entry in the hot list. A block still at zero references at index_end is dropped.
 */
int index_block_add(struct index_txn *txn, const struct index_block *block, enum index_class class);
/* First block with id >= FROM. -ENOENT at the end. */
int index_block_next(struct index_txn *txn, uint64_t from, struct index_block *block);
/* A block with these plain bytes, for dedup. -ENOENT. Blocks marked SHARED are not found. */
int index_block_find(struct index_txn *txn, struct index_hash hash, uint32_t plain_size,
                     struct index_block *block);

/* Compare-and-swap of a block's stored form: puts *changed (same id, hash and plain size, new
 * location, codec, level, flags, model) if the block still lies at EXPECTED; the old bytes become
 * garbage. Leaves references alone. -ESTALE: it moved or is gone, the new record is garbage. Takes
 * the block off the hot list. */
int index_block_swap(struct index_txn *txn, const struct index_block *changed,
                     const struct index_location *expected);
int index_block_set_flags(struct index_txn *txn, uint64_t id, uint16_t flags);

/* ---- extents ------------------------------------------------------------------------------- */

/* Block number N of a file covers its bytes [N * block_size, (N + 1) * block_size). An absent
 * extent is a hole; bytes of the block beyond LENGTH read as zeros. */
struct index_extent {
    uint64_t number; /* block number in the file */
    uint64_t block;  /* block id */
    uint32_t offset; /* first byte inside the block's plain bytes */
    uint32_t length; /* bytes, 1..block size */
};

int index_extent_get(struct index_txn *txn, uint64_t ino, uint64_t number,
                     struct index_extent *extent);
/* First extent with number >= FROM. -ENOENT at the end of the file. */
int index_extent_next(struct index_txn *txn, uint64_t ino, uint64_t from,
                      struct index_extent *extent);
/* Sets or replaces; takes a reference on the new block, drops the old one's. When INODE is not NULL
 * its stored field is adjusted (the caller puts the inode). */
int index_extent_set(struct index_txn *txn, uint64_t ino, const struct index_extent *extent,
                     struct index_inode *inode);
/* Removes extents numbered FIRST..LAST, at most MAX of them; *more tells whether any are left. */
int index_extent_remove(struct index_txn *txn, uint64_t ino, uint64_t first, uint64_t last,
                        unsigned max, struct index_inode *inode, bool *more);
/* Stored bytes charged to an extent: header and payload in proportion to its share of the block. */
uint64_t index_extent_stored(const struct index_block *block, const struct index_extent *extent);

/* ---- compaction work ----------------------------------------------------------------------- */

/* The hot list: every block stored by the fast codec that no pass has settled. Ids ascend with age.
 */
struct index_hot {
    uint64_t block;    /* id */
    uint64_t ino;      /* a file that refers to it, when it was stored */
    uint64_t number;   /* block number there */
    int64_t stored_at; /* seconds since the epoch */
};
int index_hot_next(struct index_txn *txn, uint64_t from_block, struct index_hot *hot);
int index_hot_add(struct index_txn *txn, const struct index_hot *hot);
int index_hot_remove(struct index_txn *txn, uint64_t block); /* -ENOENT is 0 */

/* Work that failed or was declined; retried only when the method asked for differs. */
struct index_pending {
    uint64_t block;
    int32_t error;        /* positive errno, 0 = did not get smaller */
    uint8_t codec, level; /* what was tried */
    int64_t tried_at;     /* seconds since the epoch */
    char reason[64];      /* NUL-terminated text */
};
int index_pending_next(struct index_txn *txn, uint64_t from_block, struct index_pending *pending);
int index_pending_put(struct index_txn *txn, const struct index_pending *pending);
int index_pending_get(struct index_txn *txn, uint64_t block, struct index_pending *pending);
int index_pending_remove(struct index_txn *txn, uint64_t block); /* -ENOENT is 0 */

/* ---- packs, space, garbage ------------------------------------------------------------------ */

struct index_pack {
    uint32_t id;
    uint8_t class; /* enum index_class */
    bool sealed;
    uint64_t size; /* bytes appended, header included */
    uint64_t live; /* bytes of records that blocks refer to */
};
int index_pack_next(struct index_txn *txn, uint32_t from, struct index_pack *pack);

struct index_space {
    uint64_t inodes, directories, symlinks, others, blocks, extents, shared_blocks, hot_blocks,
        pending;
    uint64_t logical;               /* bytes of all files */
    uint64_t pack_bytes;            /* file sizes of all packs */
    uint64_t live_bytes;            /* of them referred to */
    uint64_t index_bytes;           /* pages of the index in use, and its copies */
    uint64_t host_free, host_total; /* bytes, as statvfs says (available to users) */
};
/* Cheap: counters kept in the index. */
int index_space(struct index *index, struct index_space *space);

struct index_gc_result {
    uint64_t packs_removed, records_moved, bytes_moved, bytes_freed;
};
/* Rewrites packs whose live share is below MIN_LIVE_PERCENT, removes empty ones, punches what is
 * dead. Commits by itself. Stops early, with 0, when *stop becomes true (may be NULL). */
int index_gc(struct index *index, unsigned min_live_percent, const volatile bool *stop,
             struct index_gc_result *result);

/* Settings that live in sepfs.conf, as "key=value"; key: [a-z_]+. Values are returned as written.
 */
int index_conf_get(const struct index *index, const char *key, char *value, size_t size);
int index_conf_set(struct index *index, const char *key, const char *value); /* atomic, durable */

/* ---- models ---------------------------------------------------------------------------------- */

/* Files that blocks name by content hash (struct index_block, model); what is in them is the codec's
 * business. A model must have been added before a block names it, and goes only when none does. Any
 * thread. Reading is allowed in a read-only store. */
#define INDEX_MODEL_MAX ((size_t)64 << 20) /* bytes of a file */

/* Calls EACH for every model in the store until it returns something else than 0, which is
 * returned. */
typedef int (*index_model_fn)(void *arg, uint64_t hash);
int index_model_each(struct index *index, index_model_fn each, void *arg);
/* The file's bytes, as they are: *bytes is freed by the caller. -ENOENT, -EFBIG. */
int index_model_read(struct index *index, uint64_t hash, void **bytes, size_t *size);
/* Durable when it returns 0. Replaces what was there under this hash. */
int index_model_add(struct index *index, uint64_t hash, const void *bytes, size_t size);
int index_model_remove(struct index *index, uint64_t hash); /* 0 when there was none */

/* ---- scrub in operation ---------------------------------------------------------------------- */

/* How far the scrub of a daemon is; kept in the index. A round checks the record of every block that
 * there is when it begins, in the order of ids. Times: seconds since the epoch, 0 = never. */
struct index_scrub {
    int64_t started_at;  /* of the round under way, or of the last one */
    int64_t finished_at; /* of the last complete round */
    uint64_t next_block; /* the round under way goes on with this id; 0 = none is under way */
    uint64_t end_block;  /* and ends before this one */
    uint64_t rounds;     /* complete ones */
    /* of the round under way: records checked, their bytes, of them damaged, and headers of packs */
    uint64_t blocks, bytes, damaged, damaged_packs;
    /* of the last complete one */
    uint64_t last_blocks, last_bytes, last_damaged, last_damaged_packs;
};
/* All zero when there never was one. */
int index_scrub_get(struct index_txn *txn, struct index_scrub *scrub);
int index_scrub_put(struct index_txn *txn, const struct index_scrub *scrub);

#define INDEX_SCRUB_BATCH 16u

struct index_scrub_record {
    struct index_block block; /* as in the index */
    /* after index_scrub_settle */
    const char *kind; /* NULL: good, or gone meanwhile; otherwise as in struct index_problem */
    char reason[128];
    uint64_t owner; /* inode of a file that holds the block, 0 = not known without a search */
    /* private */
    struct index_pack_file *pack;
    int fd, error;
    bool gone;
};

struct index_scrub_batch {
    struct index_scrub_record records[INDEX_SCRUB_BATCH];
    unsigned count;
    uint64_t next;  /* id to go on with */
    uint64_t bytes; /* of the records, headers included */
    uint8_t *buffer;
    size_t room;
};

/* Id above those of all blocks that there are. */
uint64_t index_scrub_end(struct index *index);
/* The three steps of checking some blocks. The first looks up blocks with FROM <= id < END, and
 * opens their packs; -ENOENT: there are none. The second reads and sums; it takes no lock of the index,
 * so that a thread of low priority may be preempted in it without anybody waiting for it; it ends
 * early when *stop becomes true. The third, which must follow, closes, and looks again at what
 * seemed damaged: a block that moved meanwhile is read where it is now. All outside index_begin. */
int index_scrub_take(struct index *index, uint64_t from, uint64_t end,
                     struct index_scrub_batch *batch);
void index_scrub_read(struct index *index, struct index_scrub_batch *batch,
                      const atomic_bool *stop);
int index_scrub_settle(struct index *index, struct index_scrub_batch *batch);
void index_scrub_free(struct index_scrub_batch *batch);

/* First pack with an id >= FROM whose file is missing or whose header is damaged: its id, and what
 * is wrong with it. -ENOENT: none. */
int index_scrub_header(struct index *index, uint32_t from, uint32_t *id, const char **problem);

/* ---- checking ------------------------------------------------------------------------------- */

enum index_problem_state { INDEX_PROBLEM_FOUND, INDEX_PROBLEM_FIXED, INDEX_PROBLEM_LOST };

struct index_problem {
    const char *kind; /* stable identifier, e.g. "refcount", "dangling-dirent", "record-checksum" */
    enum index_problem_state state;
    /* The right value follows from other records, and repair removes nothing that a user could
     * miss: sepfs-fsck -p repairs these without asking. */
    bool derivable;
    uint64_t ino, block; /* 0 when not about one */
    uint32_t pack;
    char text[512]; /* one line: object, expected, found */
};
typedef void (*index_problem_fn)(void *arg, const struct index_problem *problem);
typedef void (*index_progress_fn)(void *arg, const char *pass, uint64_t done, uint64_t total);

struct index_check {
    bool repair;      /* needs a read-write index */
    bool scrub;       /* also read every record and check its checksum */
    unsigned threads; /* that scrub reads and decodes with; 0 = 1 */
    /* --deep: decodes a block's payload and compares with its plain hash; called by scrub for each
     * good record, from several threads at once: WORKER is below threads. 0, or -EIO and a reason.
     * NULL = no. */
    int (*decode)(void *arg, unsigned worker, const struct index_block *block, const void *payload,
                  char *reason, size_t size);
    void *decode_arg;
    index_problem_fn problem;
    index_progress_fn progress; /* may be NULL */
    void *arg;                  /* for problem and progress */
    const volatile bool *stop;  /* may be NULL; ends the check early with -ECANCELED */
};
/* Rebuilds the index of a store whose index is damaged or gone: from the records of the present one
 * that are intact, then from the newest copy where those are missing, then from the packs. Blocks
 * that have no file go to files in /lost+found. The old file stays, as data.mdb.damaged-DATE in
 * index/. The new one takes its place last, checked as by index_check with scrub, and synced. */
struct index_salvage {
    index_problem_fn problem;   /* what is damaged, and what of it is lost */
    index_progress_fn progress; /* may be NULL */
    void *arg;
    const volatile bool *stop; /* may be NULL; ends it with -ECANCELED, the store as it was */
    unsigned threads;          /* 0 = 1 */
    index_log_fn log;          /* may be NULL */
    void *log_arg;
};
struct index_salvage_result {
    uint64_t from_index, from_copy; /* records taken over */
    uint64_t blocks_found;          /* intact records in packs */
    uint64_t blocks_attached;       /* blocks given to a file by what their record says */
    uint64_t lost;                  /* problems that are losses */
    char copy[64], set_aside[64];   /* names; empty: none */
};
int index_salvage(const char *path, const struct index_salvage *options,
                  struct index_salvage_result *result, char *error, size_t size);

/* Runs all passes. Returns 0 (problems are reported through the callback) or a negative errno when
 * the check itself could not run. */
int index_check(struct index *index, const struct index_check *check);

#endif
