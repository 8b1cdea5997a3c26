/* SPDX-License-Identifier: BSD-2-Clause
 *
 * conformance_owner.c - chown(2), and directories with the sgid or the sticky bit.
 */
#include "conformance.h"

#define NO_CHANGE ((uid_t)-1)

static void root_gives_away(void)
{
    if (geteuid() != 0)
        CF_SKIP("only root may give files away");
    const int fd = cf_open("file");
    CF_OK(mkdir("dir", 0755));
    CF_OK(symlink("file", "link"));
    CF_OK(chown("file", 12345, 54321));
    CF_EQUAL(cf_stat("file").st_uid, 12345);
    CF_EQUAL(cf_stat("file").st_gid, 54321);
    CF_OK(fchown(fd, NO_CHANGE, 7));
    CF_EQUAL(cf_stat("file").st_uid, 12345);
    CF_EQUAL(cf_stat("file").st_gid, 7);
    CF_OK(chown("dir", 4000000000u, NO_CHANGE));
    CF_EQUAL(cf_stat("dir").st_uid, 4000000000u);
    CF_EQUAL(cf_stat("dir").st_gid, getegid());
    CF_OK(lchown("link", 8, 9));
    CF_EQUAL(cf_stat("link").st_uid, 8);
    CF_EQUAL(cf_stat("link").st_gid, 9);
    CF_EQUAL(cf_stat("file").st_gid, 7);
    CF_OK(chown("link", 10, 11));
    CF_EQUAL(cf_stat("file").st_gid, 11);
    CF_FAILS(chown("missing", 1, 1), ENOENT);
}

static void owner_changes_group(void)
{
    cf_need_users();
    const gid_t groups[] = {2001, 2002};
    cf_write_file("file", "x");
    CF_OK(chown("file", CF_USER, CF_USER));
    cf_become_with(CF_USER, CF_USER, groups, 2);
    CF_OK(chown("file", NO_CHANGE, 2002));
    CF_EQUAL(cf_stat("file").st_gid, 2002);
    CF_OK(chown("file", CF_USER, 2001));
    CF_FAILS(chown("file", NO_CHANGE, 2003), EPERM);
    CF_FAILS(chown("file", CF_OTHER, NO_CHANGE), EPERM);
    CF_EQUAL(cf_stat("file").st_gid, 2001);
    cf_become_with(CF_OTHER, 2002, groups, 2);
    CF_FAILS(chown("file", NO_CHANGE, 2002), EPERM);
}

static void chown_drops_set_id(void)
{
    cf_need_users();
    const gid_t groups[] = {2001};
    cf_write_file("file", "x");
    CF_OK(chown("file", CF_USER, CF_USER));
    CF_OK(chmod("file", 06755));
    cf_become_with(CF_USER, CF_USER, groups, 1);
    CF_OK(chown("file", NO_CHANGE, 2001));
    CF_EQUAL(cf_stat("file").st_mode & 07777, 0755);
    cf_become_root();
    CF_OK(chmod("file", 06755));
    CF_OK(chown("file", 0, 0)); /* Linux: for root as well */
    CF_EQUAL(cf_stat("file").st_mode & 07777, 0755);
    CF_OK(mkdir("dir", 0755));
    CF_OK(chmod("dir", 02775));
    CF_OK(chown("dir", CF_USER, 2001)); /* directories keep theirs */
    CF_EQUAL(cf_stat("dir").st_mode & 07777, 02775);
}

static void new_files_belong_to_caller(void)
{
    cf_need_users();
    cf_become(CF_USER, CF_OTHER);
    cf_write_file("file", "x");
    CF_OK(mkdir("dir", 0755));
    CF_OK(symlink("x", "link"));
    CF_OK(mkfifo("fifo", 0644));
    static const char *const names[] = {"file", "dir", "link", "fifo"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        CF_EQUAL(cf_stat(names[i]).st_uid, CF_USER);
        CF_EQUAL(cf_stat(names[i]).st_gid, CF_OTHER);
    }
}

static void sgid_directory_inherits(void)
{
    cf_need_users();
    CF_OK(mkdir("shared", 0777));
    CF_OK(chown("shared", 0, 2001));
    CF_OK(chmod("shared", 02777));
    cf_become(CF_USER, CF_USER);
    cf_write_file("shared/file", "x");
    CF_OK(mkdir("shared/dir", 0755));
    CF_OK(mkfifo("shared/fifo", 0644));
    CF_OK(symlink("x", "shared/link"));
    CF_EQUAL(cf_stat("shared/file").st_gid, 2001);
    CF_EQUAL(cf_stat("shared/fifo").st_gid, 2001);
    CF_EQUAL(cf_stat("shared/link").st_gid, 2001);
    CF_EQUAL(cf_stat("shared/dir").st_gid, 2001);
    CF_EQUAL(cf_stat("shared/dir").st_mode & 07777, 02755); /* the bit goes down the tree */
    CF_EQUAL(cf_stat("shared/file").st_mode & S_ISGID, 0);
    CF_OK(mkdir("shared/dir/deeper", 0755));
    CF_EQUAL(cf_stat("shared/dir/deeper").st_gid, 2001);
    CF_EQUAL(cf_stat("shared/dir/deeper").st_mode & S_ISGID, S_ISGID);
}

static void sgid_program_of_foreign_group(void)
{
    cf_need_users();
    CF_OK(mkdir("shared", 0777));
    CF_OK(chown("shared", 0, 2001));
    CF_OK(chmod("shared", 02777));
    cf_become(CF_USER, CF_USER);
    umask(0);
    CF_OK(close(CF_OK(open("shared/program", O_WRONLY | O_CREAT, 02775))));
    CF_EQUAL(cf_stat("shared/program").st_gid, 2001);
    CF_EQUAL(cf_stat("shared/program").st_mode & 07777, 0775); /* no way into group 2001 */
}

static void sticky_directory(void)
{
    cf_need_users();
    CF_OK(mkdir("tmp", 0777));
    CF_OK(chown("tmp", 500, 500));
    CF_OK(chmod("tmp", 01777));
    CF_OK(mkdir("open", 0777));
    CF_OK(chmod("open", 0777));
    cf_become(CF_USER, CF_USER);
    cf_write_file("tmp/file", "x");
    CF_OK(chmod("tmp/file", 0666));
    CF_OK(mkdir("tmp/dir", 0777));
    CF_OK(chmod("tmp/dir", 0777));
    cf_become(CF_OTHER, CF_OTHER);
    cf_write_file("tmp/mine", "y");
    CF_FAILS_EITHER(unlink("tmp/file"), EPERM, EACCES);
    CF_FAILS_EITHER(rmdir("tmp/dir"), EPERM, EACCES);
    CF_FAILS_EITHER(rename("tmp/file", "open/file"), EPERM, EACCES);
    CF_FAILS_EITHER(rename("tmp/mine", "tmp/file"), EPERM, EACCES);
    CF_OK(rename("tmp/mine", "tmp/still-mine"));
    CF_OK(unlink("tmp/still-mine"));
    cf_become(CF_USER, CF_USER);
    CF_OK(rename("tmp/file", "tmp/renamed"));
    cf_become(500, 500); /* the directory's owner may, too */
    CF_OK(unlink("tmp/renamed"));
    CF_OK(rmdir("tmp/dir"));
}

static const struct cf_case cases[] = {
    {"root gives files, directories and symlinks to any number", root_gives_away},
    {"the owner may choose among own groups only", owner_changes_group},
    {"chown drops the set-id bits of files", chown_drops_set_id},
    {"new files belong to the caller's user and group", new_files_belong_to_caller},
    {"an sgid directory hands its group down", sgid_directory_inherits},
    {"an sgid directory gives nobody an sgid program of its group", sgid_program_of_foreign_group},
    {"in a sticky directory only owners remove and rename", sticky_directory},
    {NULL, NULL},
};

const struct cf_topic cf_topic_owner = {"owner", cases};
