/* SPDX-License-Identifier: BSD-2-Clause
 *
 * umount.c - sepfs-umount: unmounts and returns when the daemon has written everything and exited.
 *
 * umount(8) returns as soon as the mount is gone, while the daemon may still be compressing. Here
 * the daemon is first asked to write what it holds: if that fails the mount stays, nothing is lost
 * and the reason is printed. A mount whose daemon has died is just removed.
 */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli.h"
#include "fs/fs.h"

static const char name[] = "sepfs-umount";

static const struct cli_option options[] = {
    {'z', "lazy", NULL, "detach now, let the daemon end when the last file is closed"},
    {0},
};

static const struct cli_program program = {
    .name = name,
    .purpose = "unmount a store and wait until everything is written",
    .synopsis = "MOUNTPOINT [-z]",
    .options = options,
    .usage_exit = 1,
};

/* Who is not root may unmount what he mounted, through the helper that is allowed to. */
static int run_helper(const char *mountpoint, bool lazy)
{
    const char *const arguments[] = {"fusermount3", lazy ? "-uz" : "-u", "--", mountpoint, NULL};
    int status;
    const pid_t child = fork();

    if (child < 0)
        return -errno;
    if (child == 0) {
        execvp(arguments[0], (char *const *)(uintptr_t)arguments);
        cli_error(name, arguments[0], "%s", strerror(errno));
        _exit(127);
    }
    while (waitpid(child, &status, 0) < 0) {
        if (errno != EINTR)
            return -errno;
    }
    return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? 0 : -ECANCELED; /* it said why */
}

static int detach(const char *mountpoint, bool lazy)
{
    if (geteuid() != 0)
        return run_helper(mountpoint, lazy);
    return umount2(mountpoint, UMOUNT_NOFOLLOW | (lazy ? MNT_DETACH : 0)) == 0 ? 0 : -errno;
}

static void ignore_field(void *arg, const char *key, const char *value)
{
    (void)arg;
    (void)key;
    (void)value;
}

struct question {
    const char *mountpoint;
    bool same;
};

static void compare_mountpoint(void *arg, const char *key, const char *value)
{
    struct question *question = arg;

    if (strcmp(key, "mountpoint") == 0)
        question->same = strcmp(value, question->mountpoint) == 0;
}

/* The daemon behind MOUNTPOINT; NULL when it can't be spoken to: it is dead, or the mount is read-only
 * and has nothing to write. Then the store's socket may be that of another mount. */
static struct fs_client *connect_daemon(const char *mountpoint, const char *store)
{
    struct question question = {mountpoint, false};
    struct fs_client *client;
    char text[256];

    if (fs_client_open(store, &client) != 0)
        return NULL;
    if (fs_client_call(client, "hello", compare_mountpoint, &question, text, sizeof text) == 0 &&
        question.same)
        return client;
    fs_client_close(client);
    return NULL;
}

/* 0: MOUNTPOINT and STORE are set. */
static int find(const char *path, char *mountpoint, char *store)
{
    uint64_t ino;
    int error;

    mountpoint[0] = store[0] = '\0';
    error = fs_client_find(path, mountpoint, store, &ino);
    if (error == -ENODEV) {
        cli_error(name, path, "no sepfs store is mounted there");
        return error;
    }
    if (error != 0 && mountpoint[0] == '\0') {
        cli_error(name, path, "%s", strerror(-error));
        return error;
    }
    /* otherwise a mount whose daemon does not answer (-ENOTCONN): it can still be removed */
    char *const real = realpath(path, NULL);
    const bool itself = real != NULL && strcmp(real, mountpoint) == 0;
    free(real);
    if (!itself) {
        cli_error(name, path, "not a mount point; it lies on the mount %s", mountpoint);
        return -EINVAL;
    }
    return 0;
}

static int unmount(const char *mountpoint, struct fs_client *client, bool lazy)
{
    char text[512] = "";
    int error = 0;

    if (client != NULL && !lazy) {
        error = fs_client_call(client, "sync", ignore_field, NULL, text, sizeof text);
        if (error != 0 && error != -EIO) { /* -EIO: the daemon went away meanwhile */
            cli_error(name, mountpoint, "still mounted, because data could not be written: %s",
                      text[0] != '\0' ? text : strerror(-error));
            return error;
        }
    }
    error = detach(mountpoint, lazy);
    if (error == -EBUSY)
        cli_error(name, mountpoint,
                  "busy: a process has files open or its working directory there "
                  "('fuser -vm %s' lists them)",
                  mountpoint);
    else if (error != 0 && error != -ECANCELED)
        cli_error(name, mountpoint, "%s", strerror(-error));
    if (error != 0 || client == NULL || lazy)
        return error;
    error = fs_client_wait_exit(client, -1);
    if (error != 0)
        cli_error(name, mountpoint, "unmounted, but waiting for the daemon failed: %s",
                  strerror(-error));
    return error;
}

int main(int argc, char **argv)
{
    char mountpoint[PATH_MAX], store[PATH_MAX];
    struct fs_client *client;
    struct cli cli;
    bool lazy = false;
    int error;

    cli_begin(&cli, &program, argc, argv);
    for (int id; (id = cli_next(&cli)) != CLI_END;) {
        if (id == CLI_EXIT)
            return cli.exit_code;
        lazy = true;
    }
    if (cli.count != 1)
        return cli_usage(&cli, "one mount point is needed");
    if (find(cli.arguments[0], mountpoint, store) != 0)
        return 1;
    client = connect_daemon(mountpoint, store);
    error = unmount(mountpoint, client, lazy);
    fs_client_close(client);
    return error == 0 ? 0 : 1;
}
