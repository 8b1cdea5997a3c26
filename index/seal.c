/* SPDX-License-Identifier: BSD-2-Clause
 *
 * seal.c - the four bytes that end every record of the index: a checksum over its table, key and
 * value. LMDB's pages have none, and a flipped bit in a record of packs or dead ranges would have
 * living bytes deleted. db.c puts and checks it; rebuild, copies and salvage move records with it.
 *
 * The low half of XXH3-64 of the value, seeded with that of the key, which is seeded with the table's
 * number: a record that strayed into another table, or under another's key, does not match either.
 */
#include <xxhash.h>

#include "bytes.h"
#include "record.h"

uint32_t index_seal(enum index_db db, const MDB_val *key, const void *value, size_t size)
{
    const uint64_t seed = XXH3_64bits_withSeed(key->mv_data, key->mv_size, (uint64_t)db + 1);
    return (uint32_t)XXH3_64bits_withSeed(value, size, seed);
}

void index_seal_put(uint8_t bytes[INDEX_SEAL], uint32_t seal)
{
    index_write_u32(&(struct index_writer){.at = bytes}, seal);
}

bool index_unseal(enum index_db db, const MDB_val *key, MDB_val *value)
{
    const size_t size = value->mv_size < INDEX_SEAL ? 0 : value->mv_size - INDEX_SEAL;
    const uint8_t *const bytes = value->mv_data;
    const bool intact = value->mv_size > INDEX_SEAL &&
                        index_load_u32(bytes + size) == index_seal(db, key, bytes, size);
    value->mv_size = intact ? size : 0;
    return intact;
}
