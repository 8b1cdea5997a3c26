/* SPDX-License-Identifier: BSD-2-Clause
 *
 * conformance_sync.c - statfs(2) and the fsync(2) family. That synced data survives a crash is what
 * tests/crash shows; here the calls must succeed wherever they may be made, and change nothing.
 */
#include <sys/statvfs.h>
#include <sys/vfs.h>

#include "conformance.h"

static void sizes_make_sense(void)
{
    struct statvfs status;
    CF_OK(statvfs(".", &status));
    CF_CHECK(status.f_bsize > 0 && status.f_frsize > 0);
    CF_CHECK(status.f_blocks > 0);
    CF_CHECK(status.f_bfree <= status.f_blocks);
    CF_CHECK(status.f_bavail <= status.f_bfree);
    CF_CHECK(status.f_ffree <= status.f_files);
    CF_EQUAL(status.f_namemax, 255);
}

static void same_everywhere(void)
{
    struct statfs here, file, open_file;
    cf_write_file("file", "x");
    CF_OK(statfs(".", &here));
    CF_OK(statfs("file", &file));
    CF_OK(fstatfs(CF_OK(open("file", O_RDONLY)), &open_file));
    CF_EQUAL(file.f_blocks, here.f_blocks);
    CF_EQUAL(open_file.f_blocks, here.f_blocks);
    CF_EQUAL(file.f_type, here.f_type);
    CF_FAILS(statfs("missing", &file), ENOENT);
    CF_FAILS(statfs("file/below", &file), ENOTDIR);
}

static void block_size(void)
{
    cf_write_file("file", "x");
    const blksize_t size = cf_stat("file").st_blksize;
    CF_CHECK(size >= 512 && (size & (size - 1)) == 0);
}

static void files(void)
{
    const size_t size = 500000;
    unsigned char *data = cf_pattern(size, 1), *copy = malloc(size);
    CF_CHECK(copy != NULL);
    const int fd = cf_open("file");
    CF_OK(fsync(fd)); /* nothing to do */
    cf_pwrite(fd, data, size, 0);
    CF_OK(fsync(fd));
    cf_pwrite(fd, data, 100, 250000);
    CF_OK(fdatasync(fd));
    const int reader = CF_OK(open("file", O_RDONLY));
    CF_OK(fsync(reader));
    cf_pread(reader, copy, size, 0);
    memcpy(data + 250000, data, 100);
    CF_SAME(copy, data, size);
    CF_OK(syncfs(fd));
}

static void directories(void)
{
    CF_OK(mkdir("dir", 0755));
    const int fd = CF_OK(open("dir", O_RDONLY | O_DIRECTORY));
    CF_OK(fsync(fd));
    cf_write_file("dir/file", "abc");
    CF_OK(fsync(fd));
    CF_OK(fdatasync(fd));
    CF_OK(unlink("dir/file"));
    CF_OK(rmdir("dir"));
    CF_OK(fsync(fd)); /* also of a removed one */
}

static void other_kinds(void)
{
    CF_OK(mkfifo("fifo", 0644));
    CF_FAILS(fsync(CF_OK(open("fifo", O_RDWR))), EINVAL);
    CF_FAILS(fsync(-1), EBADF);
}

static void unlinked_files(void)
{
    const int fd = cf_open("file");
    cf_pwrite(fd, "abc", 3, 0);
    CF_OK(unlink("file"));
    CF_OK(fsync(fd));
    cf_expect_fill(fd, 'a', 1, 0);
}

struct writer {
    unsigned number;
};

static void write_and_sync(void *arg)
{
    char name[32] = "";
    snprintf(name, sizeof name, "file-%u", ((const struct writer *)arg)->number);
    const int fd = cf_open(name);
    for (unsigned i = 0; i < 20; i++) {
        cf_pwrite(fd, name, sizeof name, (off_t)i * 5000);
        CF_OK(fsync(fd));
    }
}

static void in_parallel(void)
{
    struct writer writers[4];
    pid_t children[4];
    for (unsigned i = 0; i < 4; i++) {
        writers[i].number = i;
        children[i] = cf_fork(write_and_sync, &writers[i]);
    }
    for (unsigned i = 0; i < 4; i++)
        cf_join(children[i]);
    for (unsigned i = 0; i < 4; i++) {
        char name[32];
        snprintf(name, sizeof name, "file-%u", i);
        CF_EQUAL(cf_stat(name).st_size, 95000 + 32);
    }
}

static const struct cf_case cases[] = {
    {"statvfs: free is not more than all, names have 255 bytes", sizes_make_sense},
    {"statfs answers alike for directory, file and descriptor", same_everywhere},
    {"st_blksize is a power of two", block_size},
    {"fsync, fdatasync and syncfs of files, also read-only descriptors", files},
    {"fsync of directories, also removed ones", directories},
    {"fsync of a FIFO is EINVAL", other_kinds},
    {"fsync of an unlinked file", unlinked_files},
    {"four processes write and sync", in_parallel},
    {NULL, NULL},
};

const struct cf_topic cf_topic_sync = {"sync", cases};
