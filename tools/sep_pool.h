/* SPDX-License-Identifier: BSD-2-Clause
 *
 * sep_pool.h - encoders and decoders on all cores, with their results in order.
 *
 * One thread (the caller of pool_run) reads and writes; workers encode or decode. Jobs live in a
 * ring of a fixed number of slots: when all are taken, reading waits for the oldest to be written.
 * Memory is therefore at most POOL_DEPTH * threads * (plain bytes + record bytes of one block), plus
 * a codec context a thread; buffers grow to what the blocks at hand need and are kept.
 */
#ifndef TOOLS_SEP_POOL_H
#define TOOLS_SEP_POOL_H

#include <stdint.h>

#include "container.h"
#include "model_files.h"
#include "sep_io.h"

#define POOL_THREADS_MAX 256
#define POOL_DEPTH       2 /* slots a thread: one in work, one read or not yet written */

/* One block on its way, or a run of lost ones. */
struct job {
    struct container_record record;
    uint8_t *plain;  /* record.plain_size bytes */
    uint8_t *stored; /* header of the record and payload: CONTAINER_RECORD + record.payload_size */
    size_t plain_room, stored_room; /* their capacities */

    uint64_t position;       /* of the record in the .sep file */
    uint64_t plain_position; /* of the plain bytes in what is decoded */
    const char *fault;       /* NULL: in order; else what is wrong, lower case */
    char fault_text[96];     /* room for a fault that names something */
    enum sep_status status;  /* the codec's, when fault is its text */
    bool record_damaged;     /* decode_lenient: the record is, whatever its plain bytes are */

    uint64_t lost_blocks; /* not 0: no block, but this many lost ones from record.number on */
    uint64_t lost_bytes;  /* their plain bytes */
};

struct pool_task {
    /* Fills JOB and returns 1; or 0: nothing left; or a negative errno, which is returned by
     * pool_run after all jobs before it were consumed. */
    int (*produce)(void *arg, struct job *job);
    /* Runs in a worker, without ARG: JOB and the context are all it may touch. */
    void (*work)(struct job *job, struct sep_context *context);
    /* In order of production. Not 0: pool_run stops and returns it. */
    int (*consume)(void *arg, struct job *job);
    void *arg;
    io_stop stop;
};

struct pool;

/* Threads are started when jobs come; their contexts know MODELS, which outlive the pool. NULL: no
 * memory. */
struct pool *pool_new(unsigned threads, const struct model_files *models);
void pool_free(struct pool *pool); /* NULL is allowed */

/* Returns when every job is consumed, or after a failure; no job is in work then. */
int pool_run(struct pool *pool, const struct pool_task *task);

/* Gives JOB room; false: no memory. For produce. */
bool job_room(struct job *job, size_t plain_size, size_t stored_size);

#endif
