/* SPDX-License-Identifier: BSD-2-Clause
 *
 * policy.c - reading, resolving and inheriting user.sepfs.policy.
 *
 * The attribute is kept as the user wrote it and parsed at each use; it was checked when it was
 * set. One that does not parse (a store written by a newer program) is ignored whole: the mount's
 * options are a safe answer for every file, half a policy is not.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "core.h"
#include "policy.h"

#define POLICY_TEXT_MAX 256u /* bytes of a policy; the longest useful one has about 40 */

static int parse_word(const char *key, const char *value, struct fs_policy *policy)
{
    const bool hot = strcmp(key, "hot") == 0;
    struct sep_method method;

    if (!hot && strcmp(key, "cold") != 0)
        return -EINVAL;
    if (!hot && strcmp(value, "never") == 0) {
        policy->cold_never = true;
        policy->cold_now = false;
        return 0;
    }
    if (!hot && strcmp(value, "now") == 0) {
        policy->cold_now = true;
        policy->cold_never = false;
        return 0;
    }
    if (sep_method_parse(value, &method) != SEP_OK)
        return -EINVAL;
    /* SEP codes about 1 MB/s a core: as a hot codec it would make every write wait. */
    if (hot && method.codec == SEP_CODEC_SEP)
        return -EINVAL;
    if (hot)
        policy->hot = method;
    else
        policy->cold = method;
    return 0;
}

int fs_policy_parse(const char *text, struct fs_policy *policy, char *error, size_t size)
{
    struct fs_policy parsed = *policy;
    char copy[POLICY_TEXT_MAX + 1];
    char *rest = copy, *word;

    if (strlen(text) > POLICY_TEXT_MAX) {
        snprintf(error, size, "policy is longer than %u bytes", POLICY_TEXT_MAX);
        return -EINVAL;
    }
    if (*text == '\0') {
        snprintf(error, size, "policy is empty");
        return -EINVAL;
    }
    strcpy(copy, text);
    while ((word = strsep(&rest, ",")) != NULL) {
        char *value = strchr(word, '=');

        if (value != NULL)
            *value++ = '\0';
        if (value == NULL || parse_word(word, value, &parsed) != 0) {
            snprintf(error, size,
                     "policy '%s%s%s': expected cold=never, cold=now, cold=METHOD or "
                     "hot=METHOD (not sep)",
                     word, value != NULL ? "=" : "", value != NULL ? value : "");
            return -EINVAL;
        }
    }
    *policy = parsed;
    return 0;
}

int fs_policy_get(struct fs *fs, struct index_txn *txn, uint64_t ino, struct fs_policy *policy)
{
    char text[POLICY_TEXT_MAX + 1], reason[256];
    const void *value;
    size_t size;
    int error;

    *policy = (struct fs_policy){.hot = fs->options.hot, .cold = fs->options.cold};
    error = index_xattr_get(txn, ino, FS_POLICY_XATTR, &value, &size);
    if (error == -ENODATA)
        return 0;
    if (error != 0)
        return error;
    if (size > POLICY_TEXT_MAX)
        return 0;
    memcpy(text, value, size);
    text[size] = '\0';
    (void)fs_policy_parse(text, policy, reason, sizeof reason);
    return 0;
}

int fs_policy_inherit(struct index_txn *txn, uint64_t dir, uint64_t ino)
{
    char text[POLICY_TEXT_MAX];
    const void *value;
    size_t size;
    const int error = index_xattr_get(txn, dir, FS_POLICY_XATTR, &value, &size);

    if (error != 0)
        return error == -ENODATA ? 0 : error;
    if (size > sizeof text)
        return 0;
    memcpy(text, value, size); /* value lies in a page that the write below may move */
    return index_xattr_set(txn, ino, FS_POLICY_XATTR, text, size, 0);
}
