/* SPDX-License-Identifier: BSD-2-Clause
 *
 * treecheck_compare.c - what the file system shows, held against the model: type, mode, links, size,
 * times that were set, attributes, targets, contents, and which names a directory lists.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "treecheck.h"

void tc_compare_bytes(const struct tc_call *call, int node, const unsigned char *got, size_t offset,
                      size_t length, const char *how)
{
    const unsigned char *want = call->tree->data[node] + offset;
    if (memcmp(got, want, length) == 0)
        return;
    size_t first = 0, last = length;
    while (got[first] == want[first])
        first++;
    while (got[last - 1] == want[last - 1])
        last--;
    tc_fail(call,
            "%s of %zu bytes at %zu: the first wrong byte is at %zu (0x%02x, expected 0x%02x), the "
            "last at %zu; the size is %zu",
            how, length, offset, offset + first, got[first], want[first], offset + last - 1,
            call->tree->node[node].size);
}

static void compare_content(const struct tc_call *call, int node, int at, const char *name)
{
    const size_t size = call->tree->node[node].size;
    unsigned char *buffer = call->worker->other;
    const int fd = openat(at, name, O_RDONLY | O_NOFOLLOW);
    if (fd < 0)
        tc_fail(call, "open for comparison: %s", strerror(errno));
    for (size_t done = 0; done <= size;) {
        const ssize_t got = read(fd, buffer, TC_LIMIT);
        if (got < 0 || done + (size_t)got > size || (got == 0 && done < size))
            tc_fail(call, "read at %zu of %zu returned %zd (%s)", done, size, got,
                    got < 0 ? strerror(errno) : "no error");
        if (got == 0)
            break;
        tc_compare_bytes(call, node, buffer, done, (size_t)got, "read");
        done += (size_t)got;
    }
    close(fd);
}

/* Attributes of the user namespace, all of them. */
static void compare_xattrs(const struct tc_call *call, int node, int at, const char *name)
{
    char list[4096];
    unsigned char value[1000], expected[1000];
    unsigned listed = 0, set = 0;
    const int fd = openat(at, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK);
    const ssize_t size = fd < 0 ? -1 : flistxattr(fd, list, sizeof list);
    if (size < 0 && fd >= 0 && errno == EOPNOTSUPP) {
        close(fd);
        return;
    }
    if (size < 0)
        tc_fail(call, "listxattr: %s", strerror(errno));
    for (ssize_t i = 0; i < size; i += (ssize_t)strlen(list + i) + 1)
        listed += strncmp(list + i, "user.", 5) == 0;
    for (unsigned i = 0; i < TC_XATTRS; i++) {
        const struct tc_xattr *xattr = &call->tree->node[node].xattr[i];
        const ssize_t got = fgetxattr(fd, tc_xattr_name(i), value, sizeof value);
        set += xattr->set;
        if (!xattr->set && got == -1 && (errno == ENODATA || errno == EOPNOTSUPP))
            continue;
        tc_fill(expected, xattr->length, xattr->seed);
        if (!xattr->set || got != (ssize_t)xattr->length ||
            memcmp(value, expected, xattr->length) != 0)
            tc_fail(call, "attribute %s is wrong: %zd bytes, expected %s%u", tc_xattr_name(i), got,
                    xattr->set ? "" : "none, not ", xattr->length);
    }
    if (listed != set)
        tc_fail(call, "%u attributes are listed, expected %u", listed, set);
    close(fd);
}

static void compare_target(const struct tc_call *call, int node, int at, const char *name)
{
    char target[512], expected[256];
    tc_name(call->worker, call->op->common, call->tree->node[node].target, expected);
    const ssize_t length = readlinkat(at, name, target, sizeof target);
    if (length != (ssize_t)strlen(expected) || memcmp(target, expected, (size_t)length) != 0)
        tc_fail(call, "the symlink's target is wrong (%zd bytes)", length);
}

static void compare_status(const struct tc_call *call, int number, const struct stat *status)
{
    static const mode_t types[] = {0, S_IFREG, S_IFDIR, S_IFLNK, S_IFIFO};
    const struct tc_node *node = &call->tree->node[number];
    if (status->st_mode != (types[node->kind] | node->mode))
        tc_fail(call, "the mode is %06o, expected %06o", status->st_mode,
                types[node->kind] | node->mode);
    if (number == 0)
        return; /* links and times of the top are not this process's alone */
    const unsigned links =
        node->kind == TC_DIRECTORY ? 2 + tc_model_subdirectories(call->tree, number) : node->names;
    if (status->st_nlink != links)
        tc_fail(call, "%ju links, expected %u", (uintmax_t)status->st_nlink, links);
    if (node->kind == TC_FILE && status->st_size != (off_t)node->size)
        tc_fail(call, "the size is %jd, expected %zu", (intmax_t)status->st_size, node->size);
    if (node->time_known && (status->st_mtim.tv_sec != node->mtime.tv_sec ||
                             status->st_mtim.tv_nsec != node->mtime.tv_nsec))
        tc_fail(call, "mtime is %jd.%09ld, was set to %jd.%09ld", (intmax_t)status->st_mtim.tv_sec,
                status->st_mtim.tv_nsec, (intmax_t)node->mtime.tv_sec, node->mtime.tv_nsec);
}

/* Which of the directory's names NAME is; TC_NAMES: none. */
static unsigned number_of(const struct tc_call *call, const char *name)
{
    char text[256];
    for (unsigned i = 0; i < TC_NAMES; i++) {
        tc_name(call->worker, call->op->common, i, text);
        if (strcmp(name, text) == 0)
            return i;
    }
    return TC_NAMES;
}

static void compare_entry(const struct tc_call *call, int node, const struct dirent *entry,
                          unsigned char *seen)
{
    static const unsigned char types[] = {0, DT_REG, DT_DIR, DT_LNK, DT_FIFO};
    const unsigned number = number_of(call, entry->d_name);
    if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
        return;
    if (number == TC_NAMES) {
        if (node == 0 && !call->op->common)
            return; /* another process's */
        tc_fail(call, "the directory lists a name that was never made: %s", entry->d_name);
    }
    const int child = call->tree->node[node].child[number];
    if (child < 0)
        tc_fail(call, "the directory lists %u, which is not there", number);
    if (seen[number]++)
        tc_fail(call, "the directory lists %u twice", number);
    if (entry->d_type != DT_UNKNOWN && entry->d_type != types[call->tree->node[child].kind])
        tc_fail(call, "the directory lists %u with type %u", number, entry->d_type);
}

static void compare_listing(const struct tc_call *call, int node, int at, const char *name)
{
    unsigned char seen[TC_NAMES] = {0};
    const int fd = openat(at, name, O_RDONLY | O_DIRECTORY);
    DIR *directory = fd < 0 ? NULL : fdopendir(fd);
    if (!directory)
        tc_fail(call, "opendir: %s", strerror(errno));
    errno = 0;
    for (const struct dirent *entry; (entry = readdir(directory));)
        compare_entry(call, node, entry, seen);
    if (errno)
        tc_fail(call, "readdir: %s", strerror(errno));
    for (unsigned i = 0; i < TC_NAMES; i++) {
        if (call->tree->node[node].child[i] >= 0 && !seen[i])
            tc_fail(call, "the directory does not list %u", i);
    }
    closedir(directory);
}

void tc_compare_node(const struct tc_call *call, int node, int at, const char *name, bool content)
{
    struct stat status;
    const enum tc_kind kind = call->tree->node[node].kind;
    if (fstatat(at, name, &status, AT_SYMLINK_NOFOLLOW))
        tc_fail(call, "stat: %s", strerror(errno));
    compare_status(call, node, &status);
    if (kind == TC_SYMLINK)
        compare_target(call, node, at, name);
    if (kind == TC_FILE || kind == TC_DIRECTORY)
        compare_xattrs(call, node, at, name);
    if (kind == TC_FILE && content)
        compare_content(call, node, at, name);
    if (kind == TC_DIRECTORY)
        compare_listing(call, node, at, name);
}

/* Everything below NODE, the names of one file against each other by ino. */
static void compare_below(const struct tc_call *call, int node, int at, ino_t *inodes)
{
    for (unsigned i = 0; i < TC_NAMES; i++) {
        char name[256];
        struct stat status;
        const int child = call->tree->node[node].child[i];
        if (child < 0)
            continue;
        tc_name(call->worker, call->op->common, i, name);
        tc_compare_node(call, child, at, name, !inodes[child]);
        if (fstatat(at, name, &status, AT_SYMLINK_NOFOLLOW))
            tc_fail(call, "stat: %s", strerror(errno));
        if (inodes[child] && inodes[child] != status.st_ino)
            tc_fail(call, "two names of one file lead to different ones");
        inodes[child] = status.st_ino;
        if (call->tree->node[child].kind != TC_DIRECTORY)
            continue;
        const int fd = openat(at, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
        if (fd < 0)
            tc_fail(call, "open directory: %s", strerror(errno));
        compare_below(call, child, fd, inodes);
        close(fd);
    }
}

void tc_compare_tree(struct tc_worker *worker, bool common)
{
    ino_t inodes[TC_NODES] = {0};
    struct tc_op op = {.kind = (uint8_t)tc_kind_named("verify"), .common = common};
    const struct tc_call call = {.worker = worker,
                                 .tree = common ? &worker->board->common
                                                : &worker->board->own[worker->number],
                                 .op = &op,
                                 .top = common ? worker->common : worker->own};
    compare_listing(&call, 0, call.top, ".");
    compare_below(&call, 0, call.top, inodes);
}
