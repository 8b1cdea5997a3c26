/* SPDX-License-Identifier: BSD-2-Clause
 *
 * conformance_mode.c - chmod(2), access(2), and the set-id bits. Cases that need several users run as
 * root only.
 */
#include "conformance.h"

static void all_modes(void)
{
    if (geteuid() != 0)
        CF_SKIP("without root the mode 0000 and foreign set-id bits get in the way");
    cf_write_file("file", "x");
    CF_OK(mkdir("dir", 0755));
    for (mode_t mode = 0; mode <= 07777; mode += 0111 + 2 * (mode % 7)) {
        CF_OK(chmod("file", mode));
        CF_EQUAL(cf_stat("file").st_mode, S_IFREG | mode);
        CF_OK(chmod("dir", mode));
        CF_EQUAL(cf_stat("dir").st_mode, S_IFDIR | mode);
    }
    CF_OK(chmod("file", 07777));
    CF_EQUAL(cf_stat("file").st_mode, S_IFREG | 07777);
}

static void through_descriptor_and_link(void)
{
    const int fd = cf_open("file");
    CF_OK(symlink("file", "link"));
    CF_OK(fchmod(fd, 0600));
    CF_EQUAL(cf_stat("file").st_mode & 07777, 0600);
    CF_OK(chmod("link", 0640));
    CF_EQUAL(cf_stat("file").st_mode & 07777, 0640);
    CF_CHECK(S_ISLNK(cf_stat("link").st_mode));
    CF_FAILS(chmod("missing", 0600), ENOENT);
    CF_FAILS(chmod("file/below", 0600), ENOTDIR);
}

static void owner_only(void)
{
    cf_need_users();
    cf_write_file("file", "x");
    CF_OK(chmod("file", 0666));
    cf_become(CF_USER, CF_USER);
    CF_FAILS(chmod("file", 0777), EPERM);
    cf_write_file("own", "x");
    CF_OK(chmod("own", 0700));
    CF_EQUAL(cf_stat("own").st_mode & 07777, 0700);
}

static void classes(void)
{
    cf_need_users();
    /* Owner, group and others: the first class that fits decides, even when a later one allows more. */
    static const struct {
        mode_t mode;
        uid_t uid;
        gid_t gid;
        bool readable;
    } rows[] = {
        {0400, CF_USER, CF_USER, true},   {0077, CF_USER, CF_USER, false},
        {0040, CF_OTHER, CF_USER, true},  {0707, CF_OTHER, CF_USER, false},
        {0004, CF_OTHER, CF_OTHER, true}, {0770, CF_OTHER, CF_OTHER, false},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        cf_become_root();
        cf_write_file("file", "abc");
        CF_OK(chown("file", CF_USER, CF_USER));
        CF_OK(chmod("file", rows[i].mode));
        cf_become(rows[i].uid, rows[i].gid);
        if (rows[i].readable)
            CF_OK(close(CF_OK(open("file", O_RDONLY))));
        else
            CF_FAILS(open("file", O_RDONLY), EACCES);
        CF_EQUAL(faccessat(AT_FDCWD, "file", R_OK, AT_EACCESS), rows[i].readable ? 0 : -1);
    }
}

static void supplementary_groups(void)
{
    cf_need_users();
    const gid_t groups[] = {2001, 2002};
    cf_write_file("file", "abc");
    CF_OK(chown("file", 0, 2002));
    CF_OK(chmod("file", 0640));
    cf_become_with(CF_USER, CF_USER, groups, 2);
    cf_expect_file("file", "abc");
    cf_become_with(CF_USER, CF_USER, groups, 1);
    CF_FAILS(open("file", O_RDONLY), EACCES);
}

static void search_and_list(void)
{
    cf_need_users();
    CF_OK(mkdir("search", 0755));
    CF_OK(mkdir("list", 0755));
    cf_write_file("search/file", "abc");
    cf_write_file("list/file", "abc");
    CF_OK(chmod("search", 0711));
    CF_OK(chmod("list", 0744));
    cf_become(CF_USER, CF_USER);
    cf_expect_file("search/file", "abc");
    CF_FAILS(open("search", O_RDONLY | O_DIRECTORY), EACCES);
    CF_OK(close(CF_OK(open("list", O_RDONLY | O_DIRECTORY))));
    struct stat status;
    CF_FAILS(stat("list/file", &status), EACCES);
}

static void access_calls(void)
{
    cf_need_users();
    cf_write_file("file", "x");
    CF_OK(chmod("file", 0600));
    CF_OK(access("file", R_OK | W_OK));
    CF_FAILS(access("file", X_OK), EACCES); /* root, too, needs one x bit */
    CF_OK(chmod("file", 0601));
    CF_OK(access("file", X_OK));
    CF_FAILS(access("missing", F_OK), ENOENT);
    CF_FAILS(access("file/below", F_OK), ENOTDIR);
}

static void chmod_drops_foreign_sgid(void)
{
    cf_need_users();
    const gid_t groups[] = {2001};
    cf_write_file("file", "x");
    CF_OK(chown("file", CF_USER, 2002));
    cf_become_with(CF_USER, CF_USER, groups, 1);
    CF_OK(chmod("file", 02755));
    CF_EQUAL(cf_stat("file").st_mode & 07777, 0755); /* not a member of group 2002 */
    cf_become_root();
    CF_OK(chown("file", CF_USER, 2001));
    cf_become_with(CF_USER, CF_USER, groups, 1);
    CF_OK(chmod("file", 02755));
    CF_EQUAL(cf_stat("file").st_mode & 07777, 02755);
}

/* Whoever changes the content of a set-id program must not keep its powers. */
static void change_drops_set_id(void)
{
    cf_need_users();
    enum { WRITE, TRUNCATE, OPEN_TRUNCATE, WAYS };
    for (int way = 0; way < WAYS; way++) {
        cf_become_root();
        cf_write_file("file", "program");
        CF_OK(chmod("file", 06777));
        cf_become(CF_USER, CF_USER);
        const int fd = CF_OK(open("file", O_RDWR | (way == OPEN_TRUNCATE ? O_TRUNC : 0)));
        CF_EQUAL(cf_stat("file").st_mode & 07777, way == OPEN_TRUNCATE ? 0777 : 06777);
        if (way == WRITE)
            cf_pwrite(fd, "x", 1, 0);
        if (way == TRUNCATE)
            CF_OK(ftruncate(fd, 2));
        CF_EQUAL(cf_stat("file").st_mode & 07777, 0777);
        CF_OK(close(fd));
    }
}

static void root_write_keeps_set_id(void)
{
    if (geteuid() != 0)
        CF_SKIP("for root only");
    const int fd = cf_open("file");
    CF_OK(fchmod(fd, 06755));
    cf_pwrite(fd, "x", 1, 0);
    CF_EQUAL(cf_fstat(fd).st_mode & 07777, 06755);
}

static const struct cf_case cases[] = {
    {"every permission, set-id and sticky bit is kept", all_modes},
    {"fchmod and chmod through a symlink change the file", through_descriptor_and_link},
    {"only the owner may chmod", owner_only},
    {"owner, group, others: the first class that fits decides", classes},
    {"supplementary groups count", supplementary_groups},
    {"x on a directory lets pass, r lets list", search_and_list},
    {"access(2) answers for the caller", access_calls},
    {"chmod by the owner drops the sgid bit of a foreign group", chmod_drops_foreign_sgid},
    {"writing or truncating as another user drops the set-id bits", change_drops_set_id},
    {"a write by root keeps the set-id bits", root_write_keeps_set_id},
    {NULL, NULL},
};

const struct cf_topic cf_topic_mode = {"mode", cases};
