/* SPDX-License-Identifier: BSD-2-Clause
 *
 * test_check.c - each way in which a store can be broken, one at a time: the check names it (and
 * nothing else), a check alone changes nothing, a repair leaves a store that is clean and whose
 * other data is intact, and what cannot be repaired is reported as lost.
 */
#include <dirent.h>
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "fixture.h"

struct scene {
    struct fixture fixture;
    struct tree tree;
    struct index_txn *txn; /* while something is being broken */
};

/* ---- raw access ---------------------------------------------------------------------------- */

static void put(struct scene *s, enum index_db db, const struct index_key *key,
                const struct index_record *record)
{
    assert_int_equal(index_db_put_record(s->txn, db, key, record), 0);
}

/* Replaces a record by bytes that mean nothing: version 0xff. */
static void spoil(struct scene *s, enum index_db db, const struct index_key *key)
{
    MDB_val value;
    assert_int_equal(index_db_get(s->txn, db, key, &value), 0);
    assert_int_equal(index_db_put(s->txn, db, key, "\xff\xff", 2), 0);
}

static struct index_inode inode_of(struct scene *s, uint64_t ino)
{
    struct index_inode inode;
    assert_int_equal(index_inode_get(s->txn, ino, &inode), 0);
    return inode;
}

/* Past index_inode_put, which would keep the counters right. */
static void put_inode(struct scene *s, const struct index_inode *inode)
{
    struct index_record record;
    struct index_key key;
    index_key_one(&key, inode->ino);
    index_record_inode(&record, inode);
    put(s, INDEX_DB_INODE, &key, &record);
}

static struct index_block block_at(struct scene *s, uint64_t ino, uint64_t number)
{
    struct index_extent extent;
    struct index_block block;
    assert_int_equal(index_extent_get(s->txn, ino, number, &extent), 0);
    assert_int_equal(index_block_get(s->txn, extent.block, &block), 0);
    return block;
}

static struct index_dirent entry_of(struct scene *s, uint64_t dir, const char *name)
{
    struct index_dirent entry;
    assert_int_equal(index_dirent_lookup(s->txn, dir, name, &entry), 0);
    return entry;
}

static void put_entry(struct scene *s, uint64_t dir, const struct index_dirent *entry)
{
    struct index_record record;
    struct index_key key;
    index_key_dirent(&key, dir, entry->cookie);
    index_record_dirent(&record, entry);
    put(s, INDEX_DB_DIRENT, &key, &record);
}

static void put_extent(struct scene *s, uint64_t ino, const struct index_extent *extent)
{
    struct index_record record;
    struct index_key key;
    index_key_two(&key, ino, extent->number);
    index_record_extent(&record, extent);
    put(s, INDEX_DB_EXTENT, &key, &record);
}

static void delete_key(struct scene *s, enum index_db db, uint64_t number)
{
    struct index_key key;
    index_key_one(&key, number);
    assert_int_equal(index_db_delete(s->txn, db, &key), 0);
}

static void put_number(struct scene *s, enum index_db db, uint64_t first, uint64_t number)
{
    struct index_record record;
    struct index_key key;
    index_key_one(&key, first);
    index_record_number(&record, number);
    put(s, db, &key, &record);
}

static void put_dead(struct scene *s, uint32_t pack, uint64_t offset, uint64_t size)
{
    struct index_record record;
    struct index_key key;
    index_key_two(&key, pack, offset);
    index_record_number(&record, size);
    put(s, INDEX_DB_FREE, &key, &record);
}

static struct index_pack pack_of(struct scene *s, uint32_t id)
{
    struct index_key key;
    MDB_val value;
    struct index_pack pack;
    index_key_one(&key, id);
    const MDB_val k = {key.size, key.bytes};
    assert_int_equal(index_db_get(s->txn, INDEX_DB_PACK, &key, &value), 0);
    assert_int_equal(index_record_get_pack(&k, &value, &pack), 0);
    return pack;
}

static void put_pack(struct scene *s, const struct index_pack *pack)
{
    struct index_record record;
    struct index_key key;
    index_key_one(&key, pack->id);
    index_record_pack(&record, pack);
    put(s, INDEX_DB_PACK, &key, &record);
}

/* ---- ways to break a store ----------------------------------------------------------------- */

static void spoil_inode(struct scene *s)
{
    struct index_key key;
    index_key_one(&key, s->tree.one);
    spoil(s, INDEX_DB_INODE, &key);
}

static void spoil_small(struct scene *s)
{
    struct index_key key;
    index_key_one(&key, s->tree.small);
    spoil(s, INDEX_DB_INODE, &key);
}

static void spoil_directory(struct scene *s)
{
    struct index_key key;
    index_key_one(&key, s->tree.a);
    spoil(s, INDEX_DB_INODE, &key);
}

static void spoil_root(struct scene *s)
{
    delete_key(s, INDEX_DB_INODE, INDEX_ROOT_INO);
}

static void spoil_dirent(struct scene *s)
{
    struct index_key key;
    index_key_dirent(&key, s->tree.a, entry_of(s, s->tree.a, "sparse").cookie);
    spoil(s, INDEX_DB_DIRENT, &key);
}

static void spoil_xattr(struct scene *s)
{
    struct index_key key;
    index_key_xattr(&key, s->tree.one, "user.x");
    spoil(s, INDEX_DB_XATTR, &key);
}

static void spoil_extent(struct scene *s)
{
    struct index_key key;
    index_key_two(&key, s->tree.one, 2);
    spoil(s, INDEX_DB_EXTENT, &key);
}

static void spoil_block(struct scene *s)
{
    struct index_key key;
    index_key_one(&key, block_at(s, s->tree.one, 2).id);
    spoil(s, INDEX_DB_BLOCK, &key);
}

static void spoil_hash(struct scene *s)
{
    struct index_key key;
    index_key_hash(&key, block_at(s, s->tree.one, 0).hash);
    spoil(s, INDEX_DB_HASH, &key);
}

static void spoil_hot(struct scene *s)
{
    struct index_key key;
    index_key_one(&key, block_at(s, s->tree.one, 0).id);
    spoil(s, INDEX_DB_HOT, &key);
}

static void spoil_pending(struct scene *s)
{
    struct index_key key;
    index_key_one(&key, block_at(s, s->tree.sparse, 5).id);
    spoil(s, INDEX_DB_PENDING, &key);
}

static void spoil_pack(struct scene *s)
{
    struct index_key key;
    index_key_one(&key, block_at(s, s->tree.one, 0).at.pack);
    spoil(s, INDEX_DB_PACK, &key);
}

static void dangling_name(struct scene *s)
{
    struct index_dirent entry = entry_of(s, s->tree.a, "sparse");
    assert_int_equal(index_dirent_add(s->txn, s->tree.b, "ghost", 999, DT_REG), 0);
    assert_int_equal(entry.ino, s->tree.sparse);
}

static void name_in_file(struct scene *s)
{
    assert_int_equal(index_dirent_add(s->txn, s->tree.one, "odd", s->tree.small, DT_REG), 0);
}

static void wrong_type(struct scene *s)
{
    struct index_dirent entry = entry_of(s, s->tree.a, "one");
    entry.type = DT_FIFO;
    put_entry(s, s->tree.a, &entry);
}

static void misplaced_name(struct scene *s)
{
    struct index_dirent entry = entry_of(s, s->tree.a, "one");
    struct index_key key;
    index_key_dirent(&key, s->tree.a, entry.cookie);
    assert_int_equal(index_db_delete(s->txn, INDEX_DB_DIRENT, &key), 0);
    entry.cookie = entry.cookie > 4096 ? entry.cookie - 4096 : entry.cookie + 4096;
    put_entry(s, s->tree.a, &entry);
}

static void misplaced_name_ahead(struct scene *s)
{
    struct index_dirent entry = entry_of(s, s->tree.a, "b");
    struct index_key key;
    index_key_dirent(&key, s->tree.a, entry.cookie);
    assert_int_equal(index_db_delete(s->txn, INDEX_DB_DIRENT, &key), 0);
    entry.cookie = (UINT64_C(1) << 48) - 1;
    put_entry(s, s->tree.a, &entry);
}

static void duplicate_name(struct scene *s)
{
    struct index_dirent entry = entry_of(s, s->tree.a, "one");
    entry.cookie = (UINT64_C(1) << 48) - 1;
    put_entry(s, s->tree.a, &entry);
}

static void second_directory_name(struct scene *s)
{
    assert_int_equal(index_dirent_add(s->txn, s->tree.b, "again", s->tree.b, DT_DIR), 0);
}

static void wrong_parent(struct scene *s)
{
    struct index_inode inode = inode_of(s, s->tree.b);
    inode.parent = INDEX_ROOT_INO;
    put_inode(s, &inode);
}

static void wrong_links(struct scene *s)
{
    struct index_inode inode = inode_of(s, s->tree.one);
    inode.nlink = 7;
    put_inode(s, &inode);
}

static void wrong_directory_links(struct scene *s)
{
    struct index_inode inode = inode_of(s, s->tree.a);
    inode.nlink = 2;
    put_inode(s, &inode);
}

/* A mark for removal on a file that has names: it must not be removed at the next mount. */
static void orphan_with_names(struct scene *s)
{
    struct index_inode inode = inode_of(s, s->tree.one);
    inode.nlink = 0;
    put_inode(s, &inode);
    assert_int_equal(index_orphan_set(s->txn, s->tree.one, 0), 0);
}

static void lost_file(struct scene *s)
{
    assert_int_equal(index_dirent_remove(s->txn, s->tree.a, "sparse"), 0);
}

static void lost_directory(struct scene *s)
{
    struct index_inode inode = inode_of(s, s->tree.a);
    assert_int_equal(index_dirent_remove(s->txn, s->tree.a, "b"), 0);
    inode.nlink--;
    put_inode(s, &inode);
}

/* /a/b/c/b: the name of b moved below its own child c. */
static void ring(struct scene *s)
{
    struct index_inode inode = inode_of(s, s->tree.b);
    struct index_inode c = inode_of(s, s->tree.b);
    struct index_inode a = inode_of(s, s->tree.a);
    c.ino = index_inode_new(s->txn);
    c.parent = s->tree.b;
    c.nlink = 3;
    assert_int_equal(index_inode_put(s->txn, &c), 0);
    assert_int_equal(index_dirent_add(s->txn, s->tree.b, "c", c.ino, DT_DIR), 0);
    assert_int_equal(index_dirent_remove(s->txn, s->tree.a, "b"), 0);
    assert_int_equal(index_dirent_add(s->txn, c.ino, "b", s->tree.b, DT_DIR), 0);
    inode.nlink++;
    inode.parent = c.ino;
    put_inode(s, &inode);
    a.nlink--;
    put_inode(s, &a);
}

static void unmarked_orphan(struct scene *s)
{
    struct index_inode inode = inode_of(s, s->tree.small);
    assert_int_equal(index_dirent_remove(s->txn, INDEX_ROOT_INO, "small"), 0);
    inode.nlink = 0;
    put_inode(s, &inode);
}

static void dangling_orphan(struct scene *s)
{
    assert_int_equal(index_orphan_set(s->txn, 999, 0), 0);
}

static void dangling_xattr(struct scene *s)
{
    assert_int_equal(index_xattr_set(s->txn, 999, "user.x", "y", 1, 0), 0);
}

static void ownerless_extents(struct scene *s)
{
    assert_int_equal(index_dirent_remove(s->txn, s->tree.a, "sparse"), 0);
    delete_key(s, INDEX_DB_INODE, s->tree.sparse);
    s->fixture.index->counters.logical -= 6 * FIXTURE_BLOCK;
}

static void extent_of_inline(struct scene *s)
{
    struct index_extent extent = {.number = 0, .length = 16};
    extent.block = block_at(s, s->tree.one, 0).id;
    put_extent(s, s->tree.small, &extent);
}

static void extent_beyond_end(struct scene *s)
{
    struct index_inode inode = inode_of(s, s->tree.one);
    inode.size = FIXTURE_BLOCK * 3;
    put_inode(s, &inode);
    s->fixture.index->counters.logical -= FIXTURE_BLOCK;
}

static void extent_outside_block(struct scene *s)
{
    struct index_extent extent = {.number = 0, .offset = 8, .length = FIXTURE_BLOCK};
    extent.block = block_at(s, s->tree.one, 0).id;
    put_extent(s, s->tree.one, &extent);
}

static void extent_too_long(struct scene *s)
{
    struct index_extent extent = {.number = 0, .length = 2 * FIXTURE_BLOCK};
    extent.block = block_at(s, s->tree.one, 0).id;
    put_extent(s, s->tree.one, &extent);
}

static void missing_block(struct scene *s)
{
    struct index_extent extent = {.number = 0, .block = 999, .length = FIXTURE_BLOCK};
    assert_int_equal(index_extent_get(s->txn, s->tree.one, 3, &extent), 0);
    extent.block = 999;
    put_extent(s, s->tree.one, &extent);
}

static void wrong_references(struct scene *s)
{
    struct index_block block = block_at(s, s->tree.one, 1);
    assert_int_equal(block.references, 2);
    block.references = 5;
    assert_int_equal(index_block_put(s->txn, &block), 0);
}

static void wrong_live(struct scene *s)
{
    struct index_block block = block_at(s, s->tree.one, 0);
    block.live = 1;
    assert_int_equal(index_block_put(s->txn, &block), 0);
}

static void unreferenced_block(struct scene *s)
{
    struct index_key key;
    index_key_two(&key, s->tree.two, 0);
    assert_int_equal(index_db_delete(s->txn, INDEX_DB_EXTENT, &key), 0);
}

static void missing_hash(struct scene *s)
{
    struct index_key key;
    index_key_hash(&key, block_at(s, s->tree.one, 0).hash);
    assert_int_equal(index_db_delete(s->txn, INDEX_DB_HASH, &key), 0);
}

static void wrong_hash(struct scene *s)
{
    struct index_record record;
    struct index_key key;
    index_key_hash(&key, block_at(s, s->tree.one, 0).hash);
    index_record_number(&record, block_at(s, s->tree.one, 2).id);
    put(s, INDEX_DB_HASH, &key, &record);
}

static void dangling_hash(struct scene *s)
{
    struct index_record record;
    struct index_key key;
    index_key_hash(&key, (struct index_hash){12345, 0});
    index_record_number(&record, 999);
    put(s, INDEX_DB_HASH, &key, &record);
}

static void dangling_hot(struct scene *s)
{
    assert_int_equal(index_hot_add(s->txn, &(struct index_hot){.block = 999}), 0);
}

static void dangling_pending(struct scene *s)
{
    assert_int_equal(index_pending_put(s->txn, &(struct index_pending){.block = 999}), 0);
}

static void missing_pack_record(struct scene *s)
{
    delete_key(s, INDEX_DB_PACK, block_at(s, s->tree.two, 0).at.pack);
}

static void wrong_pack_size(struct scene *s)
{
    struct index_pack pack = pack_of(s, block_at(s, s->tree.two, 0).at.pack);
    pack.size = INDEX_PACK_HEADER + 8;
    put_pack(s, &pack);
}

static void wrong_pack_live(struct scene *s)
{
    struct index_pack pack = pack_of(s, block_at(s, s->tree.one, 0).at.pack);
    pack.live -= 8;
    put_pack(s, &pack);
}

/* The worst case: a sealed pack that claims to be empty would be removed by the next commit. */
static void no_pack_live(struct scene *s)
{
    struct index_pack pack = pack_of(s, block_at(s, s->tree.one, 0).at.pack);
    assert_true(pack.sealed);
    pack.live = 0;
    put_pack(s, &pack);
}

static void missing_pack(struct scene *s)
{
    char path[128], name[16];
    index_pack_name(block_at(s, s->tree.two, 0).at.pack, name);
    snprintf(path, sizeof path, "%s/packs/%s", s->fixture.path, name);
    assert_int_equal(unlink(path), 0);
}

static void short_pack(struct scene *s)
{
    char path[128], name[16];
    const struct index_block block = block_at(s, s->tree.two, 0);
    index_pack_name(block.at.pack, name);
    snprintf(path, sizeof path, "%s/packs/%s", s->fixture.path, name);
    assert_int_equal(truncate(path, (off_t)block.at.offset + 100), 0);
}

static void spoil_pack_header(struct scene *s)
{
    fixture_flip(&s->fixture, block_at(s, s->tree.two, 0).at.pack, 12);
}

static void block_outside(struct scene *s)
{
    struct index_block block = block_at(s, s->tree.two, 0);
    block.at.offset = UINT64_C(1) << 40;
    assert_int_equal(index_block_put(s->txn, &block), 0);
}

static void overlap(struct scene *s)
{
    struct index_block block = block_at(s, s->tree.one, 1);
    block.at.offset -= 64;
    assert_int_equal(index_block_put(s->txn, &block), 0);
}

static void dead_range_on_block(struct scene *s)
{
    const struct index_block block = block_at(s, s->tree.one, 0);
    put_dead(s, block.at.pack, block.at.offset + 4096, 4096);
}

static void dead_range_outside(struct scene *s)
{
    put_dead(s, block_at(s, s->tree.one, 0).at.pack, UINT64_C(1) << 40, 4096);
}

static void dead_range_nowhere(struct scene *s)
{
    put_dead(s, 999, 64, 4096);
}

static void wrong_counters(struct scene *s)
{
    s->fixture.index->counters.directories = 100;
    s->fixture.index->counters.logical = 1;
    s->fixture.index->counters.live++;
    s->fixture.index->counters.shared_blocks++;
    put_number(s, INDEX_DB_ORPHAN, s->tree.one, 1000); /* no problem: a truncation in progress */
}

static void flip_payload(struct scene *s)
{
    const struct index_block block = block_at(s, s->tree.one, 1);
    fixture_flip(&s->fixture, block.at.pack, block.at.offset + INDEX_RECORD_HEADER + 1000);
}

static void flip_header(struct scene *s)
{
    const struct index_block block = block_at(s, s->tree.one, 1);
    fixture_flip(&s->fixture, block.at.pack, block.at.offset);
}

static void swapped_records(struct scene *s)
{
    struct index_block one = block_at(s, s->tree.one, 0), two = block_at(s, s->tree.one, 2);
    const struct index_location at = one.at;
    one.at = two.at;
    two.at = at;
    assert_int_equal(index_block_put(s->txn, &one), 0);
    assert_int_equal(index_block_put(s->txn, &two), 0);
}

static void spoil_scrub(struct scene *s)
{
    struct index_key key;
    index_key_text(&key, "scrub");
    assert_int_equal(index_scrub_put(s->txn, &(struct index_scrub){.rounds = 3}), 0);
    spoil(s, INDEX_DB_META, &key);
}

static void low_next_inode(struct scene *s)
{
    s->fixture.index->next_ino = 2 - INDEX_NUMBERS_AHEAD; /* which is added when it is stored */
    assert_int_equal(index_state_store(s->txn, false), 0);
}

static void low_next_block(struct scene *s)
{
    atomic_store(&s->fixture.index->next_block, 3 - INDEX_NUMBERS_AHEAD);
    assert_int_equal(index_state_store(s->txn, false), 0);
}

/* ---- the table ----------------------------------------------------------------------------- */

enum outcome {
    DERIVED,  /* repaired, and sepfs-fsck -p may do it */
    REPAIRED, /* repaired, but something was removed or guessed */
    LOST,     /* reported as lost, before and after the repair */
};

static const struct damage {
    const char *name;
    void (*act)(struct scene *s);
    const char *kinds; /* that the check reports */
    enum outcome outcome;
    const char *text; /* part of a line that must be there */
    bool intact;      /* all data of the tree is as before after the repair */
} damages[] = {
    {"inode", spoil_inode, "malformed-record missing-inode counter", REPAIRED, "inode record",
     true},
    {"inline inode", spoil_small, "malformed-record dangling-name counter", REPAIRED, "small",
     true},
    {"directory inode", spoil_directory, "malformed-record missing-inode counter", REPAIRED,
     "names lie in it", true},
    {"root inode", spoil_root, "missing-root counter", REPAIRED, "inode 1", true},
    {"dirent", spoil_dirent, "malformed-record unreachable-inode", REPAIRED, "dirent record", true},
    {"xattr", spoil_xattr, "malformed-record", REPAIRED, "attribute user.x", true},
    {"extent", spoil_extent, "malformed-record unreferenced-block", REPAIRED, "block number 2",
     false},
    {"block", spoil_block,
     "malformed-record pack-live wrong-hash dangling-hot counter missing-block", LOST,
     "/a/one: bytes 32768 to 49151 are lost", false},
    {"hash", spoil_hash, "malformed-record", DERIVED, "hash record", true},
    {"hot", spoil_hot, "malformed-record", DERIVED, "hot record", true},
    {"pending", spoil_pending, "malformed-record", DERIVED, "pending record", true},
    {"pack", spoil_pack, "malformed-record missing-pack-record", DERIVED, "pack record", true},
    {"dangling name", dangling_name, "dangling-name", REPAIRED, "\"ghost\"", true},
    {"name in a file", name_in_file, "dangling-name", REPAIRED, "\"odd\"", true},
    {"dirent type", wrong_type, "dirent-type", DERIVED, "\"one\"", true},
    {"misplaced name", misplaced_name, "misplaced-name", DERIVED, "\"one\"", true},
    {"misplaced ahead", misplaced_name_ahead, "misplaced-name", DERIVED, "\"b\"", true},
    {"duplicate name", duplicate_name, "duplicate-name", REPAIRED, "\"one\"", true},
    {"directory link", second_directory_name, "directory-link", REPAIRED, "\"again\"", true},
    {"parent", wrong_parent, "directory-parent", DERIVED, "parent is 1", true},
    {"links", wrong_links, "link-count", DERIVED, "is 7, should be 2", true},
    {"directory links", wrong_directory_links, "link-count", DERIVED, "is 2, should be 3", true},
    {"orphan with names", orphan_with_names, "link-count", DERIVED, "is 0, should be 2", true},
    {"lost file", lost_file, "unreachable-inode", REPAIRED, "1 links but no name", true},
    {"lost directory", lost_directory, "unreachable-inode", REPAIRED, "2 links but no name", true},
    {"ring", ring, "directory-cycle", REPAIRED, "below itself", true},
    {"unmarked orphan", unmarked_orphan, "unmarked-orphan", DERIVED, "no links", true},
    {"dangling orphan", dangling_orphan, "dangling-orphan", DERIVED, "999", true},
    {"dangling xattr", dangling_xattr, "dangling-xattr", DERIVED, "user.x of inode 999", true},
    {"ownerless extents", ownerless_extents, "missing-inode", REPAIRED, "it has extents", true},
    {"extent of inline", extent_of_inline, "extent-owner", REPAIRED, "keeps its content", true},
    {"extent beyond end", extent_beyond_end, "extent-beyond-end unreferenced-block", DERIVED,
     "block number 3", false},
    {"extent outside", extent_outside_block, "extent-range", LOST, "/a/one: block number 0", false},
    {"extent too long", extent_too_long, "extent-length unreferenced-block", REPAIRED,
     "32768 bytes", false},
    {"missing block", missing_block, "unreferenced-block missing-block", LOST,
     "/a/one: bytes 49152 to 65535 are lost: block 999", false},
    {"references", wrong_references, "block-references", DERIVED, "5 references recorded, 2 found",
     true},
    {"live", wrong_live, "block-live", DERIVED, "1 live bytes recorded, 16384 found", true},
    {"unreferenced block", unreferenced_block, "unreferenced-block", DERIVED, "no extent", false},
    {"missing hash", missing_hash, "missing-hash", DERIVED, "dedup does not find it", true},
    {"wrong hash", wrong_hash, "wrong-hash", DERIVED, "has another hash", true},
    {"dangling hash", dangling_hash, "wrong-hash", DERIVED, "does not exist", true},
    {"dangling hot", dangling_hot, "dangling-hot", DERIVED, "block 999", true},
    {"dangling pending", dangling_pending, "dangling-pending", DERIVED, "block 999", true},
    {"missing pack record", missing_pack_record, "missing-pack-record", DERIVED, "no record", true},
    {"pack size", wrong_pack_size, "pack-size", DERIVED, "size is 72", true},
    {"pack live", wrong_pack_live, "pack-live", DERIVED, "live bytes recorded", true},
    {"no pack live", no_pack_live, "pack-live", DERIVED, "0 live bytes recorded", true},
    {"missing pack", missing_pack, "missing-pack", LOST, "/a/b/two: bytes 0 to 16383 are lost",
     false},
    {"short pack", short_pack, "block-location", LOST, "/a/b/two: bytes 0 to 16383 are lost",
     false},
    {"pack header", spoil_pack_header, "pack-header", DERIVED, "header is damaged", true},
    {"block outside", block_outside, "block-location", LOST, "outside pack", false},
    {"overlap", overlap, "block-overlap record-header", LOST, "overlap in pack", false},
    {"dead range on block", dead_range_on_block, "dead-range", DERIVED, "a block lies in it", true},
    {"dead range outside", dead_range_outside, "dead-range", DERIVED, "outside the pack", true},
    {"dead range nowhere", dead_range_nowhere, "dead-range", DERIVED, "pack 999", true},
    {"counters", wrong_counters, "counter", DERIVED, "directories: 100 recorded, 3 found", true},
    {"scrub", spoil_scrub, "malformed-record", DERIVED, "record of the scrub", true},
    {"next inode", low_next_inode, "next-number", DERIVED, "next inode number is 2, but ", true},
    {"next block", low_next_block, "next-number", DERIVED, "next block number is 3, but ", true},
    {"payload", flip_payload, "record-checksum", LOST, "/a/b/two: bytes 16384 to 32767", false},
    {"record header", flip_header, "record-header", LOST, "/a/one: bytes 16384 to 32767", false},
    {"swapped records", swapped_records, "record-mismatch", LOST, "its block number differs",
     false},
};

/* ---- running it ---------------------------------------------------------------------------- */

static void expect_tree(struct scene *s)
{
    uint8_t want[FIXTURE_BLOCK], got[FIXTURE_BLOCK];
    fixture_expect(&s->fixture, s->tree.one, 100, 4);
    fixture_expect(&s->fixture, s->tree.two, 200, 1);
    fixture_bytes(101, want);
    assert_int_equal(fixture_read(&s->fixture, fixture_block(&s->fixture, s->tree.two, 1), got), 0);
    assert_memory_equal(got, want, sizeof got);
    fixture_bytes(300, want);
    assert_int_equal(fixture_read(&s->fixture, fixture_block(&s->fixture, s->tree.sparse, 5), got),
                     0);
    assert_memory_equal(got, want, sizeof got);
}

static void build(struct scene *s)
{
    fixture_create(&s->fixture);
    fixture_tree(&s->fixture, &s->tree);
    fixture_close(&s->fixture);
}

static void break_it(struct scene *s, const struct damage *damage)
{
    fixture_open(&s->fixture, INDEX_OPEN_NO_RECOVER);
    assert_int_equal(index_begin(s->fixture.index, INDEX_WRITE, &s->txn), 0);
    damage->act(s);
    index_end(s->txn);
    fixture_close(&s->fixture);
}

static void check(struct scene *s, bool repair, struct problems *problems)
{
    fixture_open(&s->fixture, repair ? INDEX_OPEN_NO_RECOVER : INDEX_OPEN_READONLY);
    assert_int_equal(fixture_check(&s->fixture, repair, true, problems), 0);
    fixture_close(&s->fixture);
}

static void test_damage(void **state)
{
    const struct damage *const damage = *state;
    struct scene s = {0};
    struct problems before, again, repaired, after;
    build(&s);
    break_it(&s, damage);
    check(&s, false, &before);
    if (strcmp(before.kinds, damage->kinds) != 0)
        fail_msg("reported %s\n%s", before.kinds, before.text);
    if (strstr(before.text, damage->text) == NULL)
        fail_msg("no \"%s\" in\n%s", damage->text, before.text);
    assert_int_equal(before.fixed, 0);
    assert_int_equal(before.underivable > 0 || before.lost > 0, damage->outcome != DERIVED);
    check(&s, false, &again); /* nothing was changed */
    assert_string_equal(again.text, before.text);
    check(&s, true, &repaired);
    assert_int_equal(repaired.found, 0);
    assert_int_equal(repaired.lost > 0, damage->outcome == LOST);
    if (damage->outcome != LOST)
        assert_true(repaired.fixed >= before.found);
    check(&s, false, &after);
    if (after.found > 0 || (damage->outcome != LOST && after.lost > 0))
        fail_msg("left after the repair:\n%s", after.text);
    assert_int_equal(after.lost > 0, damage->outcome == LOST);
    if (damage->intact) {
        fixture_open(&s.fixture, 0); /* as a mount: finishes orphans, drops what is marked */
        expect_tree(&s);
        fixture_close(&s.fixture);
    }
    fixture_remove(&s.fixture);
}

static void test_clean(void **state)
{
    struct scene s = {0};
    struct problems problems;
    build(&s);
    check(&s, false, &problems);
    assert_string_equal(problems.text, "");
    check(&s, true, &problems);
    assert_string_equal(problems.text, "");
    fixture_open(&s.fixture, 0);
    expect_tree(&s);
    fixture_remove(&s.fixture);
}

/* What was lost from its directory hangs in lost+found with its data. */
static void test_lost_found(void **state)
{
    struct scene s = {0};
    struct problems problems;
    struct index_dirent entry;
    char name[32], path[256];
    build(&s);
    break_it(&s, &(const struct damage){.act = lost_file});
    check(&s, true, &problems);
    fixture_open(&s.fixture, 0);
    assert_int_equal(index_begin(s.fixture.index, INDEX_READ, &s.txn), 0);
    assert_int_equal(index_dirent_lookup(s.txn, INDEX_ROOT_INO, "lost+found", &entry), 0);
    snprintf(name, sizeof name, "#%ju", (uintmax_t)s.tree.sparse);
    assert_int_equal(index_dirent_lookup(s.txn, entry.ino, name, &entry), 0);
    assert_int_equal(entry.ino, s.tree.sparse);
    snprintf(name, sizeof name, "/lost+found/#%ju", (uintmax_t)s.tree.sparse);
    assert_string_equal(index_inode_path(s.txn, s.tree.sparse, path, sizeof path), name);
    index_end(s.txn);
    fixture_remove(&s.fixture);
}

/* A file that was unlinked while open, and a truncation in progress, are no problems. */
static void test_orphans_are_fine(void **state)
{
    struct scene s = {0};
    struct problems problems;
    build(&s);
    fixture_open(&s.fixture, INDEX_OPEN_NO_RECOVER);
    assert_int_equal(index_begin(s.fixture.index, INDEX_WRITE, &s.txn), 0);
    struct index_inode inode = inode_of(&s, s.tree.sparse);
    assert_int_equal(index_dirent_remove(s.txn, s.tree.a, "sparse"), 0);
    inode.nlink = 0;
    assert_int_equal(index_inode_put(s.txn, &inode), 0);
    assert_int_equal(index_orphan_set(s.txn, s.tree.sparse, 0), 0);
    inode = inode_of(&s, s.tree.one);
    inode.size = FIXTURE_BLOCK;
    assert_int_equal(index_inode_put(s.txn, &inode), 0);
    assert_int_equal(index_orphan_set(s.txn, s.tree.one, 1), 0);
    index_end(s.txn);
    fixture_close(&s.fixture);
    check(&s, false, &problems);
    assert_string_equal(problems.text, "");
    fixture_open(&s.fixture, 0); /* finishes both */
    fixture_close(&s.fixture);
    check(&s, false, &problems);
    assert_string_equal(problems.text, "");
    fixture_remove(&s.fixture);
}

static void test_stop(void **state)
{
    struct scene s = {0};
    struct problems problems = {0};
    const volatile bool stop = true;
    build(&s);
    fixture_open(&s.fixture, INDEX_OPEN_READONLY);
    const struct index_check options = {.problem = NULL, .arg = &problems, .stop = &stop};
    assert_int_equal(index_check(s.fixture.index, &options), -ECANCELED);
    const struct index_check repair = {.repair = true};
    assert_int_equal(index_check(s.fixture.index, &repair), -EROFS);
    fixture_remove(&s.fixture);
}

/* Without repair, a check of a store opened for writing must not let a pack go that only its
 * counter calls empty. */
static void test_close_keeps_packs(void **state)
{
    struct scene s = {0};
    struct problems problems;
    build(&s);
    break_it(&s, &(const struct damage){.act = no_pack_live});
    fixture_open(&s.fixture, INDEX_OPEN_NO_RECOVER);
    assert_int_equal(fixture_check(&s.fixture, false, true, &problems), 0);
    assert_string_equal(problems.kinds, "pack-live");
    fixture_close(&s.fixture);
    check(&s, true, &problems);
    fixture_open(&s.fixture, 0);
    expect_tree(&s);
    fixture_remove(&s.fixture);
}

/* The host refuses to read one record: that block is lost, and no other. */
static struct {
    uint64_t offset;
    char pack[16];
} unreadable;

static ssize_t failing_pread(int fd, void *data, size_t size, off_t offset)
{
    char link[64], path[256] = "";
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    if ((uint64_t)offset == unreadable.offset && readlink(link, path, sizeof path - 1) > 0 &&
        strstr(path, unreadable.pack) != NULL) {
        errno = EIO;
        return -1;
    }
    return pread(fd, data, size, offset);
}

static void test_unreadable(void **state)
{
    static struct index_io io;
    const struct index_options options = {.flags = INDEX_OPEN_READONLY,
                                          .map_size = UINT64_C(64) << 20};
    struct scene s = {0};
    struct problems problems;
    char error[256], place[64];
    build(&s);
    fixture_open(&s.fixture, 0);
    assert_int_equal(index_begin(s.fixture.index, INDEX_READ, &s.txn), 0);
    const struct index_block block = block_at(&s, s.tree.one, 2);
    index_end(s.txn);
    fixture_close(&s.fixture);
    unreadable.offset = block.at.offset;
    index_pack_name(block.at.pack, unreadable.pack);
    io = index_io_system;
    io.pread = failing_pread;
    assert_int_equal(
        index_open_with(s.fixture.path, &options, &io, &s.fixture.index, error, sizeof error), 0);
    assert_int_equal(fixture_check(&s.fixture, false, true, &problems), 0);
    assert_string_equal(problems.kinds, "record-unreadable");
    assert_int_equal(problems.lost, 1);
    snprintf(place, sizeof place, "cannot be read (pack %u, offset %ju)", block.at.pack,
             (uintmax_t)block.at.offset);
    assert_non_null(strstr(problems.text, "/a/one: bytes 32768 to 49151 are lost"));
    assert_non_null(strstr(problems.text, place));
    fixture_remove(&s.fixture);
}

int main(void)
{
    enum { DAMAGES = sizeof damages / sizeof damages[0] };
    struct CMUnitTest tests[DAMAGES + 6] = {
        cmocka_unit_test(test_clean),
        cmocka_unit_test(test_lost_found),
        cmocka_unit_test(test_orphans_are_fine),
        cmocka_unit_test(test_stop),
        cmocka_unit_test(test_close_keeps_packs),
        cmocka_unit_test(test_unreadable),
    };
    for (size_t i = 0; i < DAMAGES; i++)
        tests[6 + i] = (struct CMUnitTest){.name = damages[i].name,
                                           .test_func = test_damage,
                                           .initial_state = (void *)(uintptr_t)&damages[i]};
    return cmocka_run_group_tests_name("check", tests, NULL, NULL);
}
