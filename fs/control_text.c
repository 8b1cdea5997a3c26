/* SPDX-License-Identifier: BSD-2-Clause
 *
 * control_text.c - percent-encoding, as both ends of the control socket use it.
 */
#include <ctype.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "control_text.h"

size_t fs_percent_encode(const char *text, char *out, size_t size)
{
    static const char digits[] = "0123456789ABCDEF";
    size_t need = 0;
    size_t end = 0;

    for (; *text != '\0'; text++) {
        const unsigned char c = (unsigned char)*text;
        const bool plain = c > ' ' && c != '%' && c != '=' && c != 0x7f;
        const size_t width = plain ? 1 : 3;

        /* A code is written whole or not at all. */
        if (need + width < size) {
            if (plain) {
                out[need] = (char)c;
            } else {
                out[need] = '%';
                out[need + 1] = digits[c >> 4];
                out[need + 2] = digits[c & 15];
            }
            end = need + width;
        }
        need += width;
    }
    if (size > 0)
        out[end] = '\0';
    return need;
}

static int digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c = (char)tolower((unsigned char)c);
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

int fs_percent_decode(char *text)
{
    char *out = text;

    for (; *text != '\0'; text++) {
        int high;
        int low;

        if (*text != '%') {
            *out++ = *text;
            continue;
        }
        high = digit(text[1]);
        low = high < 0 ? -1 : digit(text[2]);
        if (low < 0 || (high == 0 && low == 0))
            return -EINVAL;
        *out++ = (char)(high << 4 | low);
        text += 2;
    }
    *out = '\0';
    return 0;
}

void fs_control_address(int dir, char *text, size_t size)
{
    snprintf(text, size, "/proc/self/fd/%d/" FS_CONTROL_SOCKET, dir);
}
