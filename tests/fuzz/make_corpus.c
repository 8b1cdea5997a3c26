/* SPDX-License-Identifier: BSD-2-Clause
 *
 * make_corpus.c - writes the inputs that every corpus begins with: good ones, made by the code that
 * writes each format, and hostile ones, whose values are at and beyond the limits while every
 * checksum is right. What libFuzzer finds from there on is added to tests/fuzz/corpus by hand.
 *
 * usage: make_corpus DIRECTORY
 */
#include <linux/posix_acl.h>
#include <linux/posix_acl_xattr.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "codec/codec.h"
#include "codec/model_file.h"
#include "index/record.h"
#include "tools/container.h"

enum { ROOM = 1 << 18 };

static const char *top;

struct seed {
    uint8_t bytes[ROOM];
    size_t size;
};

static void add(struct seed *seed, const void *bytes, size_t size)
{
    if (size > ROOM - seed->size)
        abort();
    memcpy(seed->bytes + seed->size, bytes, size);
    seed->size += size;
}

static void add_u8(struct seed *seed, unsigned value)
{
    const uint8_t byte = (uint8_t)value;

    add(seed, &byte, 1);
}

static void add_u16(struct seed *seed, unsigned value)
{
    add_u8(seed, value);
    add_u8(seed, value >> 8);
}

static void save(const struct seed *seed, const char *target, const char *name)
{
    char path[4096];
    FILE *file;

    snprintf(path, sizeof path, "%s/%s", top, target);
    (void)mkdir(path, 0777);
    snprintf(path, sizeof path, "%s/%s/%s", top, target, name);
    file = fopen(path, "wb");
    if (file == NULL || fwrite(seed->bytes, 1, seed->size, file) != seed->size ||
        fclose(file) != 0) {
        perror(path);
        exit(1);
    }
}

static void text_seed(const char *target, unsigned head, const char *name, const char *text)
{
    static struct seed seed;

    seed.size = 0;
    if (head < 256)
        add_u8(&seed, head);
    add(&seed, text, strlen(text));
    save(&seed, target, name);
}

enum { NO_HEAD = 256 };

/* ---- index records ---------------------------------------------------------------------------- */

static void record_seed(unsigned kind, const char *name, const struct index_key *key,
                        const struct index_record *record)
{
    static struct seed seed;

    seed.size = 0;
    add_u8(&seed, kind);
    add_u8(&seed, (unsigned)key->size);
    add(&seed, key->bytes, key->size);
    add(&seed, record->bytes, record->size);
    save(&seed, "record", name);
}

static void inodes(void)
{
    static char target[INDEX_SYMLINK_MAX];
    struct index_key key;
    struct index_record record;
    struct index_inode inode = {.ino = 5,
                                .parent = 1,
                                .size = 100000,
                                .stored = 5000,
                                .mode = S_IFREG | 0644,
                                .uid = 1000,
                                .gid = 1000,
                                .nlink = 1,
                                .generation = 1,
                                .mtime = {1700000000, 5},
                                .ctime = {1700000001, 999999999}};

    index_key_one(&key, inode.ino);
    index_record_inode(&record, &inode);
    record_seed(0, "inode", &key, &record);
    inode.flags = INDEX_INODE_INLINE;
    inode.inline_data = "inline content";
    inode.inline_size = 14;
    index_record_inode(&record, &inode);
    record_seed(0, "inode-inline", &key, &record);
    memset(target, 'x', sizeof target);
    inode.mode = S_IFLNK | 0777;
    inode.inline_data = target;
    inode.inline_size = sizeof target;
    index_record_inode(&record, &inode);
    record_seed(0, "inode-longest-link", &key, &record);
    record.bytes[record.size++] = 'x'; /* one byte beyond the limit */
    record_seed(0, "hostile-inode-link-too-long", &key, &record);
    inode.mode = S_IFREG;
    inode.inline_size = INDEX_INLINE_MAX;
    index_record_inode(&record, &inode);
    record.bytes[record.size++] = 'x';
    record_seed(0, "hostile-inode-inline-too-long", &key, &record);
    inode = (struct index_inode){.ino = UINT64_MAX,
                                 .parent = UINT64_MAX,
                                 .size = UINT64_MAX,
                                 .stored = UINT64_MAX,
                                 .mode = UINT16_MAX,
                                 .uid = UINT32_MAX,
                                 .gid = UINT32_MAX,
                                 .nlink = UINT32_MAX,
                                 .rdev = UINT32_MAX,
                                 .generation = UINT32_MAX};
    index_key_one(&key, inode.ino);
    index_record_inode(&record, &inode);
    record_seed(0, "hostile-inode-all-ones", &key, &record);
    inode.size = INT64_MAX;
    index_record_inode(&record, &inode);
    record_seed(0, "inode-all-largest", &key, &record);
}

static void names(void)
{
    static const char *const hostile[] = {".", "..", "a/b", "/", "../../etc/passwd"};
    struct index_key key;
    struct index_record record;
    struct index_dirent entry = {.ino = 7, .type = 8, .cookie = 16};
    char name[40];

    index_key_dirent(&key, 1, 0x123456789ab0);
    strcpy(entry.name, "name\n\x1b[31m\xff");
    entry.name_size = (uint8_t)strlen(entry.name);
    index_record_dirent(&record, &entry);
    record_seed(1, "dirent", &key, &record);
    memset(entry.name, 'n', INDEX_NAME_MAX);
    entry.name_size = INDEX_NAME_MAX;
    index_record_dirent(&record, &entry);
    record_seed(1, "dirent-longest", &key, &record);
    record.bytes[record.size++] = 'n';
    record_seed(1, "hostile-dirent-too-long", &key, &record);
    for (unsigned i = 0; i < sizeof hostile / sizeof *hostile; i++) {
        strcpy(entry.name, hostile[i]);
        entry.name_size = (uint8_t)strlen(entry.name);
        index_record_dirent(&record, &entry);
        snprintf(name, sizeof name, "hostile-dirent-%u", i);
        record_seed(1, name, &key, &record);
    }
    memcpy(entry.name, "a\0b", 3);
    entry.name_size = 3;
    index_record_dirent(&record, &entry);
    record_seed(1, "hostile-dirent-nul", &key, &record);
    index_key_xattr(&key, 9, "user.colour");
    record.size = 0;
    record_seed(7, "xattr-key", &key, &record);
}

static void blocks(void)
{
    struct index_key key;
    struct index_record record;
    struct index_extent extent = {.number = 3, .block = 9, .offset = 0, .length = 131072};
    struct index_block block = {.id = 9,
                                .at = {.pack = 2, .payload_size = 4000, .offset = 64},
                                .plain_size = 131072,
                                .references = 2,
                                .live = 131072,
                                .codec = SEP_CODEC_ZSTD,
                                .level = 3,
                                .hash = {1, 2}};

    index_key_two(&key, 5, 3);
    index_record_extent(&record, &extent);
    record_seed(2, "extent", &key, &record);
    extent.offset = extent.length = UINT32_MAX;
    index_record_extent(&record, &extent);
    record_seed(2, "hostile-extent-overflow", &key, &record);
    extent.offset = extent.length = 0;
    index_record_extent(&record, &extent);
    record_seed(2, "hostile-extent-empty", &key, &record);
    index_key_one(&key, 9);
    index_record_block(&record, &block);
    record_seed(3, "block", &key, &record);
    block.model = 0x0123456789abcdef;
    index_record_block(&record, &block);
    record_seed(3, "block-model", &key, &record);
    block.at.offset = UINT64_MAX - 7;
    block.plain_size = block.at.payload_size = block.live = block.references = UINT32_MAX;
    index_record_block(&record, &block);
    record_seed(3, "hostile-block-all-ones", &key, &record);
}

static void small_records(void)
{
    struct index_key key;
    struct index_record record;
    struct index_state state = {.next_ino = 5, .next_block = 6, .next_pack = 2, .clean = true};

    index_key_one(&key, 9);
    index_record_hot(&record, &(struct index_hot){.block = 9, .ino = 5, .stored_at = -1});
    record_seed(4, "hot", &key, &record);
    index_record_pending(&record, &(struct index_pending){.block = 9, .error = 5, .reason = "why"});
    record_seed(5, "pending", &key, &record);
    index_record_pack(&record, &(struct index_pack){.id = 9, .size = 64, .sealed = true});
    record_seed(6, "pack", &key, &record);
    index_record_pack(&record, &(struct index_pack){.size = UINT64_MAX, .live = UINT64_MAX});
    record_seed(6, "hostile-pack-all-ones", &key, &record);
    index_record_number(&record, UINT64_MAX);
    record_seed(7, "number", &key, &record);
    index_record_state(&record, &state);
    record_seed(7, "state", &key, &record);
    memset(record.bytes, 0xff, 30);
    record.bytes[0] = 1;
    record.size = 30;
    record_seed(7, "hostile-varint-endless", &key, &record);
    key.size = 10;
    memset(key.bytes, 0xff, key.size);
    record_seed(2, "hostile-key", &key, &record);
}

/* ---- packs ------------------------------------------------------------------------------------- */

static void packs(void)
{
    static struct seed seed;
    uint8_t header[INDEX_PACK_HEADER], bytes[INDEX_RECORD_HEADER], uuid[16] = {1, 2, 3};
    static const uint8_t payload[100] = "payload";
    struct index_block block = {.id = 9,
                                .at = {.payload_size = sizeof payload},
                                .plain_size = 100,
                                .owner_ino = 5,
                                .hash = {1, 2}};

    index_pack_header_put(header, 7, INDEX_COLD, uuid);
    seed.size = 0;
    add_u8(&seed, 0x80 | 0);
    add(&seed, header, sizeof header);
    save(&seed, "pack", "header");
    index_record_header_put(bytes, &block, payload);
    seed.size = 0;
    add_u8(&seed, 1);
    add(&seed, bytes, sizeof bytes);
    add(&seed, payload, sizeof payload);
    save(&seed, "pack", "record");
    block.at.payload_size = UINT32_MAX;
    seed.size = 0;
    add_u8(&seed, 1);
    memset(bytes + 12, 0xff, 4);
    add(&seed, bytes, sizeof bytes);
    save(&seed, "pack", "hostile-payload-size");
    text_seed("pack", 2, "name", "0000002a.pack");
    text_seed("pack", 2, "hostile-name-path", "../../../a.pk");
    text_seed("pack", 2, "hostile-name-sign", "+000002a.pack");
    text_seed("pack", 2, "hostile-name-case", "0000002A.pack");
}

/* ---- .sep -------------------------------------------------------------------------------------- */

static void container_seed(unsigned head, const char *name, const void *bytes, size_t size)
{
    static struct seed seed;

    seed.size = 0;
    add_u8(&seed, head);
    add(&seed, bytes, size);
    save(&seed, "container", name);
}

static void models(void)
{
    static struct seed seed;
    struct sep_model model = {.kind = SEP_MODEL_PUBLIC, .name = "seed"};
    char text[] = "what it was trained on";
    uint8_t *file;
    size_t size;

    model.text = text;
    model.net = sep_net_new(2, SEP_NET_ROWS_LOG_MIN);
    model.state[0] = sep_primed_new(2);
    if (model.net == NULL || model.state[0] == NULL)
        abort();
    model.net->shift = 4;
    model.state_count = 1;
    for (unsigned i = 0; i < 2; i++) {
        model.state[0]->slots[i].line = (uint16_t)i;
        model.state[0]->slots[i].state = 1;
    }
    if (sep_model_store(&model, &file, &size) != SEP_OK)
        abort();
    seed.size = 0;
    add_u8(&seed, 2);
    add(&seed, file, size);
    save(&seed, "model", "file");
    seed.bytes[1 + 24 + 8 + 8 + 4] = 0xff; /* sections */
    save(&seed, "model", "hostile-sections");
    memcpy(seed.bytes + 1, file, size);
    memset(seed.bytes + 1 + 112 + 8, 0xff, 16); /* sizes of the first */
    save(&seed, "model", "hostile-section-sizes");
    sep_release(file);
    sep_primed_free(model.state[0]);
    sep_net_free(model.net);
    for (unsigned parts = 0; parts < 16; parts++) {
        char name[32];

        seed.size = 0;
        add_u8(&seed, 1);
        add_u8(&seed, parts);
        if ((parts & 2) == 0 || (parts & 4) != 0)
            add_u8(&seed, parts % 3);
        add_u8(&seed, 6);
        for (unsigned i = 0; i < 6; i++) {
            add_u8(&seed, i | (parts & 2 ? 0x80 : 0));
            add_u16(&seed, 7 * i);
            add_u8(&seed, i % 2 ? 0x80 + i : i);
        }
        add(&seed, "some text, some more text, and the same text again", 50);
        snprintf(name, sizeof name, "made-%u", parts);
        save(&seed, "model", name);
    }
}

static void containers(void)
{
    uint8_t bytes[CONTAINER_FOOTER + 8] = {0}, payload[100] = {0};
    struct container_record record = {.plain_size = 100, .payload_size = 100, .number = 1};
    struct container_entry entry = {.payload_size = 50, .codec = SEP_CODEC_LZ4};
    struct container_footer footer = {.block_size = 16384, .blocks = 2, .plain_size = 20000};

    container_put_header(bytes, &(struct container_header){.block_size = 16384, .id = 7});
    container_seed(0, "header", bytes, CONTAINER_HEADER);
    container_put_header(bytes, &(struct container_header){.block_size = UINT32_MAX});
    container_seed(0, "hostile-header-block-size", bytes, CONTAINER_HEADER);
    container_put_record(bytes, &record, payload);
    container_seed(1, "record", bytes, CONTAINER_RECORD);
    memset(bytes + 16, 0xff, 8);
    container_seed(0x81, "hostile-record-sizes", bytes, CONTAINER_RECORD);
    container_put_entry(bytes, &entry);
    memcpy(bytes + CONTAINER_ENTRY, "\x64\0\0", 3);
    container_seed(2, "entry", bytes, CONTAINER_ENTRY + 3);
    footer.stream_size = CONTAINER_STREAM_MIN + 2 * (CONTAINER_RECORD + CONTAINER_ENTRY) + 200;
    container_put_footer(bytes, &footer);
    container_seed(3, "footer", bytes, CONTAINER_FOOTER);
    footer.blocks = UINT32_MAX;
    footer.plain_size = (uint64_t)UINT32_MAX * SEP_BLOCK_SIZE_MAX;
    footer.block_size = SEP_BLOCK_SIZE_MAX;
    footer.stream_size = UINT64_MAX;
    container_put_footer(bytes, &footer);
    container_seed(3, "hostile-footer-largest", bytes, CONTAINER_FOOTER);
    container_put_index(bytes, UINT32_MAX);
    container_seed(4, "index", bytes, CONTAINER_INDEX);
}

/* A stream of one raw block of PLAIN bytes; the footer claims MORE blocks and bytes. */
static void stream(struct seed *seed, uint32_t plain, uint32_t more)
{
    static uint8_t data[16384];
    uint8_t bytes[CONTAINER_FOOTER];
    struct container_record record = {.plain_size = plain, .payload_size = plain};
    struct container_footer footer = {.block_size = 16384, .blocks = 1 + more};
    struct container_entry entry;
    const size_t start = seed->size;

    for (uint32_t i = 0; i < plain; i++)
        data[i] = (uint8_t)(i % 7);
    record.plain_hash = container_hash(data, plain);
    record.id = footer.id = container_id(record.plain_hash);
    container_put_header(bytes, &(struct container_header){.block_size = 16384, .id = record.id});
    add(seed, bytes, CONTAINER_HEADER);
    container_put_record(bytes, &record, data);
    add(seed, bytes, CONTAINER_RECORD);
    add(seed, data, plain);
    container_put_index(bytes, footer.blocks);
    add(seed, bytes, CONTAINER_INDEX);
    entry = container_entry_of(&record);
    container_put_entry(bytes, &entry);
    add(seed, bytes, CONTAINER_ENTRY);
    footer.entries_hash = container_entries_hash(0, bytes);
    footer.plain_size = plain + (uint64_t)more * 16384;
    footer.stream_size = seed->size - start + CONTAINER_FOOTER +
                         (uint64_t)more * (CONTAINER_RECORD + CONTAINER_ENTRY + 1);
    container_put_footer(bytes, &footer);
    add(seed, bytes, CONTAINER_FOOTER);
}

static void sep_files(void)
{
    static struct seed seed;

    seed.size = 0;
    add_u8(&seed, 0);
    stream(&seed, 300, 0);
    save(&seed, "sep", "stream");
    stream(&seed, 5, 0);
    save(&seed, "sep", "two-streams");
    seed.bytes[30] ^= 1;
    seed.bytes[0] = 2;
    save(&seed, "sep", "damaged-record");
    seed.size = 0;
    add_u8(&seed, 0);
    stream(&seed, 300, 1000000);
    save(&seed, "sep", "hostile-footer-claims-more");
    seed.size = 0;
    add_u8(&seed, 2);
    add(&seed, "garbage before", 14);
    stream(&seed, 300, 0);
    add(&seed, "and after", 9);
    save(&seed, "sep", "garbage-around");
    for (unsigned blocks = 0; blocks < 4; blocks++) {
        char name[32];

        seed.size = 0;
        add_u8(&seed, 1);
        add_u8(&seed, blocks);
        for (unsigned i = 0; i <= blocks; i++) {
            add_u8(&seed, i % 3);
            if (i == blocks)
                add_u16(&seed, 777);
            add_u8(&seed, i);
        }
        add_u8(&seed, 2);
        add(&seed, "\x40\x01\0\0\x05\x80\x10\0\0\0\x02\x01", 12);
        snprintf(name, sizeof name, "made-of-%u", blocks + 1);
        save(&seed, "sep", name);
    }
}

/* ---- payloads ---------------------------------------------------------------------------------- */

static void payloads(void)
{
    static const char text[] = "2024-05-01T10:00:00Z sensor=17 value=20.5\n"
                               "2024-05-01T10:00:01Z sensor=17 value=20.7\n"
                               "2024-05-01T10:00:02Z sensor=18 value=19.9\n"
                               "2024-05-01T10:00:03Z sensor=17 value=20.6\n";
    static struct seed seed;
    static uint8_t binary[640];
    uint8_t payload[2048];
    struct sep_context *const context = sep_context_new();
    char name[40];

    for (unsigned i = 0; i < sizeof binary; i++) /* records of 16 bytes with a counter */
        binary[i] = (uint8_t)(i % 16 == 0 ? i / 16 : i % 16 == 5 ? i * i : i % 16);
    for (unsigned codec = 0; codec < SEP_CODEC_COUNT && context != NULL; codec++) {
        for (unsigned kind = 0; kind < 2; kind++) {
            const void *const plain = kind == 0 ? (const void *)text : binary;
            const size_t size = kind == 0 ? sizeof text - 1 : sizeof binary;
            struct sep_method used;
            size_t payload_size;

            if (sep_encode(context, (struct sep_method){(uint8_t)codec, 0}, plain, size, payload,
                           sizeof payload, &payload_size, &used) != SEP_OK)
                abort();
            seed.size = 0;
            add_u8(&seed, used.codec);
            add_u16(&seed, (unsigned)size - 1);
            add(&seed, payload, payload_size);
            snprintf(name, sizeof name, "%s-%s", sep_codec_name(codec),
                     kind == 0 ? "text" : "records");
            save(&seed, "decode", name);
            add_u16(&seed, 0xffff); /* bytes behind the end */
            snprintf(name, sizeof name, "hostile-%s-%u-longer", sep_codec_name(codec), kind);
            save(&seed, "decode", name);
            seed.size = 0;
            add_u8(&seed, 0x80 | codec);
            add_u8(&seed, 0);
            add(&seed, plain, size);
            snprintf(name, sizeof name, "round-trip-%s-%u", sep_codec_name(codec), kind);
            save(&seed, "decode", name);
        }
        seed.size = 0;
        add_u8(&seed, codec);
        add_u16(&seed, 2000);
        for (unsigned i = 0; i < 64; i++)
            add_u8(&seed, 0xff);
        snprintf(name, sizeof name, "hostile-%s-all-ones", sep_codec_name(codec));
        save(&seed, "decode", name);
    }
    sep_context_free(context);
}

/* ---- access control lists ----------------------------------------------------------------------- */

static void add_entry(struct seed *seed, unsigned tag, unsigned permissions, uint32_t id)
{
    add_u16(seed, tag);
    add_u16(seed, permissions);
    add_u16(seed, id & 0xffff);
    add_u16(seed, id >> 16);
}

static void lists(void)
{
    static struct seed seed;

    for (unsigned kind = 0; kind < 5; kind++) {
        static const char *const names[] = {"minimal", "named", "hostile-no-mask",
                                            "hostile-unsorted", "hostile-version"};

        seed.size = 0;
        add_u16(&seed, 0755);
        add_u16(&seed, 022);
        add_u8(&seed, kind % 2);
        add_u16(&seed, kind == 4 ? 3 : POSIX_ACL_XATTR_VERSION);
        add_u16(&seed, 0);
        add_entry(&seed, ACL_USER_OBJ, 7, (uint32_t)ACL_UNDEFINED_ID);
        if (kind == 3)
            add_entry(&seed, ACL_USER, 6, 2000);
        if (kind > 0)
            add_entry(&seed, ACL_USER, 6, 1000);
        add_entry(&seed, ACL_GROUP_OBJ, 5, (uint32_t)ACL_UNDEFINED_ID);
        if (kind == 1 || kind == 3)
            add_entry(&seed, ACL_MASK, 4, (uint32_t)ACL_UNDEFINED_ID);
        add_entry(&seed, ACL_OTHER, 1, (uint32_t)ACL_UNDEFINED_ID);
        save(&seed, "acl", names[kind]);
    }
}

/* ---- text ---------------------------------------------------------------------------------------- */

static void confs(void)
{
    static const char good[] = "# A store\nformat=0\nuuid=00112233-4455-6677-8899-aabbccddeeff\n"
                               "block_size=131072\nfuzz = before\n\nother=1\n";
    static struct seed seed;

    seed.size = 0;
    add(&seed, good, sizeof good); /* with its NUL: a value to set follows */
    add(&seed, "new value", 9);
    save(&seed, "conf", "set");
    add(&seed, "\nformat=0", 9);
    save(&seed, "conf", "hostile-value-with-a-line");
    text_seed("conf", NO_HEAD, "hostile-newer", "format=18446744073709551615\nwhatever");
    text_seed("conf", NO_HEAD, "hostile-block-size",
              "format=0\nuuid=00112233-4455-6677-8899-aabbccddeeff\nblock_size=8388608\n");
    text_seed("conf", NO_HEAD, "hostile-twice", "format=0\nformat=1\n");
    text_seed("conf", NO_HEAD, "hostile-uuid",
              "format=0\nblock_size=16384\nuuid=../../../../etc\n");
}

static void texts(void)
{
    text_seed(
        "text", 0, "options",
        "ro,allow_other,cold_after=2h,hot=lz4,cold=zstd:19,cache=1.5G,threads=2,nosuid,x-a=b");
    text_seed("text", 0, "hostile-options-fixed", "fsname=/etc,subtype=x");
    text_seed("text", 0, "hostile-options-number", "cache=99999999999999999999T");
    text_seed("text", 1, "policy", "cold=never,hot=zstd:9");
    text_seed("text", 1, "hostile-policy", "hot=sep,cold=now");
    text_seed("text", 2, "size", "1.5G");
    text_seed("text", 2, "time", "30d");
    text_seed("text", 2, "hostile-size", "18446744073709551615.999999K");
    text_seed("text", 3, "percent", "a b%=\x1b[31m\xff");
    text_seed("text", 3, "hostile-percent", "%%%zz%0%00%");
    text_seed("text", 4, "method", "zstd:19");
    text_seed("control", NO_HEAD, "all-verbs",
              "hello\nstats\nstatus\npause\nresume\nsync\ncompact all=1 ino=1\nwait ticket=1\n");
    text_seed("control", NO_HEAD, "hostile-arguments",
              "compact ino=99999999999999999999\ncompact method=zstd:99 all=2\nwait ticket=-1\n"
              "hello x=1\nwait a=%zz\ncompact =\nnothing\n\n  \n");
    text_seed("control", NO_HEAD, "hostile-escapes",
              "compact \x1b[2J=1\ncompact method=\x1b[31m%1b\n");
    text_seed("client", NO_HEAD, "fields", "pid=12\nstore=/a%20b\nok\n");
    text_seed("client", NO_HEAD, "error", "a=1\nerror 5 it broke\n");
    text_seed("client", NO_HEAD, "hostile-error", "error -99999999999999999999 \x1b[31m\n");
    text_seed("client", NO_HEAD, "hostile-field", "=%00\nx\nok\n");
}

int main(int argc, char **argv)
{
    if (argc != 2) {
        fprintf(stderr, "usage: %s DIRECTORY\n", argv[0]);
        return 2;
    }
    top = argv[1];
    (void)mkdir(top, 0777);
    inodes();
    names();
    blocks();
    small_records();
    packs();
    models();
    containers();
    sep_files();
    payloads();
    lists();
    confs();
    texts();
    return 0;
}
