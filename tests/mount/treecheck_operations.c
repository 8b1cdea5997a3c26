/* SPDX-License-Identifier: BSD-2-Clause
 *
 * treecheck_operations.c - operations on names and attributes, each done to the file system and to
 * the model. What the model cannot hold (a tree that is full) is not done to either.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "treecheck.h"

static const char *const xattr_names[TC_XATTRS] = {"user.a", "user.second",
                                                   "user.\xc3\xa4\xff with a longer name"};

const char *tc_xattr_name(unsigned number)
{
    return xattr_names[number % TC_XATTRS];
}

/* Name numbers become: short and long ones, 255 bytes, and bytes that are no UTF-8. */
void tc_name(const struct tc_worker *worker, bool common, unsigned name, char text[256])
{
    static const char *const bases[TC_NAMES] = {"a",        "b",     "c.txt", "D",
                                                "\xff\xfe", "a b\n", "f",     "\xc3\xa9"};
    char prefix[16];
    snprintf(prefix, sizeof prefix, "p%u-", worker->number);
    const char *base = name < TC_NAMES ? bases[name] : NULL;
    if (base) {
        snprintf(text, 256, "%s%s", common ? "" : prefix, base);
    } else { /* as long as a name can be */
        const int used = snprintf(text, 256, "%s", common ? "" : prefix);
        memset(text + used, 'z', (size_t)(255 - used));
        text[255] = '\0';
    }
}

void tc_text(const struct tc_call *call, const struct tc_path *path, char text[TC_TEXT])
{
    size_t used = 0;
    text[0] = '\0';
    for (unsigned i = 0; i < path->depth; i++) {
        char name[256];
        tc_name(call->worker, call->op->common, path->name[i], name);
        used += (size_t)snprintf(text + used, TC_TEXT - used, "%s%s", i ? "/" : "", name);
    }
    if (!path->depth)
        strcpy(text, ".");
}

void tc_expect(const struct tc_call *call, long result, long expected)
{
    const long got = result == -1 ? -errno : result;
    if (got == expected)
        return;
    tc_fail(call, "returned %ld (%s), expected %ld (%s)", got,
            got < 0 ? strerror((int)-got) : "done", expected,
            expected < 0 ? strerror((int)-expected) : "done");
}

/* ---- making and removing ------------------------------------------------------------------------ */

/* A name is to be made: 0, -EEXIST or the path's error. *room: the model can hold one more. */
static int check_new(const struct tc_call *call, const struct tc_path *path, struct tc_place *place)
{
    const int error = tc_resolve(call->tree, path, false, place);
    return error ? error : place->node >= 0 ? -EEXIST : 0;
}

bool tc_do_mkdir(const struct tc_call *call)
{
    char text[TC_TEXT];
    struct tc_place place;
    const int error = check_new(call, &call->op->path, &place);
    if (!error && tc_model_full(call->tree))
        return true;
    tc_text(call, &call->op->path, text);
    tc_expect(call, mkdirat(call->top, text, 0755), error);
    if (!error)
        tc_model_make(call->tree, &place, TC_DIRECTORY, 0755);
    return true;
}

bool tc_do_mkfifo(const struct tc_call *call)
{
    char text[TC_TEXT];
    struct tc_place place;
    const int error = check_new(call, &call->op->path, &place);
    if (!error && tc_model_full(call->tree))
        return true;
    tc_text(call, &call->op->path, text);
    tc_expect(call, mkfifoat(call->top, text, 0640), error);
    if (!error)
        tc_model_make(call->tree, &place, TC_FIFO, 0640);
    return true;
}

bool tc_do_symlink(const struct tc_call *call)
{
    char text[TC_TEXT], target[256];
    struct tc_place place;
    const int error = check_new(call, &call->op->path, &place);
    if (!error && tc_model_full(call->tree))
        return true;
    tc_name(call->worker, call->op->common, call->op->seed % TC_NAMES, target);
    tc_text(call, &call->op->path, text);
    tc_expect(call, symlinkat(target, call->top, text), error);
    if (!error) {
        const int node = tc_model_make(call->tree, &place, TC_SYMLINK, 0777);
        call->tree->node[node].target = call->op->seed % TC_NAMES;
    }
    return true;
}

bool tc_do_link(const struct tc_call *call)
{
    char text[TC_TEXT], text2[TC_TEXT];
    struct tc_place from, to;
    const struct tc_op *op = call->op;
    struct tc_tree *tree = call->tree;
    int error = tc_resolve(tree, &op->path, false, &from);
    error = error ? error : from.node < 0 ? -ENOENT : check_new(call, &op->path2, &to);
    if (!error && tree->node[from.node].kind == TC_DIRECTORY)
        error = -EPERM;
    tc_text(call, &op->path, text);
    tc_text(call, &op->path2, text2);
    tc_expect(call, linkat(call->top, text, call->top, text2, 0), error);
    if (!error) {
        tree->node[from.node].names++;
        tree->node[to.parent].child[to.name] = from.node;
        tree->node[to.parent].time_known = false;
    }
    return true;
}

bool tc_do_unlink(const struct tc_call *call)
{
    char text[TC_TEXT];
    struct tc_place place;
    int error = tc_resolve(call->tree, &call->op->path, false, &place);
    if (!error)
        error = place.node < 0                                      ? -ENOENT
                : call->tree->node[place.node].kind == TC_DIRECTORY ? -EISDIR
                                                                    : 0;
    tc_text(call, &call->op->path, text);
    tc_expect(call, unlinkat(call->top, text, 0), error);
    if (!error)
        tc_model_unlink(call->tree, &place);
    return true;
}

bool tc_do_rmdir(const struct tc_call *call)
{
    char text[TC_TEXT];
    struct tc_place place;
    int error = tc_resolve(call->tree, &call->op->path, false, &place);
    if (!error)
        error = place.node < 0                                      ? -ENOENT
                : call->tree->node[place.node].kind != TC_DIRECTORY ? -ENOTDIR
                : !tc_model_empty(call->tree, place.node)           ? -ENOTEMPTY
                                                                    : 0;
    tc_text(call, &call->op->path, text);
    tc_expect(call, unlinkat(call->top, text, AT_REMOVEDIR), error);
    if (!error)
        tc_model_unlink(call->tree, &place);
    return true;
}

/* A planted fault: after an exchange, one of the two files has lost an attribute. */
static void plant_exchange(const struct tc_call *call, const char *text)
{
    const char *plant = call->worker->plant;
    if (plant && strcmp(plant, "exchange") == 0 && (call->op->flags & 2)) {
        const int fd = openat(call->top, text, O_RDONLY | O_NONBLOCK | O_NOFOLLOW);
        if (fd >= 0) {
            fremovexattr(fd, xattr_names[0]);
            close(fd);
        }
    }
}

bool tc_do_rename(const struct tc_call *call)
{
    char text[TC_TEXT], text2[TC_TEXT];
    const struct tc_op *op = call->op;
    tc_text(call, &op->path, text);
    tc_text(call, &op->path2, text2);
    const long result = syscall(SYS_renameat2, call->top, text, call->top, text2, op->flags);
    const int code = errno;
    if (result == -1 && code == EINVAL && op->flags) {
        struct tc_place from, to; /* a file system without flags says so before it looks */
        if (tc_resolve(call->tree, &op->path, false, &from) == 0 && from.node >= 0 &&
            call->tree->node[from.node].kind != TC_DIRECTORY &&
            tc_resolve(call->tree, &op->path2, false, &to) == 0 &&
            (to.node < 0 || call->tree->node[to.node].kind != TC_DIRECTORY))
            return false;
    }
    errno = code;
    tc_expect(call, result, tc_model_rename(call->tree, &op->path, &op->path2, op->flags));
    plant_exchange(call, text2);
    return true;
}

/* ---- attributes --------------------------------------------------------------------------------- */

/* The node that PATH leads to through symlinks, or a negative errno. */
static int find(const struct tc_call *call, const struct tc_path *path)
{
    struct tc_place place;
    const int error = tc_resolve(call->tree, path, true, &place);
    return error ? error : place.node < 0 ? -ENOENT : place.node;
}

bool tc_do_chmod(const struct tc_call *call)
{
    char text[TC_TEXT];
    const mode_t mode = 0600 | (call->op->flags & 01777);
    const int node = find(call, &call->op->path);
    const bool directory = node >= 0 && call->tree->node[node].kind == TC_DIRECTORY;
    tc_text(call, &call->op->path, text);
    tc_expect(call, fchmodat(call->top, text, directory ? mode | 0700 : mode, 0),
              node < 0 ? node : 0);
    if (node >= 0)
        call->tree->node[node].mode = directory ? mode | 0700 : mode;
    return true;
}

/* Pages stored through mappings set times when they are written: so that comes first. */
static void settle(const struct tc_call *call, const char *text)
{
    struct stat status;
    if (fstatat(call->top, text, &status, 0) || !S_ISREG(status.st_mode))
        return;
    const int fd = openat(call->top, text, O_RDWR);
    if (fd < 0 || fsync(fd) || close(fd))
        tc_fail(call, "fsync before the change of times: %s", strerror(errno));
}

bool tc_do_utimes(const struct tc_call *call)
{
    char text[TC_TEXT];
    const struct tc_op *op = call->op;
    const int node = find(call, &op->path);
    const struct timespec times[2] = {
        {.tv_sec = op->offset, .tv_nsec = UTIME_OMIT},
        {.tv_sec = (time_t)op->offset * 3 - 2000000000, .tv_nsec = op->seed % 1000000000}};
    tc_text(call, &op->path, text);
    if (node >= 0)
        settle(call, text);
    tc_expect(call, utimensat(call->top, text, times, 0), node < 0 ? node : 0);
    if (node >= 0) {
        call->tree->node[node].time_known = true;
        call->tree->node[node].mtime = times[1];
    }
    return true;
}

/* Opens for the f*xattr calls. An error that the model expects is checked: -1 then. */
static int open_for_xattr(const struct tc_call *call, int *node)
{
    char text[TC_TEXT];
    *node = find(call, &call->op->path);
    tc_text(call, &call->op->path, text);
    const int fd = openat(call->top, text, O_RDONLY | O_NONBLOCK);
    if (fd < 0)
        tc_expect(call, fd, *node < 0 ? *node : 0);
    else if (*node < 0)
        tc_expect(call, 0, *node);
    return fd;
}

bool tc_do_setxattr(const struct tc_call *call)
{
    unsigned char value[1000];
    const struct tc_op *op = call->op;
    const size_t length = op->length % sizeof value;
    int node, error = 0;
    const int fd = open_for_xattr(call, &node);
    if (fd < 0)
        return true;
    struct tc_node *file = &call->tree->node[node];
    struct tc_xattr *xattr = &file->xattr[op->offset % TC_XATTRS];
    const int flags = (int)(op->flags % 3); /* 0, XATTR_CREATE, XATTR_REPLACE */
    if (file->kind == TC_FIFO)
        error = -EPERM;
    else if (flags == XATTR_CREATE && xattr->set)
        error = -EEXIST;
    else if (flags == XATTR_REPLACE && !xattr->set)
        error = -ENODATA;
    tc_fill(value, length, op->seed);
    const int result = fsetxattr(fd, tc_xattr_name(op->offset), value, length, flags);
    const int code = errno;
    close(fd);
    if (result == -1 && code == EOPNOTSUPP)
        return false;
    errno = code;
    tc_expect(call, result, error);
    if (!error)
        *xattr = (struct tc_xattr){.set = true, .length = (uint32_t)length, .seed = op->seed};
    return true;
}

bool tc_do_removexattr(const struct tc_call *call)
{
    const struct tc_op *op = call->op;
    int node;
    const int fd = open_for_xattr(call, &node);
    if (fd < 0)
        return true;
    struct tc_node *file = &call->tree->node[node];
    struct tc_xattr *xattr = &file->xattr[op->offset % TC_XATTRS];
    const int result = fremovexattr(fd, tc_xattr_name(op->offset));
    const int code = errno;
    close(fd);
    if (result == -1 && code == EOPNOTSUPP)
        return false;
    errno = code;
    tc_expect(call, result, file->kind == TC_FIFO ? -EPERM : xattr->set ? 0 : -ENODATA);
    xattr->set = false;
    return true;
}

/* ---- looking ------------------------------------------------------------------------------------ */

/* fsync of a directory or file by its path, or syncfs. */
bool tc_do_sync_path(const struct tc_call *call)
{
    char text[TC_TEXT];
    const int node = find(call, &call->op->path);
    tc_text(call, &call->op->path, text);
    const int fd = openat(call->top, text, O_RDONLY | O_NONBLOCK);
    if (fd < 0 || node < 0) {
        tc_expect(call, fd < 0 ? -1 : 0, node < 0 ? node : 0);
        return true;
    }
    const bool fifo = call->tree->node[node].kind == TC_FIFO;
    const bool all = call->op->flags % 8 == 0;
    const int result = all ? syncfs(fd) : fsync(fd);
    const int code = errno;
    close(fd);
    errno = code;
    tc_expect(call, result, fifo && !all ? -EINVAL : 0);
    return true;
}

static void look(const struct tc_call *call, bool content)
{
    char text[TC_TEXT];
    struct stat status;
    struct tc_place place;
    int error = tc_resolve(call->tree, &call->op->path, false, &place);
    error = error ? error : place.node < 0 ? -ENOENT : 0;
    tc_text(call, &call->op->path, text);
    tc_expect(call, fstatat(call->top, text, &status, AT_SYMLINK_NOFOLLOW), error);
    if (!error)
        tc_compare_node(call, place.node, call->top, text, content);
}

bool tc_do_look(const struct tc_call *call)
{
    look(call, false);
    return true;
}

bool tc_do_verify(const struct tc_call *call)
{
    look(call, true);
    return true;
}

/* The whole tree: a mistake is found soon after it was made, and the list is short from the start. */
bool tc_do_compare(const struct tc_call *call)
{
    if (call->op->flags % 4 == 0)
        tc_compare_tree(call->worker, call->op->common);
    return true;
}

/* What is not the file system's: compaction, caches dropped, and with one process a remount. */
bool tc_do_hook(const struct tc_call *call)
{
    static const char *const jobs[] = {"compact", "recode", "gc", "drop", "remount", "remount"};
    const char *job = jobs[call->op->flags % (sizeof jobs / sizeof *jobs)];
    struct tc_worker *worker = call->worker;
    if (call->op->flags & 0x100) /* half of them: they take most of the time */
        return true;
    if (strcmp(job, "remount") != 0) {
        tc_hook(worker, job);
        return true;
    }
    if (worker->processes > 1 || !worker->hook)
        return true;
    tc_leave(worker);
    tc_hook(worker, job);
    tc_enter(worker);
    tc_compare_tree(worker, false);
    tc_compare_tree(worker, true);
    return true;
}
