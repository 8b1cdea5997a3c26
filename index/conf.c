/* SPDX-License-Identifier: BSD-2-Clause
 *
 * conf.c - sepfs.conf: identity and settings of a store as lines "key=value".
 *
 * The file is small, written as a whole and put in place by rename, so it is old or new after a
 * crash. Comments and unknown keys are kept. It is read strictly: a line that is neither empty, a
 * comment nor key=value is an error that names the line. Its presence makes a directory a store, so
 * creation writes it last.
 */
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "internal.h"

#define CONF_NAME  "sepfs.conf"
#define CONF_LIMIT (1u << 20) /* bytes */
#define VALUE_MAX  1023u      /* bytes */

static bool valid_key(const char *key)
{
    for (const char *at = key; *at != '\0'; at++) {
        if ((*at < 'a' || *at > 'z') && *at != '_')
            return false;
    }
    return *key != '\0';
}

static bool valid_value(const char *value)
{
    const size_t length = strlen(value);
    if (length > VALUE_MAX)
        return false;
    if (length > 0 && (value[0] == ' ' || value[length - 1] == ' '))
        return false;
    for (size_t i = 0; i < length; i++) {
        if ((unsigned char)value[i] < 32 || value[i] == 127)
            return false;
    }
    return true;
}

static bool fixed_key(const char *key)
{
    return strcmp(key, "format") == 0 || strcmp(key, "uuid") == 0 || strcmp(key, "block_size") == 0;
}

static struct index_conf_line *find(const struct index *index, const char *key)
{
    for (size_t i = 0; i < index->conf_count; i++) {
        if (index->conf[i].key != NULL && strcmp(index->conf[i].key, key) == 0)
            return &index->conf[i];
    }
    return NULL;
}

static void free_line(struct index_conf_line *line)
{
    free(line->text);
    free(line->key);
    free(line->value);
}

void index_conf_free(struct index *index)
{
    for (size_t i = 0; i < index->conf_count; i++)
        free_line(&index->conf[i]);
    free(index->conf);
    index->conf = NULL;
    index->conf_count = 0;
}

/* Copies START..END without blanks around it. */
static char *trimmed(const char *start, const char *end)
{
    while (start < end && (*start == ' ' || *start == '\t'))
        start++;
    while (end > start && (end[-1] == ' ' || end[-1] == '\t' || end[-1] == '\r'))
        end--;
    return strndup(start, (size_t)(end - start));
}

/* Takes a line apart. 0, -ENOMEM, or -EINVAL for one that is malformed. */
static int parse_line(const char *text, size_t length, struct index_conf_line *line)
{
    *line = (struct index_conf_line){.text = strndup(text, length)};
    if (line->text == NULL)
        return -ENOMEM;
    if (strlen(line->text) != length)
        return -EINVAL; /* a NUL */
    const char *first = line->text + strspn(line->text, " \t\r");
    if (*first == '\0' || *first == '#')
        return 0;
    const char *equals = strchr(first, '=');
    if (equals == NULL)
        return -EINVAL;
    line->key = trimmed(first, equals);
    line->value = trimmed(equals + 1, line->text + length);
    if (line->key == NULL || line->value == NULL)
        return -ENOMEM;
    return valid_key(line->key) && valid_value(line->value) ? 0 : -EINVAL;
}

static int append_line(struct index *index, const struct index_conf_line *line)
{
    struct index_conf_line *list =
        realloc(index->conf, (index->conf_count + 1) * sizeof *index->conf);
    if (list == NULL)
        return -ENOMEM;
    index->conf = list;
    list[index->conf_count++] = *line;
    return 0;
}

static int parse_text(struct index *index, const char *text, size_t length, char *error,
                      size_t size)
{
    unsigned number = 0;
    for (const char *at = text, *end = text + length; at < end;) {
        const char *stop = memchr(at, '\n', (size_t)(end - at));
        if (stop == NULL)
            stop = end;
        number++;
        struct index_conf_line line;
        int result = parse_line(at, (size_t)(stop - at), &line);
        if (result == -EINVAL) {
            snprintf(error, size, "%s/" CONF_NAME ":%u: not \"key=value\"", index->path, number);
        } else if (result == 0 && line.key != NULL && find(index, line.key) != NULL) {
            snprintf(error, size, "%s/" CONF_NAME ":%u: %s is set twice", index->path, number,
                     line.key);
            result = -EINVAL;
        }
        if (result == 0)
            result = append_line(index, &line);
        if (result != 0) {
            free_line(&line);
            return result == -EINVAL ? -EUCLEAN : result;
        }
        at = stop + 1;
    }
    return 0;
}

static bool parse_number(const char *text, uint64_t *number)
{
    char *end;
    if (!isdigit((unsigned char)*text))
        return false;
    errno = 0;
    *number = strtoull(text, &end, 10);
    return errno == 0 && *end == '\0';
}

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* 8-4-4-4-12 lower-case hexadecimal digits. */
static bool parse_uuid(const char *text, uint8_t uuid[16])
{
    if (strlen(text) != 36)
        return false;
    size_t at = 0;
    for (unsigned i = 0; i < 16; i++) {
        if ((i == 4 || i == 6 || i == 8 || i == 10) && text[at++] != '-')
            return false;
        const int high = hex_digit(text[at]), low = hex_digit(text[at + 1]);
        if (high < 0 || low < 0)
            return false;
        uuid[i] = (uint8_t)(high << 4 | low);
        at += 2;
    }
    return true;
}

static void format_uuid(const uint8_t uuid[16], char text[37])
{
    size_t at = 0;
    for (unsigned i = 0; i < 16; i++) {
        if (i == 4 || i == 6 || i == 8 || i == 10)
            text[at++] = '-';
        at += (size_t)sprintf(text + at, "%02x", uuid[i]);
    }
}

/* Takes what identifies the store from the parsed lines. */
static int use_fixed_keys(struct index *index, char *error, size_t size)
{
    static const char *const required[] = {"format", "uuid", "block_size"};
    for (unsigned i = 0; i < 3; i++) {
        if (find(index, required[i]) == NULL) {
            snprintf(error, size, "%s/" CONF_NAME ": %s is missing", index->path, required[i]);
            return -EUCLEAN;
        }
    }
    uint64_t block_size;
    if (!parse_uuid(find(index, "uuid")->value, index->uuid)) {
        snprintf(error, size, "%s/" CONF_NAME ": uuid is malformed", index->path);
        return -EUCLEAN;
    }
    if (!parse_number(find(index, "block_size")->value, &block_size) ||
        block_size < INDEX_BLOCK_MIN || block_size > INDEX_PLAIN_MAX ||
        (block_size & (block_size - 1)) != 0) {
        snprintf(error, size,
                 "%s/" CONF_NAME ": block_size is not a power of two in 16384..4194304",
                 index->path);
        return -EUCLEAN;
    }
    index->block_size = (uint32_t)block_size;
    return 0;
}

/* The format comes first: what else a newer file says is not for us to judge. */
static int check_format(const struct index *index, const char *text, char *error, size_t size)
{
    const char *line = strncmp(text, "format=", 7) == 0 ? text : strstr(text, "\nformat=");
    if (line == NULL)
        return 0; /* found missing later */
    line = strchr(line, '=') + 1;
    char value[24] = "";
    snprintf(value, sizeof value, "%.*s", (int)strcspn(line, " \t\r\n"), line);
    uint64_t format;
    if (!parse_number(value, &format)) {
        snprintf(error, size, "%s/" CONF_NAME ": format is not a number", index->path);
        return -EUCLEAN;
    }
    if (format > INDEX_FORMAT_VERSION) {
        snprintf(error, size, "%s: store format %s is newer than this program (%u)", index->path,
                 value, INDEX_FORMAT_VERSION);
        return -EPROTONOSUPPORT;
    }
    return 0;
}

int index_conf_load(struct index *index, char *error, size_t size)
{
    char *text;
    size_t length;
    int result = index_io_load(index->io, index->dir_fd, CONF_NAME, CONF_LIMIT, &text, &length);
    if (result != 0) {
        snprintf(error, size, "%s/" CONF_NAME ": %s", index->path, strerror(-result));
        return result;
    }
    result = check_format(index, text, error, size);
    if (result == 0)
        result = parse_text(index, text, length, error, size);
    if (result == 0)
        result = use_fixed_keys(index, error, size);
    free(text);
    return result;
}

/* Writes all lines, durably. */
static int write_lines(struct index *index)
{
    size_t length = 0;
    for (size_t i = 0; i < index->conf_count; i++)
        length += strlen(index->conf[i].text) + 1;
    char *const text = malloc(length + 1);
    if (text == NULL)
        return -ENOMEM;
    char *at = text;
    for (size_t i = 0; i < index->conf_count; i++)
        at += sprintf(at, "%s\n", index->conf[i].text);
    const int result = index_io_replace(index->io, index->dir_fd, CONF_NAME, text, length);
    free(text);
    return result;
}

int index_conf_create(struct index *index)
{
    char uuid[37], text[512];
    format_uuid(index->uuid, uuid);
    const int length =
        snprintf(text, sizeof text,
                 "# A sepfs store. Mount it with: sepfs STORE MOUNTPOINT\n"
                 "# The next three lines must not be changed. Settings are lines key=value;\n"
                 "# edit them only while the store is not mounted.\n"
                 "format=%u\n"
                 "uuid=%s\n"
                 "block_size=%u\n",
                 INDEX_FORMAT_VERSION, uuid, index->block_size);
    char error[256];
    const int result = parse_text(index, text, (size_t)length, error, sizeof error);
    return result != 0 ? result : write_lines(index);
}

int index_conf_get(const struct index *index, const char *key, char *value, size_t size)
{
    struct index *const i = (struct index *)(uintptr_t)index;
    int result = 0;
    pthread_mutex_lock(&i->conf_mutex);
    const struct index_conf_line *const line = find(index, key);
    if (line == NULL)
        result = -ENOENT;
    else if (strlen(line->value) >= size)
        result = -ERANGE;
    else
        strcpy(value, line->value);
    pthread_mutex_unlock(&i->conf_mutex);
    return result;
}

int index_conf_set(struct index *index, const char *key, const char *value)
{
    if (index->flags & INDEX_OPEN_READONLY)
        return -EROFS;
    if (!valid_key(key) || strlen(key) > VALUE_MAX || !valid_value(value) || fixed_key(key))
        return -EINVAL;
    char text[2 * VALUE_MAX + 8];
    const int length = snprintf(text, sizeof text, "%s=%s", key, value);
    struct index_conf_line line;
    int result = parse_line(text, (size_t)length, &line);
    if (result != 0) {
        free_line(&line);
        return result;
    }
    pthread_mutex_lock(&index->conf_mutex);
    struct index_conf_line *old = find(index, key);
    struct index_conf_line before = {.text = NULL};
    if (old != NULL) {
        before = *old;
        *old = line;
    } else {
        result = append_line(index, &line);
    }
    if (result == 0)
        result = write_lines(index);
    if (result == 0) {
        free_line(&before);
    } else if (old != NULL) { /* the old value stays in force */
        *old = before;
        free_line(&line);
    } else {
        if (index->conf_count > 0 && index->conf[index->conf_count - 1].text == line.text)
            index->conf_count--;
        free_line(&line);
    }
    pthread_mutex_unlock(&index->conf_mutex);
    return result;
}
