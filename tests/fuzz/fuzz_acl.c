/* SPDX-License-Identifier: BSD-2-Clause
 *
 * fuzz_acl.c - access control lists as users set them and as a store holds them (fs/acl.c), with a
 * real index behind.
 *
 * Input: bytes 0-1 a mode, 2-3 a umask, byte 4 file or directory, then the list. Properties: the
 * mode that follows from a list changes permission bits only; a stored list that is malformed is
 * ignored; what a new inode inherits is well-formed, agrees with its mode, and gives nobody more
 * than the creator asked for.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "fs/acl.h"
#include "fuzz.h"

static struct index *store(void)
{
    static struct index *index;
    char path[128], error[256];
    const struct index_options options = {.flags = INDEX_OPEN_CREATE, .map_size = 1u << 30};

    if (index == NULL) {
        snprintf(path, sizeof path, "%s/store", fuzz_scratch());
        FUZZ_CHECK(index_open(path, &options, &index, error, sizeof error) == 0);
    }
    return index;
}

static int put(struct index_txn *txn, uint64_t ino, const char *name, const void *value,
               size_t size)
{
    return index_xattr_set(txn, ino, name, value, size, 0);
}

/* The access list of INO, if there is one, must say what MODE says. */
static void agrees(struct index_txn *txn, uint64_t ino, uint32_t mode)
{
    const void *value;
    size_t size;
    uint32_t listed = mode & ~0777u;
    bool keep;

    if (index_xattr_get(txn, ino, FS_ACL_ACCESS, &value, &size) != 0 || !fs_acl_valid(value, size))
        return;
    FUZZ_CHECK(fs_acl_to_mode(value, size, &listed, &keep) == 0);
    FUZZ_CHECK(listed == mode);
}

static void clear(struct index_txn *txn, uint64_t ino)
{
    (void)index_xattr_remove(txn, ino, FS_ACL_ACCESS);
    (void)index_xattr_remove(txn, ino, FS_ACL_DEFAULT);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_input input = {data, size};
    const uint32_t bits = fuzz_u16(&input) & 07777;
    const mode_t umask = fuzz_u16(&input) & 0777;
    const uint32_t type = fuzz_u8(&input) & 1 ? S_IFDIR : S_IFREG;
    size_t length;
    uint8_t *const list = fuzz_take(&input, INDEX_XATTR_SIZE_MAX, &length);
    const bool valid = fs_acl_valid(list, length);
    uint32_t mode = type | bits;
    bool keep = false;
    struct index_txn *txn;
    struct index_inode attr = {.ino = 1000, .mode = type | bits};

    FUZZ_CHECK((fs_acl_to_mode(list, length, &mode, &keep) == 0) == valid);
    FUZZ_CHECK((mode & ~0777u) == ((type | bits) & ~0777u));
    if (!valid)
        FUZZ_CHECK(mode == (type | bits));

    FUZZ_CHECK(index_begin(store(), INDEX_WRITE, &txn) == 0);
    FUZZ_CHECK(put(txn, attr.ino, FS_ACL_ACCESS, list, length) == 0);
    FUZZ_CHECK(fs_acl_chmod(txn, &attr) == 0);
    agrees(txn, attr.ino, attr.mode);
    clear(txn, attr.ino);

    FUZZ_CHECK(put(txn, INDEX_ROOT_INO, FS_ACL_DEFAULT, list, length) == 0);
    FUZZ_CHECK(fs_acl_create(txn, INDEX_ROOT_INO, &attr, umask) == 0);
    FUZZ_CHECK((attr.mode & ~(type | bits)) == 0); /* no bit that was not asked for */
    if (!valid)
        FUZZ_CHECK(attr.mode == ((type | bits) & ~(uint32_t)umask));
    agrees(txn, attr.ino, attr.mode);
    clear(txn, attr.ino);
    clear(txn, INDEX_ROOT_INO);
    index_end(txn);
    free(list);
    return 0;
}
