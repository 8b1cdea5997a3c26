/* SPDX-License-Identifier: BSD-2-Clause
 *
 * roundtrip.c - a stranger's first program with libsep, built against the installed header and
 * pkg-config file only: encodes a block with every codec, decodes it, compares.
 */
#include <sep.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int main(void)
{
    enum { SIZE = 100000 };
    static const char *const methods[] = {"raw", "lz4", "zstd:19", "sep"};
    char *const plain = malloc(SIZE), *const again = malloc(SIZE);
    void *const payload = malloc(sep_bound(SIZE));
    struct sep_context *const context = sep_context_new();
    if (plain == NULL || again == NULL || payload == NULL || context == NULL)
        return 1;
    for (int i = 0; i < SIZE; i++)
        plain[i] = "a block of plain text, "[i % 23];
    for (size_t i = 0; i < sizeof methods / sizeof methods[0]; i++) {
        struct sep_method method, used;
        size_t size;
        enum sep_status status = sep_method_parse(methods[i], &method);
        if (status == SEP_OK)
            status =
                sep_encode(context, method, plain, SIZE, payload, sep_bound(SIZE), &size, &used);
        if (status == SEP_OK)
            status = sep_decode(context, used.codec, payload, size, again, SIZE);
        if (status != SEP_OK || memcmp(plain, again, SIZE) != 0) {
            printf("%s: %s\n", methods[i], sep_status_text(status));
            return 1;
        }
        /* 23 bytes repeated: everything but raw must get it far below a tenth. */
        if (used.codec != method.codec || (method.codec != SEP_CODEC_RAW && size > SIZE / 10)) {
            printf("%s: %zu bytes as %s\n", methods[i], size, sep_codec_name(used.codec));
            return 1;
        }
    }
    sep_context_free(context);
    free(plain);
    free(again);
    free(payload);
    return 0;
}
