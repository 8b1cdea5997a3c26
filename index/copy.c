/* SPDX-License-Identifier: BSD-2-Clause
 *
 * copy.c - the bytes of a copy of the index: a header, chunks of records of one table each, and a
 * last chunk with the number of records of each table.
 */
#include "copy.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define XXH_STATIC_LINKING_ONLY
#include <xxhash.h>

#include "bytes.h"
#include "codec/sep.h"

#define COPY_MAGIC   0x79706f63706573ffu /* ff "sepcopy" */
#define COPY_VERSION 1u
#define CHUNK_MAGIC  0x63496553u /* "SeIc" */
#define HEADER       64u
#define CHUNK_HEAD   32u
#define CHECKED      24u          /* bytes of a chunk's head before its checksum */
#define CHUNK_FULL   (256u << 10) /* plain bytes after which a chunk is written */
#define PLAIN_MAX    (512u << 10) /* bytes; room for one record beyond that */
#define STORED_MAX   (PLAIN_MAX + (64u << 10))
#define CHUNK_END    255u /* table number of the last chunk */
#define LEVEL        3    /* of zstd: a third of the bytes at the speed of the walk */

/* ---- writing ------------------------------------------------------------------------------- */

struct writer {
    const struct index_io *io;
    int fd;
    uint64_t at;
    uint8_t db;
    uint32_t records;
    size_t plain_size;
    uint8_t *plain, *stored;
    struct sep_context *codec;
    uint64_t counts[INDEX_DB_COUNT];
};

static uint64_t chunk_sum(const uint8_t *head, const void *payload, size_t size)
{
    XXH3_state_t state;
    XXH3_INITSTATE(&state);
    XXH3_64bits_reset(&state);
    XXH3_64bits_update(&state, head, CHECKED);
    XXH3_64bits_update(&state, payload, size);
    return XXH3_64bits_digest(&state);
}

static int write_chunk(struct writer *w)
{
    uint8_t head[CHUNK_HEAD];
    if (w->plain_size == 0)
        return 0;
    const struct sep_method method = {.codec = SEP_CODEC_ZSTD, .level = LEVEL};
    struct sep_method used;
    size_t stored;
    if (sep_encode(w->codec, method, w->plain, w->plain_size, w->stored, STORED_MAX, &stored,
                   &used) != SEP_OK)
        return -ENOMEM;
    struct index_writer b = {.at = head};
    index_write_u32(&b, CHUNK_MAGIC);
    index_write_u32(&b, w->db);
    index_write_u32(&b, w->records);
    index_write_u32(&b, (uint32_t)w->plain_size);
    index_write_u32(&b, (uint32_t)stored);
    index_write_u32(&b, used.codec);
    index_write_u64(&b, chunk_sum(head, w->stored, stored));
    struct iovec parts[] = {{head, sizeof head}, {w->stored, stored}};
    const int error = index_io_write(w->io, w->fd, parts, 2, w->at);
    w->at += sizeof head + stored;
    w->plain_size = 0;
    w->records = 0;
    return error;
}

static int write_record(struct writer *w, const MDB_val *key, const MDB_val *value)
{
    if (key->mv_size > INDEX_PAGE_KEY_MAX || value->mv_size > PLAIN_MAX - CHUNK_FULL - 1024)
        return -EUCLEAN;
    struct index_writer b = {.at = w->plain + w->plain_size};
    index_write_varint(&b, key->mv_size);
    index_write_bytes(&b, key->mv_data, key->mv_size);
    index_write_varint(&b, value->mv_size);
    index_write_bytes(&b, value->mv_data, value->mv_size);
    w->plain_size = (size_t)(b.at - w->plain);
    w->records++;
    w->counts[w->db]++;
    return w->plain_size >= CHUNK_FULL ? write_chunk(w) : 0;
}

static int write_table(struct writer *w, struct index *index, MDB_txn *txn, enum index_db db,
                       char *problem, size_t size)
{
    MDB_cursor *cursor;
    MDB_val key, value;
    MDB_stat stat;
    int error = index_mdb_error(mdb_cursor_open(txn, index->db[db], &cursor));
    if (error != 0)
        return error;
    w->db = (uint8_t)db;
    int rc;
    while ((rc = mdb_cursor_get(cursor, &key, &value, MDB_NEXT)) == 0 && error == 0) {
        if (index_unseal(db, &key, &value)) {
            error = write_record(w, &key, &value);
        } else {
            snprintf(problem, size, "a damaged %s record", index_db_names[db]);
            error = -EUCLEAN;
        }
    }
    if (error == 0 && rc != MDB_NOTFOUND)
        error = index_mdb_error(rc);
    mdb_cursor_close(cursor);
    if (error == 0 && mdb_stat(txn, index->db[db], &stat) == 0 && stat.ms_entries != w->counts[db])
        error = -EUCLEAN;
    return error != 0 ? error : write_chunk(w);
}

static int write_header(struct writer *w, const struct index *index, uint64_t commit)
{
    uint8_t bytes[HEADER] = {0};
    struct index_writer b = {.at = bytes};
    index_write_u64(&b, COPY_MAGIC);
    index_write_u64(&b, COPY_VERSION);
    index_write_bytes(&b, index->uuid, sizeof index->uuid);
    index_write_u64(&b, commit);
    index_write_u64(&b, (uint64_t)time(NULL));
    index_write_u64(&b, 0);
    index_write_u64(&b, XXH3_64bits(bytes, HEADER - 8));
    struct iovec part = {bytes, sizeof bytes};
    w->at = HEADER;
    return index_io_write(w->io, w->fd, &part, 1, 0);
}

static int write_end(struct writer *w)
{
    struct index_writer b = {.at = w->plain};
    for (unsigned db = 0; db < INDEX_DB_COUNT; db++)
        index_write_u64(&b, w->counts[db]);
    w->db = CHUNK_END;
    w->plain_size = (size_t)(b.at - w->plain);
    return write_chunk(w);
}

/* ---- reading ------------------------------------------------------------------------------- */

struct reader {
    const struct index_io *io;
    int fd;
    uint64_t at;
    const struct index_pages_visit *visit;
    bool whole, ended;
    uint8_t *plain, *stored, *value;
    struct sep_context *codec;
    uint64_t counts[INDEX_DB_COUNT];
};

static void damage(struct reader *r, const char *text)
{
    char line[128];
    snprintf(line, sizeof line, "offset %ju: %s", (uintmax_t)r->at, text);
    r->whole = false;
    r->visit->damage(r->visit->arg, line);
}

/* The records of a chunk whose checksum matched. */
static int read_records(struct reader *r, unsigned db, uint32_t records, size_t size)
{
    struct index_reader b = index_reader(r->plain, size);
    int error = 0;
    for (uint32_t i = 0; i < records && error == 0; i++) {
        MDB_val key, value;
        key.mv_size = (size_t)index_read_varint(&b);
        if (b.bad || key.mv_size > index_reader_left(&b) || key.mv_size > INDEX_PAGE_KEY_MAX)
            break;
        key.mv_data = (void *)(uintptr_t)b.at;
        b.at += key.mv_size;
        value.mv_size = (size_t)index_read_varint(&b);
        if (b.bad || value.mv_size > index_reader_left(&b))
            break;
        memcpy(r->value, b.at, value.mv_size);
        b.at += value.mv_size;
        index_seal_put(r->value + value.mv_size,
                       index_seal((enum index_db)db, &key, r->value, value.mv_size));
        value.mv_size += INDEX_SEAL;
        value.mv_data = r->value;
        r->counts[db]++;
        error = r->visit->record(r->visit->arg, (enum index_db)db, &key, &value);
    }
    if (error == 0 && !index_reader_done(&b))
        damage(r, "a chunk whose records are malformed");
    return error;
}

static void read_end(struct reader *r, size_t size)
{
    struct index_reader b = index_reader(r->plain, size);
    for (unsigned db = 0; db < INDEX_DB_COUNT; db++) {
        if (index_read_u64(&b) != r->counts[db] && r->whole)
            damage(r, "records are missing");
    }
    r->ended = true;
}

/* One chunk; 1: go on, 0: the end. Behind a head that is damaged nothing can be found. */
static int read_chunk(struct reader *r)
{
    uint8_t head[CHUNK_HEAD];
    const ssize_t got = index_io_read(r->io, r->fd, head, sizeof head, r->at);
    if (got == 0)
        return 0;
    struct index_reader b = index_reader(head, sizeof head);
    const uint32_t magic = index_read_u32(&b), db = index_read_u32(&b);
    const uint32_t records = index_read_u32(&b), plain = index_read_u32(&b);
    const uint32_t stored = index_read_u32(&b), codec = index_read_u32(&b);
    if (got != (ssize_t)sizeof head || magic != CHUNK_MAGIC || stored > STORED_MAX ||
        plain > PLAIN_MAX || plain == 0 || (codec != SEP_CODEC_RAW && codec != SEP_CODEC_ZSTD) ||
        (db >= INDEX_DB_COUNT && db != CHUNK_END)) {
        damage(r, "no chunk; the rest is lost");
        return 0;
    }
    if (index_io_read(r->io, r->fd, r->stored, stored, r->at + sizeof head) != (ssize_t)stored) {
        damage(r, "a chunk that is cut short or unreadable");
        return 0;
    }
    int error = 0;
    if (index_load_u64(head + CHECKED) != chunk_sum(head, r->stored, stored) ||
        sep_decode(r->codec, codec, r->stored, stored, r->plain, plain) != SEP_OK)
        damage(r, "a damaged chunk");
    else if (db == CHUNK_END)
        read_end(r, plain);
    else
        error = read_records(r, db, records, plain);
    r->at += sizeof head + stored;
    return error != 0 ? error : 1;
}

static int read_header(struct reader *r, const uint8_t uuid[16])
{
    uint8_t bytes[HEADER];
    if (index_io_read(r->io, r->fd, bytes, sizeof bytes, 0) != (ssize_t)sizeof bytes ||
        index_load_u64(bytes) != COPY_MAGIC || index_load_u64(bytes + 8) != COPY_VERSION ||
        index_load_u64(bytes + HEADER - 8) != XXH3_64bits(bytes, HEADER - 8) ||
        memcmp(bytes + 16, uuid, 16) != 0)
        return -EUCLEAN;
    r->at = HEADER;
    return 0;
}

int index_copy_read(const struct index_io *io, int fd, const uint8_t uuid[16],
                    const struct index_pages_visit *visit, bool *whole)
{
    struct reader r = {.io = io, .fd = fd, .visit = visit, .whole = true};
    *whole = false;
    r.plain = malloc(PLAIN_MAX);
    r.stored = malloc(STORED_MAX);
    r.value = malloc(PLAIN_MAX + INDEX_SEAL);
    r.codec = sep_context_new();
    int error =
        r.plain == NULL || r.stored == NULL || r.value == NULL || r.codec == NULL ? -ENOMEM : 0;
    if (error == 0)
        error = read_header(&r, uuid);
    if (error == 0) {
        do {
            error = read_chunk(&r);
        } while (error == 1);
    }
    if (error == 0 && !r.ended && r.whole)
        damage(&r, "the end is missing");
    free(r.plain);
    free(r.stored);
    free(r.value);
    sep_context_free(r.codec);
    *whole = error == 0 && r.whole;
    return error;
}

/* ---- both ---------------------------------------------------------------------------------- */

static int count_record(void *arg, enum index_db db, const MDB_val *key, const MDB_val *value)
{
    uint64_t *const counts = arg;
    counts[db]++;
    return 0;
}

static void ignore_damage(void *arg, const char *text)
{
}

/* The copy again, from the file: every record that was written must come back. */
static int verify(const struct writer *w, const uint8_t uuid[16])
{
    uint64_t counts[INDEX_DB_COUNT] = {0};
    const struct index_pages_visit visit = {
        .arg = counts, .record = count_record, .damage = ignore_damage};
    bool whole;
    const int error = index_copy_read(w->io, w->fd, uuid, &visit, &whole);
    if (error != 0)
        return error;
    return whole && memcmp(counts, w->counts, sizeof counts) == 0 ? 0 : -EUCLEAN;
}

int index_copy_write(struct index *index, MDB_txn *txn, int fd, char *problem, size_t size)
{
    struct writer w = {.io = index->io, .fd = fd};
    w.plain = malloc(PLAIN_MAX);
    w.stored = malloc(STORED_MAX);
    w.codec = sep_context_new();
    int error = w.plain == NULL || w.stored == NULL || w.codec == NULL ? -ENOMEM : 0;
    snprintf(problem, size, "what was written does not read back");
    if (error == 0)
        error = write_header(&w, index, mdb_txn_id(txn));
    for (unsigned db = 0; db < INDEX_DB_COUNT && error == 0; db++) {
        if (db != INDEX_DB_HASH && db != INDEX_DB_FREE)
            error = write_table(&w, index, txn, db, problem, size);
    }
    if (error == 0)
        error = write_end(&w);
    if (error == 0 && index->io->fdatasync(fd) < 0)
        error = -errno;
    if (error == 0)
        error = verify(&w, index->uuid);
    free(w.plain);
    free(w.stored);
    sep_context_free(w.codec);
    return error;
}
