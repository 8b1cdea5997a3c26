/* SPDX-License-Identifier: BSD-2-Clause
 *
 * options.c - the table of mount options and its parser.
 *
 * Three kinds of option arrive in one -o list: those of sepfs, those that libfuse or mount(2) act
 * on, and those that mount(8) and fstab keep for themselves but hand to every helper (noauto,
 * x-systemd.*, ...). The first two are obeyed, the third accepted and dropped, everything else is
 * refused by name, so that a misspelt option never mounts with a default instead.
 */
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "options.h"

#define KIB (1ull << 10)
#define MIB (1ull << 20)
#define GIB (1ull << 30)
#define TIB (1ull << 40)

#define HOT_METHODS  "lz4[:1..12] or zstd[:1..19]"
#define COLD_METHODS "sep[:1..9], zstd[:1..19] or off"

enum kind {
    SET,         /* bool = true */
    CLEAR,       /* bool = false */
    SIZE,        /* uint64_t, bytes */
    BLOCK_SIZE,  /* uint32_t, a power of two */
    SECONDS,     /* uint32_t */
    NUMBER,      /* unsigned */
    HOT,         /* struct sep_method */
    COLD,        /* struct sep_method and cold_off */
    COMPACT,     /* enum fs_compact_mode */
    DIRECTORY,   /* char[PATH_MAX], an absolute path; "off" is the empty one */
    PASS,        /* on to libfuse or mount(2) */
    DROP,        /* mount(8)'s own, with or without a value */
    DROP_PREFIX, /* the same for every option that begins so */
    FIXED,       /* always on or set by sepfs itself: accepting a value would be a lie */
};

struct option {
    const char *name;
    enum kind kind;
    size_t offset;     /* in struct fs_options */
    uint64_t min, max; /* inclusive; SIZE and BLOCK_SIZE in bytes, SECONDS in seconds */
    const char *value; /* placeholder, NULL when it takes none */
    const char *help;  /* NULL: not shown */
};

#define FIELD(name) offsetof(struct fs_options, name)

static const struct option table[] = {
    {"ro", SET, FIELD(readonly), 0, 0, NULL,
     "mount read-only; works beside another read-only mount"},
    {"rw", CLEAR, FIELD(readonly), 0, 0, NULL, NULL},
    {"allow_other", SET, FIELD(allow_other), 0, 0, NULL, "let other users in, modes decide"},
    {"cold_after", SECONDS, FIELD(cold_after), 0, 3650u * 86400u, "TIME",
     "age at which unused data is compacted (default 1h)"},
    {"hot", HOT, 0, 0, 0, "METHOD", "codec of new data: " HOT_METHODS " (default zstd:3)"},
    {"cold", COLD, 0, 0, 0, "METHOD", "codec of cold data: " COLD_METHODS " (default sep)"},
    {"compact", COMPACT, 0, 0, 0, "MODE", "who compacts: auto, cpu or off (default auto)"},
    {"cache", SIZE, FIELD(cache), MIB, TIB, "SIZE", "memory for decoded blocks (default 128M)"},
    {"dirty", SIZE, FIELD(dirty), 8 * MIB, TIB, "SIZE", "memory for unwritten data (default 64M)"},
    {"threads", NUMBER, FIELD(threads), 1, 256, "N", "codec threads (default: CPUs online)"},
    {"cpu_share", NUMBER, FIELD(cpu_share), 1, 100, "PERCENT",
     "most of all CPUs that the compactor may use (default 100, at idle priority)"},
    {"block_size", BLOCK_SIZE, FIELD(block_size), SEP_BLOCK_SIZE_MIN, SEP_BLOCK_SIZE_MAX, "SIZE",
     "of a store that is created by this mount: 16K to 4M (default 128K)"},
    {"commit", SECONDS, FIELD(commit), 1, 3600, "TIME",
     "longest time until a change is durable without fsync (default 5s)"},
    {"scrub", SECONDS, FIELD(scrub), 1, 3650u * 86400u, "TIME",
     "check all stored blocks once in each TIME, as 30d (default: only when asked)"},
    {"writeback", SET, FIELD(writeback), 0, 0, NULL,
     "let the kernel gather small writes; a full disk is then seen at close or fsync"},
    {"promote", SET, FIELD(promote), 0, 0, NULL,
     "give cold blocks that are read repeatedly back to the hot codec"},
    {"models", DIRECTORY, FIELD(models), 0, 0, "DIR",
     "public models that large stores may use, or off (default " SEPFS_MODEL_DIR ")"},
    {"acl", SET, FIELD(acl), 0, 0, NULL, "POSIX access control lists"},
    {"nonempty", SET, FIELD(nonempty), 0, 0, NULL, "allow a mount point that has entries"},
    {"debug", SET, FIELD(debug), 0, 0, NULL, NULL},

    {"suid", PASS, 0, 0, 0, NULL, NULL},
    {"nosuid", PASS, 0, 0, 0, NULL, NULL},
    {"dev", PASS, 0, 0, 0, NULL, NULL},
    {"nodev", PASS, 0, 0, 0, NULL, NULL},
    {"exec", PASS, 0, 0, 0, NULL, NULL},
    {"noexec", PASS, 0, 0, 0, NULL, NULL},
    {"async", PASS, 0, 0, 0, NULL, NULL},
    {"sync", PASS, 0, 0, 0, NULL, NULL},
    {"dirsync", PASS, 0, 0, 0, NULL, NULL},
    {"noatime", PASS, 0, 0, 0, NULL, NULL},
    {"allow_root", PASS, 0, 0, 0, NULL, NULL},
    {"auto_unmount", PASS, 0, 0, 0, NULL, NULL},

    {"defaults", DROP, 0, 0, 0, NULL, NULL},
    {"auto", DROP, 0, 0, 0, NULL, NULL},
    {"noauto", DROP, 0, 0, 0, NULL, NULL},
    {"user", DROP, 0, 0, 0, NULL, NULL},
    {"nouser", DROP, 0, 0, 0, NULL, NULL},
    {"users", DROP, 0, 0, 0, NULL, NULL},
    {"owner", DROP, 0, 0, 0, NULL, NULL},
    {"group", DROP, 0, 0, 0, NULL, NULL},
    {"_netdev", DROP, 0, 0, 0, NULL, NULL},
    {"nofail", DROP, 0, 0, 0, NULL, NULL},
    {"comment", DROP, 0, 0, 0, NULL, NULL},
    {"uhelper", DROP, 0, 0, 0, NULL, NULL},
    {"x-", DROP_PREFIX, 0, 0, 0, NULL, NULL},
    {"X-", DROP_PREFIX, 0, 0, 0, NULL, NULL},
    /* Access times are kept as they were set: every setting of these means the same here. */
    {"atime", DROP, 0, 0, 0, NULL, NULL},
    {"diratime", DROP, 0, 0, 0, NULL, NULL},
    {"nodiratime", DROP, 0, 0, 0, NULL, NULL},
    {"relatime", DROP, 0, 0, 0, NULL, NULL},
    {"norelatime", DROP, 0, 0, 0, NULL, NULL},
    {"strictatime", DROP, 0, 0, 0, NULL, NULL},
    {"nostrictatime", DROP, 0, 0, 0, NULL, NULL},
    {"lazytime", DROP, 0, 0, 0, NULL, NULL},
    {"nolazytime", DROP, 0, 0, 0, NULL, NULL},
    {"iversion", DROP, 0, 0, 0, NULL, NULL},
    {"noiversion", DROP, 0, 0, 0, NULL, NULL},
    {"mand", DROP, 0, 0, 0, NULL, NULL},
    {"nomand", DROP, 0, 0, 0, NULL, NULL},
    {"silent", DROP, 0, 0, 0, NULL, NULL},
    {"loud", DROP, 0, 0, 0, NULL, NULL},
    {"default_permissions", DROP, 0, 0, 0, NULL, NULL}, /* always on */

    {"fsname", FIXED, 0, 0, 0, NULL, "the store's path"},
    {"subtype", FIXED, 0, 0, 0, NULL, "sepfs"},
    {"max_read", FIXED, 0, 0, 0, NULL, "1 MiB"},
};

void fs_options_init(struct fs_options *options)
{
    const long cpus = sysconf(_SC_NPROCESSORS_ONLN);

    memset(options, 0, sizeof *options);
    options->cold_after = 3600;
    options->hot = (struct sep_method){SEP_CODEC_ZSTD, 3};
    (void)sep_method_parse("sep", &options->cold);
    options->compact = FS_COMPACT_AUTO;
    options->cache = 128 * MIB;
    options->dirty = 64 * MIB;
    options->threads = cpus < 1 ? 1 : cpus > 256 ? 256 : (unsigned)cpus;
    options->cpu_share = 100;
    options->commit = 5;
    strcpy(options->models, SEPFS_MODEL_DIR);
}

void fs_options_help(FILE *out)
{
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        const struct option *option = &table[i];
        char text[32];

        if (option->help == NULL || option->kind == FIXED)
            continue;
        snprintf(text, sizeof text, "%s%s%s", option->name, option->value != NULL ? "=" : "",
                 option->value != NULL ? option->value : "");
        fprintf(out, "  %-20s %s\n", text, option->help);
    }
}

/* ---- values --------------------------------------------------------------------------------- */

/* Digits at *text into *value; moves *text behind them. */
static int parse_digits(const char **text, uint64_t *value)
{
    uint64_t sum = 0;

    if (**text < '0' || **text > '9')
        return -EINVAL;
    for (; **text >= '0' && **text <= '9'; ++*text) {
        if (__builtin_mul_overflow(sum, 10u, &sum) ||
            __builtin_add_overflow(sum, (uint64_t)(**text - '0'), &sum))
            return -ERANGE;
    }
    *value = sum;
    return 0;
}

int fs_parse_size(const char *text, uint64_t *bytes)
{
    static const char units[] = "kmgt";
    uint64_t whole, numerator = 0, denominator = 1, unit = 1;
    int error = parse_digits(&text, &whole);

    if (error != 0)
        return error;
    if (*text == '.') {
        text++;
        if (*text < '0' || *text > '9')
            return -EINVAL;
        for (; *text >= '0' && *text <= '9'; text++) {
            if (denominator < 1000000) { /* finer than a byte of any unit but T matters little */
                numerator = numerator * 10 + (uint64_t)(*text - '0');
                denominator *= 10;
            }
        }
    }
    if (*text != '\0') {
        const char *found = strchr(units, *text | 0x20);

        if (found == NULL || text[1] != '\0')
            return -EINVAL;
        unit = 1ull << (10 * (found - units + 1));
    }
    if (unit == 1 && denominator != 1)
        return -EINVAL; /* parts of a byte */
    /* numerator < 1e6 and unit <= 2^40: their product fits */
    if (__builtin_mul_overflow(whole, unit, &whole) ||
        __builtin_add_overflow(whole, numerator * unit / denominator, &whole))
        return -ERANGE;
    *bytes = whole;
    return 0;
}

int fs_parse_time(const char *text, uint32_t *seconds)
{
    uint64_t value, unit = 1;
    const int error = parse_digits(&text, &value);

    if (error != 0)
        return error;
    if (*text != '\0') {
        if (text[1] != '\0')
            return -EINVAL;
        switch (*text) {
        case 's':
            break;
        case 'm':
            unit = 60;
            break;
        case 'h':
            unit = 3600;
            break;
        case 'd':
            unit = 86400;
            break;
        default:
            return -EINVAL;
        }
    }
    if (__builtin_mul_overflow(value, unit, &value) || value > UINT32_MAX)
        return -ERANGE;
    *seconds = (uint32_t)value;
    return 0;
}

/* ---- one option ------------------------------------------------------------------------------ */

/* "128M", "1h" would be nicer than bytes and seconds, but a range is read once in a lifetime. */
static void describe_range(const struct option *option, char *text, size_t size)
{
    switch (option->kind) {
    case SIZE:
    case BLOCK_SIZE:
        if (option->max >= TIB)
            snprintf(text, size, "a size from %lluM to %lluT",
                     (unsigned long long)(option->min / MIB),
                     (unsigned long long)(option->max / TIB));
        else
            snprintf(text, size, "a power of two from %lluK to %lluM",
                     (unsigned long long)(option->min / KIB),
                     (unsigned long long)(option->max / MIB));
        break;
    case SECONDS:
        snprintf(text, size, "a time from %llus to %llus, such as 90s, 5m, 12h or 30d",
                 (unsigned long long)option->min, (unsigned long long)option->max);
        break;
    default:
        snprintf(text, size, "a whole number from %llu to %llu", (unsigned long long)option->min,
                 (unsigned long long)option->max);
        break;
    }
}

static int parse_number(const struct option *option, struct fs_options *options, const char *value,
                        char *error, size_t size)
{
    void *const field = (char *)options + option->offset;
    char range[96];
    uint64_t number = 0;
    uint32_t seconds = 0;
    int result;

    if (option->kind == SECONDS) {
        result = fs_parse_time(value, &seconds);
        number = seconds;
    } else if (option->kind == NUMBER) {
        const char *end = value;

        result = parse_digits(&end, &number);
        if (result == 0 && *end != '\0')
            result = -EINVAL;
    } else {
        result = fs_parse_size(value, &number);
    }
    if (result == 0 && option->kind == BLOCK_SIZE && (number & (number - 1)) != 0)
        result = -EINVAL;
    if (result != 0 || number < option->min || number > option->max) {
        describe_range(option, range, sizeof range);
        snprintf(error, size, "option %s=%s: expected %s", option->name, value, range);
        return -EINVAL;
    }
    if (option->kind == SIZE)
        *(uint64_t *)field = number;
    else
        *(uint32_t *)field = (uint32_t)number;
    return 0;
}

static int parse_method(const struct option *option, struct fs_options *options, const char *value,
                        char *error, size_t size)
{
    struct sep_method method;

    if (option->kind == COLD && strcmp(value, "off") == 0) {
        options->cold_off = true;
        options->cold = (struct sep_method){SEP_CODEC_RAW, 0};
        return 0;
    }
    if (sep_method_parse(value, &method) != SEP_OK ||
        (method.codec != SEP_CODEC_ZSTD &&
         method.codec != (option->kind == HOT ? SEP_CODEC_LZ4 : SEP_CODEC_SEP))) {
        snprintf(error, size, "option %s=%s: expected %s", option->name, value,
                 option->kind == HOT ? HOT_METHODS : COLD_METHODS);
        return -EINVAL;
    }
    if (option->kind == HOT) {
        options->hot = method;
    } else {
        options->cold = method;
        options->cold_off = false;
    }
    return 0;
}

static int parse_compact(struct fs_options *options, const char *value, char *error, size_t size)
{
    static const char *const modes[] = {
        [FS_COMPACT_AUTO] = "auto", [FS_COMPACT_CPU] = "cpu", [FS_COMPACT_OFF] = "off"};

    for (unsigned i = 0; i < sizeof modes / sizeof modes[0]; i++) {
        if (strcmp(value, modes[i]) == 0) {
            options->compact = (enum fs_compact_mode)i;
            return 0;
        }
    }
    snprintf(error, size, "option compact=%s: expected auto, cpu or off", value);
    return -EINVAL;
}

static int parse_directory(const struct option *option, struct fs_options *options,
                           const char *value, char *error, size_t size)
{
    char *const field = (char *)options + option->offset;
    char resolved[PATH_MAX];
    struct stat status;

    if (strcmp(value, "off") == 0) {
        field[0] = '\0';
        return 0;
    }
    if (realpath(value, resolved) == NULL || stat(resolved, &status) != 0) {
        snprintf(error, size, "option %s=%s: %s", option->name, value, strerror(errno));
        return -EINVAL;
    }
    if (!S_ISDIR(status.st_mode)) {
        snprintf(error, size, "option %s=%s: not a directory", option->name, value);
        return -EINVAL;
    }
    strcpy(field, resolved);
    return 0;
}

static int pass_on(struct fs_options *options, const char *name, char *error, size_t size)
{
    const size_t used = strlen(options->fuse);
    const int length = snprintf(options->fuse + used, sizeof options->fuse - used, "%s%s",
                                used != 0 ? "," : "", name);

    if (length < 0 || (size_t)length >= sizeof options->fuse - used) {
        options->fuse[used] = '\0';
        snprintf(error, size, "option %s: too many options", name);
        return -EINVAL;
    }
    return 0;
}

static const struct option *find(const char *name)
{
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        const bool same = table[i].kind == DROP_PREFIX
                              ? strncmp(name, table[i].name, strlen(table[i].name)) == 0
                              : strcmp(name, table[i].name) == 0;
        if (same)
            return &table[i];
    }
    return NULL;
}

static int parse_one(struct fs_options *options, char *text, char *error, size_t size)
{
    char *value = strchr(text, '=');
    const struct option *option;

    if (value != NULL)
        *value++ = '\0';
    option = find(text);
    if (option == NULL) {
        snprintf(error, size, "unknown option '%s'", text);
        return -EINVAL;
    }
    if (option->kind == FIXED) {
        snprintf(error, size, "option %s: cannot be set, it is %s", text, option->help);
        return -EINVAL;
    }
    if (option->kind == DROP || option->kind == DROP_PREFIX)
        return 0;
    if (value != NULL && option->value == NULL) {
        snprintf(error, size, "option %s takes no value", text);
        return -EINVAL;
    }
    if (option->value != NULL && (value == NULL || *value == '\0')) {
        snprintf(error, size, "option %s needs a value: %s=%s", text, text, option->value);
        return -EINVAL;
    }
    switch (option->kind) {
    case SET:
    case CLEAR:
        *(bool *)((char *)options + option->offset) = option->kind == SET;
        return 0;
    case HOT:
    case COLD:
        return parse_method(option, options, value, error, size);
    case COMPACT:
        return parse_compact(options, value, error, size);
    case DIRECTORY:
        return parse_directory(option, options, value, error, size);
    case PASS:
        return pass_on(options, text, error, size);
    default:
        return parse_number(option, options, value, error, size);
    }
}

int fs_options_parse(struct fs_options *options, const char *list, char *error, size_t size)
{
    char text[256];

    while (*list != '\0') {
        const size_t length = strcspn(list, ",");
        int result;

        if (length >= sizeof text) {
            snprintf(error, size, "option %.32s...: too long", list);
            return -EINVAL;
        }
        memcpy(text, list, length);
        text[length] = '\0';
        if (length != 0 && (result = parse_one(options, text, error, size)) != 0)
            return result;
        list += length + (list[length] == ',');
    }
    return 0;
}
