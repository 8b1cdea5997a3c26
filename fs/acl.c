/* SPDX-License-Identifier: BSD-2-Clause
 *
 * acl.c - the attribute form of an access control list: a 32-bit version, then entries of 16-bit
 * tag, 16-bit permissions and 32-bit id, all little-endian, sorted by tag and id. Lists come from
 * users and from the store, so each is checked before use.
 */
#include <endian.h>
#include <errno.h>
#include <linux/posix_acl.h>
#include <linux/posix_acl_xattr.h>
#include <string.h>
#include <sys/stat.h>

#include "acl.h"

#define ENTRIES_MAX 1024u /* of one list; ext4 fits 507 in a 4 KiB block */
#define LIST_MAX                                                                                   \
    (sizeof(struct posix_acl_xattr_header) + ENTRIES_MAX * sizeof(struct posix_acl_xattr_entry))

struct list {
    unsigned count;
    struct posix_acl_xattr_entry *user, *group, *mask, *other; /* mask may be NULL */
    union {
        char bytes[LIST_MAX];
        struct {
            struct posix_acl_xattr_header header;
            struct posix_acl_xattr_entry entry[ENTRIES_MAX];
        };
    };
};

static size_t list_size(const struct list *list)
{
    return sizeof list->header + list->count * sizeof list->entry[0];
}

/* Tags ascend in value in a sorted list: owner, users, group, groups, mask, others. */
static int parse(const void *value, size_t size, struct list *list)
{
    struct posix_acl_xattr_entry **slot;
    bool named = false;
    uint32_t last_tag = 0, last_id = 0;

    if (size < sizeof list->header || size > LIST_MAX ||
        (size - sizeof list->header) % sizeof list->entry[0] != 0)
        return -EINVAL;
    memcpy(list->bytes, value, size);
    list->count = (unsigned)((size - sizeof list->header) / sizeof list->entry[0]);
    list->user = list->group = list->mask = list->other = NULL;
    if (le32toh(list->header.a_version) != POSIX_ACL_XATTR_VERSION)
        return -EINVAL;
    for (unsigned i = 0; i < list->count; i++) {
        const uint32_t tag = le16toh(list->entry[i].e_tag);
        const uint32_t id = le32toh(list->entry[i].e_id);

        if (le16toh(list->entry[i].e_perm) > 7 || tag < last_tag)
            return -EINVAL;
        switch (tag) {
        case ACL_USER_OBJ:
            slot = &list->user;
            break;
        case ACL_GROUP_OBJ:
            slot = &list->group;
            break;
        case ACL_MASK:
            slot = &list->mask;
            break;
        case ACL_OTHER:
            slot = &list->other;
            break;
        case ACL_USER:
        case ACL_GROUP:
            if (tag == last_tag && id <= last_id)
                return -EINVAL;
            named = true;
            slot = NULL;
            break;
        default:
            return -EINVAL;
        }
        if (slot != NULL) {
            if (*slot != NULL)
                return -EINVAL;
            *slot = &list->entry[i];
        }
        last_tag = tag;
        last_id = id;
    }
    if (list->user == NULL || list->group == NULL || list->other == NULL ||
        (named && list->mask == NULL))
        return -EINVAL;
    return 0;
}

bool fs_acl_valid(const void *value, size_t size)
{
    struct list list;

    return parse(value, size, &list) == 0;
}

static uint32_t permissions(const struct posix_acl_xattr_entry *entry)
{
    return le16toh(entry->e_perm);
}

static void set_permissions(struct posix_acl_xattr_entry *entry, uint32_t bits)
{
    entry->e_perm = htole16((uint16_t)(bits & 7));
}

/* The class that the group bits of the mode stand for. */
static struct posix_acl_xattr_entry *group_class(const struct list *list)
{
    return list->mask != NULL ? list->mask : list->group;
}

static uint32_t mode_of(const struct list *list)
{
    return permissions(list->user) << 6 | permissions(group_class(list)) << 3 |
           permissions(list->other);
}

int fs_acl_to_mode(const void *value, size_t size, uint32_t *mode, bool *keep)
{
    struct list list;
    const int error = parse(value, size, &list);

    if (error != 0)
        return error;
    *mode = (*mode & ~(uint32_t)0777) | mode_of(&list);
    *keep = list.count > 3;
    return 0;
}

/* Reads a stored list; -ENODATA also for one that is malformed: it can't be enforced either. */
static int load(struct index_txn *txn, uint64_t ino, const char *name, struct list *list)
{
    const void *value;
    size_t size;
    const int error = index_xattr_get(txn, ino, name, &value, &size);

    if (error != 0)
        return error;
    return parse(value, size, list) == 0 ? 0 : -ENODATA;
}

int fs_acl_chmod(struct index_txn *txn, const struct index_inode *attr)
{
    struct list list;
    const int error = load(txn, attr->ino, FS_ACL_ACCESS, &list);

    if (error != 0)
        return error == -ENODATA ? 0 : error;
    set_permissions(list.user, attr->mode >> 6);
    set_permissions(group_class(&list), attr->mode >> 3);
    set_permissions(list.other, attr->mode);
    return index_xattr_set(txn, attr->ino, FS_ACL_ACCESS, list.bytes, list_size(&list), 0);
}

int fs_acl_create(struct index_txn *txn, uint64_t dir, struct index_inode *attr, mode_t umask)
{
    struct list list;
    int error;

    if (S_ISLNK(attr->mode))
        return 0;
    error = load(txn, dir, FS_ACL_DEFAULT, &list);
    if (error == -ENODATA) {
        attr->mode &= ~((uint32_t)umask & 0777);
        return 0;
    }
    if (error != 0)
        return error;
    if (S_ISDIR(attr->mode)) {
        error = index_xattr_set(txn, attr->ino, FS_ACL_DEFAULT, list.bytes, list_size(&list), 0);
        if (error != 0)
            return error;
    }
    /* nobody gets more than the list allows, nor more than the creator asked for */
    set_permissions(list.user, permissions(list.user) & attr->mode >> 6);
    set_permissions(group_class(&list), permissions(group_class(&list)) & attr->mode >> 3);
    set_permissions(list.other, permissions(list.other) & attr->mode);
    attr->mode = (attr->mode & ~(uint32_t)0777) | mode_of(&list);
    if (list.count == 3)
        return 0;
    return index_xattr_set(txn, attr->ino, FS_ACL_ACCESS, list.bytes, list_size(&list), 0);
}
