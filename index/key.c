/* SPDX-License-Identifier: BSD-2-Clause
 *
 * key.c - keys of the index. A number is its length in bytes (0..8) and its bytes from the highest
 * down, without leading zeros: shorter is smaller, so memcmp orders keys as their numbers, and the
 * usual small numbers take two to four bytes instead of eight.
 */
#include <assert.h>
#include <errno.h>
#include <string.h>

#include "bytes.h"
#include "record.h"

#define SLOT_BYTES 6u

static void append_number(struct index_key *key, uint64_t number)
{
    unsigned length = 0;
    while (length < 8 && number >> (8 * length) != 0)
        length++;
    key->bytes[key->size++] = (uint8_t)length;
    while (length > 0)
        key->bytes[key->size++] = (uint8_t)(number >> (8 * --length));
}

static uint64_t read_number(struct index_reader *r)
{
    const unsigned length = index_read_u8(r);
    uint64_t number = 0;
    if (length > 8) {
        r->bad = true;
        return 0;
    }
    for (unsigned i = 0; i < length; i++) {
        const uint8_t byte = index_read_u8(r);
        if (i == 0 && byte == 0)
            r->bad = true; /* not the shortest form: such a key would be out of order */
        number = number << 8 | byte;
    }
    return number;
}

static struct index_reader reader(const MDB_val *key)
{
    return index_reader(key->mv_data, key->mv_size);
}

void index_key_one(struct index_key *key, uint64_t first)
{
    key->size = 0;
    append_number(key, first);
}

void index_key_two(struct index_key *key, uint64_t first, uint64_t second)
{
    index_key_one(key, first);
    append_number(key, second);
}

void index_key_text(struct index_key *key, const char *text)
{
    key->size = strlen(text);
    assert(key->size <= sizeof key->bytes);
    memcpy(key->bytes, text, key->size);
}

void index_key_dirent(struct index_key *key, uint64_t dir, uint64_t slot)
{
    index_key_one(key, dir);
    for (unsigned i = SLOT_BYTES; i-- > 0;)
        key->bytes[key->size++] = (uint8_t)(slot >> (8 * i));
}

void index_key_xattr(struct index_key *key, uint64_t ino, const char *name)
{
    index_key_one(key, ino);
    const size_t length = strlen(name);
    assert(length <= INDEX_NAME_MAX);
    memcpy(key->bytes + key->size, name, length);
    key->size += length;
}

void index_key_hash(struct index_key *key, struct index_hash hash)
{
    for (unsigned i = 0; i < 8; i++)
        key->bytes[i] = (uint8_t)(hash.low >> (56 - 8 * i));
    key->size = 8;
}

int index_key_get_one(const MDB_val *key, uint64_t *first)
{
    struct index_reader r = reader(key);
    *first = read_number(&r);
    return index_reader_done(&r) ? 0 : -EUCLEAN;
}

int index_key_get_two(const MDB_val *key, uint64_t *first, uint64_t *second)
{
    struct index_reader r = reader(key);
    *first = read_number(&r);
    *second = read_number(&r);
    return index_reader_done(&r) ? 0 : -EUCLEAN;
}

int index_key_get_dirent(const MDB_val *key, uint64_t *dir, uint64_t *slot)
{
    struct index_reader r = reader(key);
    *dir = read_number(&r);
    *slot = 0;
    for (unsigned i = 0; i < SLOT_BYTES; i++)
        *slot = *slot << 8 | index_read_u8(&r);
    return index_reader_done(&r) ? 0 : -EUCLEAN;
}

int index_key_get_xattr(const MDB_val *key, uint64_t *ino, char *name)
{
    struct index_reader r = reader(key);
    *ino = read_number(&r);
    const size_t length = index_reader_left(&r);
    if (r.bad || length == 0 || length > INDEX_NAME_MAX || memchr(r.at, 0, length) != NULL)
        return -EUCLEAN;
    memcpy(name, r.at, length);
    name[length] = '\0';
    return 0;
}

int index_key_get_hash(const MDB_val *key, uint64_t *low)
{
    struct index_reader r = reader(key);
    *low = 0;
    for (unsigned i = 0; i < 8; i++)
        *low = *low << 8 | index_read_u8(&r);
    return index_reader_done(&r) ? 0 : -EUCLEAN;
}
