/* SPDX-License-Identifier: BSD-2-Clause
 *
 * json.h - writes JSON for --json: indented, one member a line, commas and nesting kept by the
 * writer. Strings are bytes as the file system has them: valid UTF-8 is kept, any other byte B is
 * written as the lone surrogate \uDCxx (0xDC00 + B), which Python's os.fsencode turns back into the
 * byte; so every path survives and the output is always valid JSON.
 */
#ifndef TOOLS_JSON_H
#define TOOLS_JSON_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#define JSON_DEPTH_MAX 16

struct json {
    FILE *out;
    unsigned depth;
    bool filled[JSON_DEPTH_MAX]; /* this level has a member already */
    bool array[JSON_DEPTH_MAX];
};

void json_begin(struct json *json, FILE *out);

/* KEY is NULL inside an array and for the outermost value. */
void json_object(struct json *json, const char *key);
void json_array(struct json *json, const char *key);
void json_end(struct json *json); /* closes the innermost; the outermost ends the line */
void json_string(struct json *json, const char *key, const char *value); /* NULL writes null */
void json_u64(struct json *json, const char *key, uint64_t value);
void json_double(struct json *json, const char *key, double value); /* not finite: null */
void json_bool(struct json *json, const char *key, bool value);

/* Writes TEXT as a quoted JSON string. */
void json_quote(FILE *out, const char *text);

#endif
