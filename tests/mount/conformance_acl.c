/* SPDX-License-Identifier: BSD-2-Clause
 *
 * conformance_acl.c - POSIX access control lists (the withdrawn draft 1003.1e, as Linux has it), set
 * as the extended attributes that they are, so that no ACL library is needed.
 */
#include <endian.h>
#include <sys/xattr.h>

#include "conformance.h"

#define ACCESS  "system.posix_acl_access"
#define DEFAULT "system.posix_acl_default"
#define NOBODY  UINT32_MAX /* entries without a qualifier */

enum tag { USER_OBJ = 1, USER = 2, GROUP_OBJ = 4, GROUP = 8, MASK = 16, OTHER = 32 };

/* The attribute's form, little-endian: a version, then the entries ordered by tag. */
struct entry {
    uint16_t tag, permissions;
    uint32_t id;
};
struct acl {
    uint32_t version;
    struct entry entries[8];
};

static int set(const char *path, const char *name, const struct entry *entries, size_t count)
{
    struct acl acl = {.version = htole32(2)};
    for (size_t i = 0; i < count; i++)
        acl.entries[i] = (struct entry){htole16(entries[i].tag), htole16(entries[i].permissions),
                                        htole32(entries[i].id)};
    return setxattr(path, name, &acl, sizeof acl.version + count * sizeof *entries, 0);
}

/* Permissions of the entry TAG (with ID) of PATH's list; -1 when there is none. */
static int permissions_of(const char *path, const char *name, enum tag tag, uint32_t id)
{
    struct acl acl;
    const ssize_t size = getxattr(path, name, &acl, sizeof acl);
    if (size < 0 && errno == ENODATA)
        return -1;
    CF_CHECK(size >= 4);
    for (size_t i = 0; i < ((size_t)size - 4) / sizeof *acl.entries; i++) {
        if (le16toh(acl.entries[i].tag) == tag && le32toh(acl.entries[i].id) == id)
            return le16toh(acl.entries[i].permissions);
    }
    return -1;
}

static const struct entry for_user[] = {
    /* CF_USER may read and write what others may not touch */
    {USER_OBJ, 6, NOBODY}, {USER, 6, CF_USER}, {GROUP_OBJ, 0, NOBODY},
    {MASK, 6, NOBODY},     {OTHER, 0, NOBODY},
};

static void need(void)
{
    cf_write_file("probe", "x");
    CF_OK_OR_SKIP(set("probe", ACCESS, for_user, 5));
}

static void named_user(void)
{
    need();
    cf_need_users();
    cf_write_file("file", "abc");
    CF_OK(chmod("file", 0600));
    CF_OK(set("file", ACCESS, for_user, 5));
    CF_EQUAL(cf_stat("file").st_mode & 07777, 0660); /* the group bits show the mask */
    CF_EQUAL(permissions_of("file", ACCESS, USER, CF_USER), 6);
    cf_become(CF_USER, CF_USER);
    CF_OK(close(CF_OK(open("file", O_RDWR))));
    cf_become(CF_OTHER, CF_OTHER);
    CF_FAILS(open("file", O_RDONLY), EACCES);
}

static void named_group(void)
{
    need();
    cf_need_users();
    static const struct entry list[] = {{USER_OBJ, 6, NOBODY},
                                        {GROUP_OBJ, 0, NOBODY},
                                        {GROUP, 4, 2001},
                                        {MASK, 7, NOBODY},
                                        {OTHER, 0, NOBODY}};
    const gid_t groups[] = {2001};
    cf_write_file("file", "abc");
    CF_OK(set("file", ACCESS, list, 5));
    cf_become_with(CF_USER, CF_USER, groups, 1);
    CF_OK(close(CF_OK(open("file", O_RDONLY))));
    CF_FAILS(open("file", O_RDWR), EACCES);
    cf_become(CF_USER, CF_USER);
    CF_FAILS(open("file", O_RDONLY), EACCES);
}

static void mask_follows_chmod(void)
{
    need();
    cf_need_users();
    cf_write_file("file", "abc");
    CF_OK(set("file", ACCESS, for_user, 5));
    CF_OK(chmod("file", 0640));
    CF_EQUAL(permissions_of("file", ACCESS, MASK, NOBODY), 4);
    CF_EQUAL(permissions_of("file", ACCESS, GROUP_OBJ, NOBODY), 0);
    cf_become(CF_USER, CF_USER);
    CF_OK(close(CF_OK(open("file", O_RDONLY))));
    CF_FAILS(open("file", O_RDWR), EACCES);
    cf_become_root();
    CF_OK(chmod("file", 0600));
    cf_become(CF_USER, CF_USER);
    CF_FAILS(open("file", O_RDONLY), EACCES);
}

static void minimal_list_is_the_mode(void)
{
    need();
    static const struct entry list[] = {
        {USER_OBJ, 7, NOBODY}, {GROUP_OBJ, 5, NOBODY}, {OTHER, 1, NOBODY}};
    cf_write_file("file", "abc");
    CF_OK(set("file", ACCESS, list, 3));
    CF_EQUAL(cf_stat("file").st_mode & 07777, 0751);
    CF_OK(set("file", ACCESS, for_user, 5));
    CF_OK(removexattr("file", ACCESS));
    CF_FAILS(getxattr("file", ACCESS, NULL, 0), ENODATA);
    CF_EQUAL(cf_stat("file").st_mode & 07777, 0660);
}

static void defaults_are_inherited(void)
{
    need();
    static const struct entry list[] = {{USER_OBJ, 7, NOBODY},
                                        {USER, 7, CF_USER},
                                        {GROUP_OBJ, 5, NOBODY},
                                        {MASK, 7, NOBODY},
                                        {OTHER, 5, NOBODY}};
    umask(077); /* has no say where there is a default list */
    CF_OK(mkdir("dir", 0755));
    CF_OK(set("dir", DEFAULT, list, 5));
    CF_EQUAL(cf_stat("dir").st_mode & 07777, 0700);
    CF_OK(close(CF_OK(open("dir/file", O_WRONLY | O_CREAT, 0664))));
    CF_OK(mkdir("dir/sub", 0777));
    CF_OK(mkfifo("dir/fifo", 0640));
    CF_EQUAL(cf_stat("dir/file").st_mode & 07777, 0664);
    CF_EQUAL(permissions_of("dir/file", ACCESS, USER, CF_USER), 7);
    CF_EQUAL(permissions_of("dir/file", ACCESS, MASK, NOBODY), 6);
    CF_EQUAL(permissions_of("dir/file", DEFAULT, USER, CF_USER), -1);
    CF_EQUAL(cf_stat("dir/sub").st_mode & 07777, 0775);
    CF_EQUAL(permissions_of("dir/sub", DEFAULT, USER, CF_USER), 7);
    CF_EQUAL(permissions_of("dir/sub", ACCESS, USER, CF_USER), 7);
    CF_EQUAL(cf_stat("dir/fifo").st_mode & 07777, 0640);
    CF_OK(removexattr("dir", DEFAULT));
    CF_OK(mkdir("dir/plain", 0777));
    CF_EQUAL(cf_stat("dir/plain").st_mode & 07777, 0700);
}

static void errors(void)
{
    need();
    static const struct entry no_mask[] = {
        {USER_OBJ, 6, NOBODY}, {USER, 6, CF_USER}, {GROUP_OBJ, 0, NOBODY}, {OTHER, 0, NOBODY}};
    static const struct entry twice[] = {
        {USER_OBJ, 6, NOBODY}, {USER_OBJ, 6, NOBODY}, {GROUP_OBJ, 0, NOBODY}, {OTHER, 0, NOBODY}};
    cf_write_file("file", "abc");
    CF_FAILS(set("file", ACCESS, no_mask, 4), EINVAL);
    CF_FAILS(set("file", ACCESS, twice, 4), EINVAL);
    CF_FAILS_EITHER(setxattr("file", ACCESS, "\2\0\0\0half", 8, 0), EINVAL, EOPNOTSUPP);
    CF_FAILS_EITHER(set("file", DEFAULT, for_user, 5), EACCES, EOPNOTSUPP);
    CF_EQUAL(cf_stat("file").st_mode & 07777, 0644);
    cf_need_users();
    CF_OK(chmod("file", 0666));
    cf_become(CF_USER, CF_USER);
    CF_FAILS(set("file", ACCESS, for_user, 5), EPERM);
}

static const struct cf_case cases[] = {
    {"a named user gets what the list grants", named_user},
    {"members of a named group get what the list grants", named_group},
    {"chmod changes the mask, and the mask limits", mask_follows_chmod},
    {"a list of three entries is the mode", minimal_list_is_the_mode},
    {"a directory's default list is inherited, in place of the umask", defaults_are_inherited},
    {"malformed lists, lists on the wrong kind and by others", errors},
    {NULL, NULL},
};

const struct cf_topic cf_topic_acl = {"acl", cases};
