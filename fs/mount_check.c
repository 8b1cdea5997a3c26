/* SPDX-License-Identifier: BSD-2-Clause
 *
 * mount_check.c - the refusals of mount_check.h, each with its own text.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "mount_check.h"

#define FUSE_DEVICE "/dev/fuse"
#define FUSE_CONF   "/etc/fuse.conf"

struct refusal {
    char *text;
    size_t size;
};

__attribute__((format(printf, 3, 4))) static int refuse(const struct refusal *refusal, int error,
                                                        const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(refusal->text, refusal->size, format, arguments);
    va_end(arguments);
    return error;
}

/* ---- the store ------------------------------------------------------------------------------- */

/* A path whose last part may be missing. */
static int resolve_missing(const char *path, char resolved[PATH_MAX])
{
    char copy[PATH_MAX], parent[PATH_MAX];
    size_t length = strlen(path);
    const char *name;
    char *slash;

    if (length >= sizeof copy)
        return -ENAMETOOLONG;
    memcpy(copy, path, length + 1);
    while (length > 1 && copy[length - 1] == '/')
        copy[--length] = '\0';
    slash = strrchr(copy, '/');
    name = slash != NULL ? slash + 1 : copy;
    if (slash == copy)
        strcpy(parent, "/");
    else if (slash == NULL)
        strcpy(parent, ".");
    else
        snprintf(parent, sizeof parent, "%.*s", (int)(slash - copy), copy);
    if (realpath(parent, resolved) == NULL)
        return -errno;
    length = strlen(resolved);
    if (length + strlen(name) + 2 > PATH_MAX)
        return -ENAMETOOLONG;
    if (resolved[length - 1] != '/')
        resolved[length++] = '/';
    strcpy(resolved + length, name);
    return 0;
}

static int check_store(const char *store, const struct fs_options *options, char *resolved,
                       const struct refusal *refusal)
{
    struct stat stat_buffer;
    int error = 0;

    if (*store == '\0')
        return refuse(refusal, -EINVAL, "the store's path is empty");
    if (realpath(store, resolved) == NULL) {
        error = errno;
        if (error != ENOENT)
            return refuse(refusal, -error, "store %s: %s", store, strerror(error));
        error = resolve_missing(store, resolved);
        if (error == -ENOENT)
            return refuse(refusal, error, "store %s: its parent directory does not exist", store);
        if (error != 0)
            return refuse(refusal, error, "store %s: %s", store, strerror(-error));
        if (options->readonly)
            return refuse(refusal, -ENOENT,
                          "store %s: does not exist, and a read-only mount does not create it",
                          store);
        return 0;
    }
    if (stat(resolved, &stat_buffer) != 0)
        return refuse(refusal, -errno, "store %s: %s", store, strerror(errno));
    if (!S_ISDIR(stat_buffer.st_mode))
        return refuse(refusal, -ENOTDIR, "store %s: not a directory", store);
    return 0;
}

/* ---- the mount point ------------------------------------------------------------------------- */

static int refuse_mountpoint(const struct refusal *refusal, const char *mountpoint, int error)
{
    if (error == ENOENT)
        return refuse(refusal, -error, "mount point %s: does not exist", mountpoint);
    if (error == ENOTCONN)
        return refuse(refusal, -error,
                      "mount point %s: a file system that has died is still mounted there; "
                      "'sepfs-umount %s' removes it",
                      mountpoint, mountpoint);
    return refuse(refusal, -error, "mount point %s: %s", mountpoint, strerror(error));
}

static int check_empty(const char *path, const char *mountpoint, const struct refusal *refusal)
{
    const struct dirent *entry;
    bool empty = true;
    DIR *directory = opendir(path);

    if (directory == NULL)
        return refuse_mountpoint(refusal, mountpoint, errno);
    while (empty && (entry = readdir(directory)) != NULL)
        empty = strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0;
    closedir(directory);
    if (!empty)
        return refuse(refusal, -ENOTEMPTY,
                      "mount point %s: not empty (-o nonempty mounts over what is there)",
                      mountpoint);
    return 0;
}

static int check_mountpoint(const char *mountpoint, const struct fs_options *options,
                            char *resolved, const struct refusal *refusal)
{
    struct stat stat_buffer;

    if (realpath(mountpoint, resolved) == NULL || stat(resolved, &stat_buffer) != 0)
        return refuse_mountpoint(refusal, mountpoint, errno);
    if (!S_ISDIR(stat_buffer.st_mode))
        return refuse(refusal, -ENOTDIR, "mount point %s: not a directory", mountpoint);
    if (geteuid() != 0 && access(resolved, W_OK) != 0)
        return refuse(refusal, -EACCES, "mount point %s: no permission to write there", mountpoint);
    return options->nonempty ? 0 : check_empty(resolved, mountpoint, refusal);
}

/* Whether PATH is DIRECTORY or lies below it. */
static bool lies_in(const char *path, const char *directory)
{
    const size_t length = strlen(directory);

    if (strcmp(directory, "/") == 0)
        return true;
    return strncmp(path, directory, length) == 0 && (path[length] == '/' || path[length] == '\0');
}

static int check_apart(const struct fs_mount_paths *paths, const struct refusal *refusal)
{
    if (strcmp(paths->store, paths->mountpoint) == 0)
        return refuse(refusal, -EINVAL, "the store and the mount point are both %s", paths->store);
    if (lies_in(paths->mountpoint, paths->store))
        return refuse(refusal, -EINVAL, "mount point %s: lies inside the store %s",
                      paths->mountpoint, paths->store);
    if (lies_in(paths->store, paths->mountpoint))
        return refuse(refusal, -EINVAL, "store %s: lies inside the mount point %s", paths->store,
                      paths->mountpoint);
    return 0;
}

/* ---- the right to mount ---------------------------------------------------------------------- */

static int check_device(const struct refusal *refusal)
{
    const int fd = open(FUSE_DEVICE, O_RDWR | O_CLOEXEC);
    struct stat stat_buffer;
    bool right;

    if (fd >= 0) {
        right = fstat(fd, &stat_buffer) == 0 && S_ISCHR(stat_buffer.st_mode) &&
                stat_buffer.st_rdev == makedev(10, 229); /* fixed: devices.txt of the kernel */
        close(fd);
        return right ? 0 : refuse(refusal, -ENODEV, FUSE_DEVICE ": not the FUSE device");
    }
    if (errno == ENOENT || errno == ENODEV || errno == ENXIO)
        return refuse(refusal, -errno,
                      FUSE_DEVICE ": no such device; load the kernel module with 'modprobe fuse', "
                                  "or pass the device into this container");
    return refuse(refusal, -errno, FUSE_DEVICE ": %s", strerror(errno));
}

static bool conf_allows_other(void)
{
    FILE *file = fopen(FUSE_CONF, "re");
    char line[256];
    bool allowed = false;

    if (file == NULL)
        return false;
    while (!allowed && fgets(line, sizeof line, file) != NULL) {
        char *word = strtok(line, " \t\r\n");

        allowed = word != NULL && strcmp(word, "user_allow_other") == 0;
    }
    fclose(file);
    return allowed;
}

static bool has_word(const char *list, const char *word)
{
    const size_t length = strlen(word);

    for (; *list != '\0'; list += strcspn(list, ","), list += *list == ',') {
        if (strcspn(list, ",") == length && strncmp(list, word, length) == 0)
            return true;
    }
    return false;
}

static int check_others(const struct fs_options *options, const struct refusal *refusal)
{
    const bool root_too = has_word(options->fuse, "allow_root");
    const char *const name = root_too ? "allow_root" : "allow_other";

    if (root_too && options->allow_other)
        return refuse(refusal, -EINVAL, "options allow_other and allow_root exclude each other");
    if ((!options->allow_other && !root_too) || geteuid() == 0 || conf_allows_other())
        return 0;
    return refuse(refusal, -EPERM,
                  "option %s: needs the line user_allow_other in " FUSE_CONF
                  " when the user is not root",
                  name);
}

int fs_mount_check(const char *store, const char *mountpoint, const struct fs_options *options,
                   struct fs_mount_paths *paths, char *error, size_t size)
{
    const struct refusal refusal = {error, size};
    int result = check_others(options, &refusal);

    if (result == 0)
        result = check_store(store, options, paths->store, &refusal);
    if (result == 0)
        result = check_mountpoint(mountpoint, options, paths->mountpoint, &refusal);
    if (result == 0)
        result = check_apart(paths, &refusal);
    return result != 0 ? result : check_device(&refusal);
}
