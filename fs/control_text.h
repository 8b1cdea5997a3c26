/* SPDX-License-Identifier: BSD-2-Clause
 *
 * control_text.h - the words of the control protocol, for both of its ends; private to fs/.
 */
#ifndef FS_CONTROL_TEXT_H
#define FS_CONTROL_TEXT_H

#include <stddef.h>

#define FS_CONTROL_SOCKET      "control.sock"
#define FS_CONTROL_REQUEST_MAX 4096u  /* bytes of a request line, newline included */
#define FS_CONTROL_ANSWER_MAX  65536u /* bytes of one line of an answer */
#define FS_CONTROL_LINES_MAX   1024u  /* of an answer; a daemon sends about 40 */

/* Writes TEXT with '%', '=', blanks and control characters as %XX; all other bytes stay. Always
 * terminates; returns the length needed without NUL, as snprintf does. */
size_t fs_percent_encode(const char *text, char *out, size_t size);
/* Decodes in place. 0 or -EINVAL: a '%' without two hexadecimal digits, or %00. */
int fs_percent_decode(char *text);

/* An address of NAME inside the open directory DIR, through /proc: the path of a store may be
 * longer than the 108 bytes a socket address holds. TEXT: at least 64 bytes. */
void fs_control_address(int dir, char *text, size_t size);

#endif
