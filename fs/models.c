/* SPDX-License-Identifier: BSD-2-Clause
 *
 * models.c - see models.h.
 */
#include "models.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <syslog.h>
#include <unistd.h>

#include "core.h"

struct entry {
    struct sep_model *model;
    bool encode;
};

struct fs_models {
    struct index *index;
    pthread_mutex_t mutex; /* what follows */
    struct entry list[SEP_CONTEXT_MODELS_MAX];
    unsigned count;
    uint64_t file_bytes; /* of all in the list */
};

/* A file of the directory of public models. */
struct candidate {
    char *name;
    off_t size;
};

/* With the mutex. */
static struct entry *find(struct fs_models *models, uint64_t hash)
{
    for (unsigned i = 0; i < models->count; i++) {
        if (sep_model_hash(models->list[i].model) == hash)
            return &models->list[i];
    }
    return NULL;
}

/* Adds MODEL, which the set then owns. */
static void add(struct fs_models *models, struct sep_model *model, bool encode)
{
    struct sep_model_info info;

    sep_model_describe(model, &info);
    pthread_mutex_lock(&models->mutex);
    models->list[models->count++] = (struct entry){model, encode};
    models->file_bytes += info.file_size;
    pthread_mutex_unlock(&models->mutex);
}

/* ---- models in the store --------------------------------------------------------------------- */

static int load_stored(void *arg, uint64_t hash)
{
    struct fs_models *models = arg;
    const char *store = index_path(models->index);
    struct sep_model *model = NULL;
    void *bytes = NULL;
    size_t size = 0;
    enum sep_status status;
    int error;

    if (models->count == SEP_CONTEXT_MODELS_MAX) {
        fs_log(LOG_WARNING, "%s/models/%016" PRIx64 ".sepm: not loaded, there are more than %u",
               store, hash, SEP_CONTEXT_MODELS_MAX);
        return 0;
    }
    error = index_model_read(models->index, hash, &bytes, &size);
    if (error != 0) {
        fs_log(LOG_ERR, "%s/models/%016" PRIx64 ".sepm: %s", store, hash, strerror(-error));
        return error == -ENOMEM ? error : 0;
    }
    status = sep_model_load(bytes, size, &model);
    free(bytes);
    if (status == SEP_OK && sep_model_hash(model) != hash) {
        sep_model_free(model);
        status = SEP_ERROR_MODEL;
    }
    if (status == SEP_OK)
        add(models, model, false);
    else
        fs_log(LOG_ERR, "%s/models/%016" PRIx64 ".sepm: %s", store, hash, sep_status_text(status));
    return status == SEP_ERROR_MEMORY ? -ENOMEM : 0;
}

int fs_models_open(struct index *index, struct fs_models **models)
{
    struct fs_models *made = calloc(1, sizeof(*made));
    int error;

    if (made == NULL)
        return -ENOMEM;
    made->index = index;
    pthread_mutex_init(&made->mutex, NULL);
    error = index_model_each(index, load_stored, made);
    if (error != 0) {
        fs_models_free(made);
        return error;
    }
    *models = made;
    return 0;
}

void fs_models_free(struct fs_models *models)
{
    if (models == NULL)
        return;
    for (unsigned i = 0; i < models->count; i++)
        sep_model_free(models->list[i].model);
    pthread_mutex_destroy(&models->mutex);
    free(models);
}

/* ---- public models --------------------------------------------------------------------------- */

static int by_size(const void *a, const void *b)
{
    const struct candidate *one = a, *other = b;

    if (one->size != other->size)
        return one->size < other->size ? -1 : 1;
    return strcmp(one->name, other->name);
}

static bool is_model_name(const char *name)
{
    const size_t length = strlen(name);

    return length > 5 && strcmp(name + length - 5, ".sepm") == 0 && name[0] != '.';
}

/* Regular files *.sepm of DIRECTORY, smallest first; *list and the names are the caller's. */
static unsigned list_public(int fd, struct candidate **list)
{
    DIR *dir = fdopendir(fd);
    struct dirent *entry;
    unsigned count = 0;

    *list = NULL;
    if (dir == NULL) {
        close(fd);
        return 0;
    }
    while (count < SEP_CONTEXT_MODELS_MAX && (entry = readdir(dir)) != NULL) {
        struct candidate *grown;
        struct stat status;

        if (!is_model_name(entry->d_name) || fstatat(fd, entry->d_name, &status, 0) != 0 ||
            !S_ISREG(status.st_mode) || (uint64_t)status.st_size > SEP_MODEL_FILE_MAX)
            continue;
        grown = reallocarray(*list, count + 1, sizeof(**list));
        if (grown == NULL)
            break;
        *list = grown;
        grown[count] = (struct candidate){strdup(entry->d_name), status.st_size};
        if (grown[count].name == NULL)
            break;
        count++;
    }
    closedir(dir);
    if (count > 0)
        qsort(*list, count, sizeof(**list), by_size);
    return count;
}

static ssize_t read_whole(const char *directory, const struct candidate *file, uint8_t **bytes)
{
    const size_t wanted = (size_t)file->size;
    size_t done = 0;
    ssize_t got = 1;
    char *path;
    int fd;

    if (asprintf(&path, "%s/%s", directory, file->name) < 0)
        return -ENOMEM;
    fd = open(path, O_RDONLY | O_CLOEXEC);
    free(path);
    if (fd < 0)
        return -errno;
    *bytes = malloc(wanted > 0 ? wanted : 1);
    while (*bytes != NULL && done < wanted && got > 0) {
        got = read(fd, *bytes + done, wanted - done);
        if (got > 0)
            done += (size_t)got;
    }
    if (*bytes == NULL)
        got = -ENOMEM;
    else if (got < 0)
        got = -errno;
    close(fd);
    return got < 0 ? got : (ssize_t)done;
}

/* Loads FILE, puts it into the store, and adds it. */
static void bring_in(struct fs_models *models, const char *directory, const struct candidate *file)
{
    struct sep_model *model = NULL;
    uint8_t *bytes = NULL;
    const ssize_t size = read_whole(directory, file, &bytes);
    enum sep_status status = SEP_OK;
    int error = size < 0 ? (int)size : 0;

    if (error == 0)
        status = sep_model_load(bytes, (size_t)size, &model);
    if (error == 0 && status == SEP_OK)
        error = index_model_add(models->index, sep_model_hash(model), bytes, (size_t)size);
    free(bytes);
    if (error == 0 && status == SEP_OK) {
        add(models, model, true);
        fs_log(LOG_INFO, "%s: uses model %s", index_path(models->index), file->name);
        return;
    }
    sep_model_free(model);
    fs_log(LOG_WARNING, "%s/%s: model not used: %s", directory, file->name,
           status != SEP_OK ? sep_status_text(status) : strerror(-error));
}

/* Hash that the head of FILE names; 0 when it is no model. */
static uint64_t peek(int fd, const struct candidate *file)
{
    uint8_t head[SEP_MODEL_HEAD];
    uint64_t hash = 0;
    const int at = openat(fd, file->name, O_RDONLY | O_CLOEXEC);

    if (at < 0)
        return 0;
    if (read(at, head, sizeof(head)) != (ssize_t)sizeof(head) ||
        sep_model_peek(head, sizeof(head), &hash) != SEP_OK)
        hash = 0;
    close(at);
    return hash;
}

/* Marks FILE for encoding when the store has it. */
static bool mark(struct fs_models *models, uint64_t hash)
{
    struct entry *entry;

    pthread_mutex_lock(&models->mutex);
    entry = find(models, hash);
    if (entry != NULL)
        entry->encode = true;
    pthread_mutex_unlock(&models->mutex);
    return entry != NULL;
}

static void mark_private(struct fs_models *models)
{
    pthread_mutex_lock(&models->mutex);
    for (unsigned i = 0; i < models->count; i++) {
        struct sep_model_info info;

        sep_model_describe(models->list[i].model, &info);
        models->list[i].encode |= info.kind == SEP_MODEL_PRIVATE;
    }
    pthread_mutex_unlock(&models->mutex);
}

void fs_models_choose(struct fs_models *models, const char *directory)
{
    struct candidate *files = NULL;
    struct index_space space;
    unsigned count = 0;
    int fd = -1;

    mark_private(models);
    if (directory != NULL && index_space(models->index, &space) == 0)
        fd = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd >= 0)
        count = list_public(dup(fd), &files);
    for (unsigned i = 0; i < count; i++) {
        const uint64_t hash = peek(fd, &files[i]);

        /* Only compaction adds to the set, one pass at a time: counts read here do not change. */
        if (hash != 0 && !mark(models, hash) && models->count < SEP_CONTEXT_MODELS_MAX &&
            models->file_bytes + (uint64_t)files[i].size <= space.logical / FS_MODELS_SHARE)
            bring_in(models, directory, &files[i]);
        free(files[i].name);
    }
    free(files);
    if (fd >= 0)
        close(fd);
}

/* ---- use ------------------------------------------------------------------------------------- */

void fs_models_list(struct fs_models *models, const struct sep_model **list, unsigned *count,
                    unsigned *encode)
{
    *count = *encode = 0;
    pthread_mutex_lock(&models->mutex);
    for (unsigned i = 0; i < models->count; i++) {
        if (models->list[i].encode)
            list[(*count)++] = models->list[i].model;
    }
    *encode = *count;
    for (unsigned i = 0; i < models->count; i++) {
        if (!models->list[i].encode)
            list[(*count)++] = models->list[i].model;
    }
    pthread_mutex_unlock(&models->mutex);
}

enum sep_status fs_models_give(struct fs_models *models, struct sep_context *context)
{
    enum sep_status status = SEP_OK;

    pthread_mutex_lock(&models->mutex);
    for (unsigned i = 0; i < models->count && status == SEP_OK; i++)
        status = sep_context_add_model(context, models->list[i].model, false);
    pthread_mutex_unlock(&models->mutex);
    return status;
}

bool fs_models_have(struct fs_models *models, uint64_t hash)
{
    bool have;

    pthread_mutex_lock(&models->mutex);
    have = find(models, hash) != NULL;
    pthread_mutex_unlock(&models->mutex);
    return have;
}
