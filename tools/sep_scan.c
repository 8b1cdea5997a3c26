/* SPDX-License-Identifier: BSD-2-Clause
 *
 * sep_scan.c - resynchronisation. As long as one structure follows the other, they are taken as they
 * come. After damage a window is searched for the next structure that is intact and belongs to the
 * stream: a record (header checksum, stream id, a number not yet seen), an index or a footer. Only if
 * the window has none, a new stream's header will do: data may hold whole .sep files, and a header
 * inside a damaged block must not end the stream.
 *
 * The window holds two of the largest records, so that one damaged record cannot hide the next. What
 * a record's header says of its size is believed only while its checksum or what follows it agrees.
 */
#include "sep_scan.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <unistd.h>

#define WINDOW (2 * (size_t)(CONTAINER_RECORD + CONTAINER_PAYLOAD_MAX) + ((size_t)64 << 10))

/* Every structure's first byte. */
enum { MAGIC_BYTE = 0xf3 };

/* Kept when a window is given up: no structure that is looked for is longer. */
enum { TAIL = CONTAINER_FOOTER };

static uint64_t where(const struct scan *scan)
{
    return scan->source.position - scan->input->start;
}

/* source_fill, with failures reported. */
static ssize_t fill(struct scan *scan, size_t size)
{
    const ssize_t got = source_fill(&scan->source, size);
    if (got < 0 && got != -ECANCELED)
        tool_error(scan->tool, scan->input->name, "cannot read at byte %" PRIu64 ": %s",
                   where(scan), strerror((int)-got));
    return got;
}

static void report(struct scan *scan, uint64_t from, const char *what)
{
    scan->damaged = true;
    if (where(scan) > from)
        tool_warn(scan->tool, scan->input->name, "bytes %" PRIu64 " to %" PRIu64 ": %s", from,
                  where(scan) - 1, what);
}

/* ---- what lies at BYTES, of which SIZE are visible ------------------------------------------------
 */

static bool record_here(const struct scan *scan, const uint8_t *bytes, size_t size,
                        struct container_record *record)
{
    return size >= CONTAINER_RECORD && container_get_record(bytes, record) == CONTAINER_OK &&
           (!scan->id_known || record->id == scan->id) &&
           (!scan->in_stream || record->number >= scan->next) &&
           (!scan->sized || record->plain_size <= scan->block_size);
}

static bool footer_here(const struct scan *scan, const uint8_t *bytes, size_t size,
                        struct container_footer *footer)
{
    return size >= CONTAINER_FOOTER && container_get_footer(bytes, footer) == CONTAINER_OK &&
           (!scan->id_known || footer->id == scan->id) &&
           (!scan->sized || footer->block_size == scan->block_size) && footer->blocks >= scan->next;
}

/* An index, all of which is visible, with its footer. */
static bool index_here(const struct scan *scan, const uint8_t *bytes, size_t size)
{
    struct container_footer footer;
    uint32_t blocks;
    if (size < CONTAINER_INDEX || container_get_index(bytes, &blocks) != CONTAINER_OK)
        return false;
    const uint64_t head = container_index_size(blocks);
    return head < size && footer_here(scan, bytes + head, size - (size_t)head, &footer) &&
           footer.blocks == blocks;
}

static bool header_here(const uint8_t *bytes, size_t size, struct container_header *header)
{
    return size >= CONTAINER_HEADER && container_get_header(bytes, header) == CONTAINER_OK;
}

static bool wanted(const struct scan *scan, const uint8_t *bytes, size_t size, bool header_too)
{
    struct container_header header;
    struct container_record record;
    struct container_footer footer;
    if (header_too && header_here(bytes, size, &header))
        return true;
    if (record_here(scan, bytes, size, &record))
        return true;
    return scan->in_stream &&
           (index_here(scan, bytes, size) || footer_here(scan, bytes, size, &footer));
}

/* Offset of the first wanted structure at or after FROM; SIZE when there is none. */
static size_t find(const struct scan *scan, const uint8_t *bytes, size_t from, size_t size,
                   bool header_too)
{
    while (from < size) {
        const uint8_t *const at = memchr(bytes + from, MAGIC_BYTE, size - from);
        if (at == NULL)
            return size;
        from = (size_t)(at - bytes);
        if (wanted(scan, at, size - from, header_too))
            return from;
        from++;
    }
    return size;
}

/* Goes on to the next structure, at the visible byte FROM at the earliest. 1; 0: there is none up to
 * the end, which is then reached. */
static int search(struct scan *scan, size_t from)
{
    const uint64_t begin = where(scan);
    for (;;) {
        const ssize_t got = fill(scan, scan->source.capacity);
        if (got < 0)
            return (int)got;
        const size_t size = (size_t)got;
        const uint8_t *const bytes = source_bytes(&scan->source);
        size_t at = find(scan, bytes, from, size, !scan->in_stream);
        if (at == size && scan->in_stream)
            at = find(scan, bytes, from, size, true);
        const bool found = at < size, ended = scan->source.ended;
        if (!found && !ended && size > TAIL)
            at = size - TAIL;
        source_skip(&scan->source, at);
        from = 0;
        if (found || ended) {
            report(scan, begin, "damaged or no part of the stream, passed over");
            return found;
        }
    }
}

/* ---- streams ------------------------------------------------------------------------------------
 */

static void begin_stream(struct scan *scan, uint32_t block_size)
{
    scan->in_stream = true;
    scan->streams++;
    scan->sized = block_size > 0;
    scan->block_size = block_size;
    scan->next = 0;
    scan->has_index = scan->has_broken = scan->incomplete = false;
    scan->plain = scan->records_hash = 0;
}

/* A run of lost blocks up to block END, of BYTES plain bytes. */
static int lose(struct scan *scan, struct job *job, uint64_t end, uint64_t bytes)
{
    job->record.number = (uint32_t)scan->next;
    job->lost_blocks = end - scan->next;
    job->lost_bytes = bytes;
    job->position = where(scan);
    job->fault = "not found";
    scan->next = end;
    scan->damaged = scan->incomplete = true;
    return 1;
}

/* The stream ends here without its footer: what is known to be lost. 1: a job; 0: nothing is. */
static int abandon(struct scan *scan, struct job *job)
{
    const uint64_t first = scan->next;
    scan->in_stream = scan->id_known = false;
    scan->damaged = true;
    if (scan->has_index && scan->blocks <= first)
        return 0;
    if (scan->has_index)
        return lose(scan, job, scan->blocks, (scan->blocks - first) * scan->block_size);
    scan->open_ended = true;
    if (scan->has_broken && scan->broken.number >= first)
        return lose(scan, job, (uint64_t)scan->broken.number + 1,
                    (scan->broken.number - first) * scan->block_size + scan->broken.plain_size);
    return 0;
}

/* ---- in order -----------------------------------------------------------------------------------
 */

/* Whether what follows the record at the window's start says that its size is right. */
static bool followed(const struct scan *scan, const struct container_record *record, size_t size)
{
    struct scan after = *scan;
    const size_t length = CONTAINER_RECORD + record->payload_size;
    const uint8_t *const bytes = source_bytes(&scan->source) + length;
    struct container_record other;
    after.next = (uint64_t)record->number + 1;
    if (size == length)
        return true;
    return record_here(&after, bytes, size - length, &other) ||
           (size - length >= CONTAINER_INDEX && container_is_index(bytes));
}

static void count_record(struct scan *scan, const struct container_record *record)
{
    const struct container_entry entry = container_entry_of(record);
    uint8_t bytes[CONTAINER_ENTRY];
    container_put_entry(bytes, &entry);
    scan->records_hash = container_entries_hash(scan->records_hash, bytes);
    if (scan->sized && scan->plain % scan->block_size != 0 && !scan->incomplete) {
        scan->damaged = scan->incomplete = true;
        tool_warn(scan->tool, scan->input->name,
                  "block %" PRIu64 " is too short to have one after it", scan->next - 1);
    }
    scan->plain += record->plain_size;
}

/* The record at the window's start. 1: a job; 0: it is no use, go on behind its magic. */
static int take_record(struct scan *scan, struct job *job, const struct container_record *record)
{
    const size_t length = CONTAINER_RECORD + record->payload_size;
    if (!scan->id_known) {
        scan->id = record->id;
        scan->id_known = true;
    }
    if (scan->block_size < record->plain_size)
        scan->block_size = record->plain_size;
    if (record->number > scan->next)
        return lose(scan, job, record->number, (record->number - scan->next) * scan->block_size);
    const ssize_t got = fill(scan, length + CONTAINER_RECORD);
    if (got < 0)
        return (int)got;
    const uint8_t *const bytes = source_bytes(&scan->source);
    if ((size_t)got < length || (container_record_hash(bytes, bytes + CONTAINER_RECORD,
                                                       record->payload_size) != record->hash &&
                                 !followed(scan, record, (size_t)got))) {
        scan->has_broken = true;
        scan->broken = *record;
        return 0;
    }
    if (!job_room(job, record->plain_size, length)) {
        tool_error(scan->tool, scan->input->name, "%s", strerror(ENOMEM));
        return -ENOMEM;
    }
    job->record = *record;
    job->position = where(scan);
    memcpy(job->stored, bytes, length);
    count_record(scan, record);
    source_skip(&scan->source, length);
    scan->next++;
    return 1;
}

/* Passes over the index at the window's start. 1; 0: it is none. What it says is believed when it is
 * what was expected, or when it is whole; one that is too large for the window and not what was
 * expected is searched through for the footer, which says the same. */
static int take_index(struct scan *scan, size_t size)
{
    uint32_t blocks;
    if (size < CONTAINER_INDEX ||
        container_get_index(source_bytes(&scan->source), &blocks) != CONTAINER_OK)
        return 0;
    if (blocks != scan->next) {
        const uint64_t length = container_index_size(blocks) + CONTAINER_FOOTER;
        const ssize_t got = length <= scan->source.capacity ? fill(scan, (size_t)length) : 0;
        if (got < 0)
            return (int)got;
        if (!index_here(scan, source_bytes(&scan->source), (size_t)got))
            return 0;
    }
    scan->has_index = true;
    scan->blocks = blocks;
    scan->entries_hash = 0;
    source_skip(&scan->source, CONTAINER_INDEX);
    for (uint32_t i = 0; i < blocks; i++) {
        const ssize_t got = fill(scan, CONTAINER_ENTRY);
        if (got < CONTAINER_ENTRY) {
            if (got > 0)
                source_skip(&scan->source, (size_t)got);
            return got < 0 ? (int)got : 1;
        }
        scan->entries_hash =
            container_entries_hash(scan->entries_hash, source_bytes(&scan->source));
        source_skip(&scan->source, CONTAINER_ENTRY);
    }
    return 1;
}

/* Whether the footer, which ends at the window's start, agrees with all that came before it. */
static bool footer_agrees(const struct scan *scan, const struct container_footer *footer)
{
    if (!scan->has_index || scan->entries_hash != footer->entries_hash ||
        (scan->sized && footer->stream_size != where(scan) - scan->start))
        return false;
    return scan->incomplete ||
           (scan->plain == footer->plain_size && scan->records_hash == footer->entries_hash);
}

/* The footer at the window's start: first what it says is lost, then the end of the stream. */
static int take_footer(struct scan *scan, struct job *job, const struct container_footer *footer)
{
    if (footer->blocks > scan->next)
        return lose(scan, job, footer->blocks,
                    footer->plain_size - scan->next * footer->block_size);
    source_skip(&scan->source, CONTAINER_FOOTER);
    if (!footer_agrees(scan, footer)) {
        scan->damaged = true;
        tool_warn(scan->tool, scan->input->name,
                  "index and footer before byte %" PRIu64 " do not agree with the blocks",
                  where(scan));
    }
    scan->in_stream = scan->id_known = false;
    return 0;
}

/* What comes next in a stream. 1: a job; 0: none, look again; -ENOENT: nothing that is known. */
static int step(struct scan *scan, struct job *job)
{
    struct container_record record;
    struct container_footer footer;
    struct container_header header;
    const ssize_t got = fill(scan, CONTAINER_FOOTER);
    if (got < 0)
        return (int)got;
    const size_t size = (size_t)got;
    const uint8_t *const bytes = source_bytes(&scan->source);
    if (size == 0)
        return abandon(scan, job);
    if (record_here(scan, bytes, size, &record)) {
        const int taken = take_record(scan, job, &record);
        return taken == 0 ? -ENOENT : taken;
    }
    if (footer_here(scan, bytes, size, &footer))
        return take_footer(scan, job, &footer);
    if (!scan->has_index && container_is_index(bytes)) {
        const int taken = take_index(scan, size);
        return taken == 1 ? 0 : taken == 0 ? -ENOENT : taken;
    }
    /* behind an index there is nothing left to search for in this stream */
    return scan->has_index || header_here(bytes, size, &header) ? abandon(scan, job) : -ENOENT;
}

/* Outside a stream: the next header, or a record of a stream whose header is lost. */
static int enter(struct scan *scan)
{
    struct container_header header;
    struct container_record record;
    const ssize_t got = fill(scan, CONTAINER_FOOTER);
    if (got <= 0)
        return (int)got;
    scan->id_known = scan->sized = false;
    scan->next = 0;
    if (header_here(source_bytes(&scan->source), (size_t)got, &header)) {
        begin_stream(scan, header.block_size);
        scan->start = where(scan);
        scan->id = header.id;
        scan->id_known = true;
        source_skip(&scan->source, CONTAINER_HEADER);
        return 1;
    }
    if (record_here(scan, source_bytes(&scan->source), (size_t)got, &record)) {
        begin_stream(scan, 0);
        return 1;
    }
    return search(scan, 1);
}

int scan_next(struct scan *scan, struct job *job)
{
    for (;;) {
        if (!scan->in_stream) {
            const int entered = enter(scan);
            if (entered != 1)
                return entered;
            continue;
        }
        int result = step(scan, job);
        if (result == -ENOENT) {
            result = search(scan, 1);
            if (result >= 0)
                continue;
        }
        if (result != 0)
            return result;
    }
}

int scan_begin(struct scan *scan, struct tool *tool, const struct input *input, uint64_t begin,
               uint64_t end)
{
    *scan = (struct scan){.tool = tool, .input = input};
    int error = source_open(&scan->source, input->fd, WINDOW, input->start + begin, tool->stop);
    if (error == 0 && input->regular &&
        lseek(input->fd, (off_t)(input->start + begin), SEEK_SET) < 0)
        error = -errno;
    if (error != 0)
        tool_error(tool, input->name, "cannot read: %s", strerror(-error));
    if (end != UINT64_MAX)
        scan->source.limit = input->start + end;
    return error;
}

void scan_end(struct scan *scan)
{
    source_free(&scan->source);
}
