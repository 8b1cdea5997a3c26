/* SPDX-License-Identifier: BSD-2-Clause
 *
 * json.c - the JSON writer of json.h.
 */
#include "json.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <stddef.h>

void json_begin(struct json *json, FILE *out)
{
    *json = (struct json){.out = out};
}

/* Length of the valid UTF-8 sequence at TEXT (shortest form, no surrogates, up to U+10FFFF), or 0.
 * Stops at a NUL because no continuation byte is zero. */
static size_t utf8_length(const unsigned char *text)
{
    const unsigned char first = text[0];
    size_t length;
    unsigned low = 0x80, high = 0xbf; /* range of the second byte */
    if (first < 0x80)
        return 1;
    if (first >= 0xc2 && first <= 0xdf) {
        length = 2;
    } else if (first >= 0xe0 && first <= 0xef) {
        length = 3;
        low = first == 0xe0 ? 0xa0 : 0x80;
        high = first == 0xed ? 0x9f : 0xbf;
    } else if (first >= 0xf0 && first <= 0xf4) {
        length = 4;
        low = first == 0xf0 ? 0x90 : 0x80;
        high = first == 0xf4 ? 0x8f : 0xbf;
    } else {
        return 0;
    }
    if (text[1] < low || text[1] > high)
        return 0;
    for (size_t i = 2; i < length; i++) {
        if ((text[i] & 0xc0) != 0x80)
            return 0;
    }
    return length;
}

void json_quote(FILE *out, const char *text)
{
    const unsigned char *at = (const unsigned char *)text;
    fputc('"', out);
    while (*at != '\0') {
        const size_t length = utf8_length(at);
        if (length == 0) {
            fprintf(out, "\\udc%02x", *at++);
        } else if (length == 2 && at[0] == 0xc2 && at[1] < 0xa0) { /* control characters too */
            fprintf(out, "\\u%04x", at[1]);
            at += length;
        } else if (length > 1) {
            fwrite(at, 1, length, out);
            at += length;
        } else {
            if (*at == '"' || *at == '\\')
                fprintf(out, "\\%c", *at);
            else if (*at < 0x20 || *at == 0x7f)
                fprintf(out, "\\u%04x", *at);
            else
                fputc(*at, out);
            at++;
        }
    }
    fputc('"', out);
}

/* Comma, new line, indentation and key before a value. */
static void lead(struct json *json, const char *key)
{
    if (json->depth == 0)
        return;
    if (json->filled[json->depth - 1])
        fputc(',', json->out);
    json->filled[json->depth - 1] = true;
    fprintf(json->out, "\n%*s", (int)json->depth * 2, "");
    if (key != NULL) {
        json_quote(json->out, key);
        fputs(": ", json->out);
    }
}

static void open_level(struct json *json, const char *key, bool array)
{
    assert(json->depth < JSON_DEPTH_MAX);
    lead(json, key);
    fputc(array ? '[' : '{', json->out);
    json->array[json->depth] = array;
    json->filled[json->depth] = false;
    json->depth++;
}

void json_object(struct json *json, const char *key)
{
    open_level(json, key, false);
}

void json_array(struct json *json, const char *key)
{
    open_level(json, key, true);
}

void json_end(struct json *json)
{
    assert(json->depth > 0);
    json->depth--;
    if (json->filled[json->depth])
        fprintf(json->out, "\n%*s", (int)json->depth * 2, "");
    fputc(json->array[json->depth] ? ']' : '}', json->out);
    if (json->depth == 0)
        fputc('\n', json->out);
}

void json_string(struct json *json, const char *key, const char *value)
{
    lead(json, key);
    if (value == NULL)
        fputs("null", json->out);
    else
        json_quote(json->out, value);
}

void json_u64(struct json *json, const char *key, uint64_t value)
{
    lead(json, key);
    fprintf(json->out, "%" PRIu64, value);
}

void json_double(struct json *json, const char *key, double value)
{
    lead(json, key);
    if (isfinite(value))
        fprintf(json->out, "%.6g", value);
    else
        fputs("null", json->out);
}

void json_bool(struct json *json, const char *key, bool value)
{
    lead(json, key);
    fputs(value ? "true" : "false", json->out);
}
