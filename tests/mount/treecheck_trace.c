/* SPDX-License-Identifier: BSD-2-Clause
 *
 * treecheck_trace.c - lists of operations as text, one a line, and the report of a failure:
 *   NAME TREE slot SLOT SLOT2 /NUMBER/NUMBER /NUMBER OFFSET LENGTH SEED FLAGS
 * Paths are name numbers; "/" is the top. What an operation does not use is written all the same.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "treecheck.h"

const struct tc_operation tc_kinds[] = {
    {"open", 16, TC_ANY, tc_do_open},
    {"create", 9, TC_PLACE, tc_do_open},
    {"close", 2, TC_SLOT, tc_do_close},
    {"read", 8, TC_SLOT, tc_do_read},
    {"write", 22, TC_SLOT, tc_do_write},
    {"ftruncate", 4, TC_SLOT, tc_do_ftruncate},
    {"truncate", 3, TC_ANY, tc_do_truncate},
    {"punch", 4, TC_SLOT, tc_do_punch},
    {"zero", 3, TC_SLOT, tc_do_zero},
    {"allocate", 2, TC_SLOT, tc_do_allocate},
    {"map-read", 4, TC_SLOT, tc_do_map_read},
    {"map-write", 6, TC_SLOT, tc_do_map_write},
    {"copy", 8, TC_SLOT_PAIR, tc_do_copy},
    {"seek", 3, TC_SLOT, tc_do_seek},
    {"sync", 3, TC_SLOT, tc_do_sync},
    {"forget", 3, TC_SLOT, tc_do_forget},
    {"mkdir", 7, TC_PLACE, tc_do_mkdir},
    {"rmdir", 3, TC_ANY, tc_do_rmdir},
    {"unlink", 9, TC_ANY, tc_do_unlink},
    {"link", 6, TC_PATH_PAIR, tc_do_link},
    {"symlink", 3, TC_PLACE, tc_do_symlink},
    {"mkfifo", 1, TC_PLACE, tc_do_mkfifo},
    {"rename", 14, TC_PATH_PAIR, tc_do_rename},
    {"chmod", 3, TC_ANY, tc_do_chmod},
    {"utimes", 3, TC_ANY, tc_do_utimes},
    {"setxattr", 6, TC_ANY, tc_do_setxattr},
    {"removexattr", 3, TC_ANY, tc_do_removexattr},
    {"sync-path", 3, TC_ANY, tc_do_sync_path},
    {"look", 8, TC_ANY, tc_do_look},
    {"verify", 8, TC_ANY, tc_do_verify},
    {"compare", 1, TC_HOOK, tc_do_compare},
    {"hook", 1, TC_HOOK, tc_do_hook},
};
const unsigned tc_kind_count = sizeof tc_kinds / sizeof *tc_kinds;

int tc_kind_named(const char *name)
{
    for (unsigned i = 0; i < tc_kind_count; i++) {
        if (strcmp(tc_kinds[i].name, name) == 0)
            return (int)i;
    }
    return -1;
}

struct tc_trace *tc_trace_new(uint32_t size)
{
    const size_t bytes = sizeof(struct tc_trace) + size * sizeof(struct tc_op);
    struct tc_trace *trace = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                                  MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (trace == MAP_FAILED)
        return NULL;
    trace->size = size;
    trace->op = (struct tc_op *)(trace + 1);
    return trace;
}

/* ---- text --------------------------------------------------------------------------------------- */

static void print_path(FILE *out, const struct tc_path *path)
{
    fputs(path->depth ? " " : " /", out);
    for (unsigned i = 0; i < path->depth; i++)
        fprintf(out, "/%u", path->name[i]);
}

void tc_print_op(FILE *out, const struct tc_op *op)
{
    fprintf(out, "%s %s slot %u %u", tc_kinds[op->kind].name, op->common ? "common" : "own",
            op->slot, op->slot2);
    print_path(out, &op->path);
    print_path(out, &op->path2);
    fprintf(out, " %u %u %u 0x%x\n", op->offset, op->length, op->seed, op->flags);
}

static bool read_path(const char *text, struct tc_path *path)
{
    *path = (struct tc_path){0};
    if (strcmp(text, "/") == 0)
        return true;
    for (; *text == '/'; path->depth++) {
        if (path->depth == TC_DEPTH || text[1] < '0' || text[1] >= '0' + TC_NAMES)
            return false;
        path->name[path->depth] = (uint8_t)(text[1] - '0');
        text += 2;
    }
    return !*text;
}

static bool read_op(const char *line, struct tc_op *op)
{
    char name[32], tree[8], path[64], path2[64];
    unsigned slot, slot2;
    *op = (struct tc_op){0};
    if (sscanf(line, "%31s %7s slot %u %u %63s %63s %u %u %u %x", name, tree, &slot, &slot2, path,
               path2, &op->offset, &op->length, &op->seed, &op->flags) != 10 ||
        tc_kind_named(name) < 0 || slot > 1 || slot2 > 1)
        return false;
    op->kind = (uint8_t)tc_kind_named(name);
    op->common = strcmp(tree, "common") == 0;
    op->slot = (uint8_t)slot;
    op->slot2 = (uint8_t)slot2;
    return (op->common || strcmp(tree, "own") == 0) && read_path(path, &op->path) &&
           read_path(path2, &op->path2);
}

bool tc_trace_write(const char *path, const struct tc_trace *trace, uint64_t seed)
{
    FILE *out = fopen(path, "w");
    if (!out)
        return false;
    fprintf(out, "# of seed %ju\n", (uintmax_t)seed);
    for (uint32_t i = 0; i < trace->count; i++)
        tc_print_op(out, &trace->op[i]);
    return fclose(out) == 0;
}

bool tc_trace_read(const char *path, struct tc_trace **result)
{
    char line[256];
    uint32_t lines = 0;
    FILE *in = fopen(path, "r");
    if (!in)
        return false;
    while (fgets(line, sizeof line, in))
        lines++;
    rewind(in);
    struct tc_trace *trace = tc_trace_new(lines + 1);
    bool valid = trace != NULL;
    while (valid && fgets(line, sizeof line, in)) {
        if (line[0] == '#' || line[0] == '\n')
            continue;
        valid = read_op(line, &trace->op[trace->count]);
        if (valid)
            trace->count++;
        else
            fprintf(stderr, "treecheck: %s: no operation: %s", path, line);
    }
    fclose(in);
    *result = trace;
    return valid;
}

/* ---- failure ------------------------------------------------------------------------------------ */

void tc_fail(const struct tc_call *call, const char *format, ...)
{
    char message[512], text[TC_TEXT], *report = NULL;
    size_t size = 0;
    const struct tc_worker *worker = call->worker;
    const struct tc_trace *trace = worker->trace;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(message, sizeof message, format, arguments);
    va_end(arguments);
    FILE *out = worker->quiet ? NULL : open_memstream(&report, &size);
    if (!out)
        _exit(1);
    tc_text(call, &call->op->path, text);
    fprintf(out, "treecheck: FAILED: seed %ju, process %u, operation %u, in %s (kept): %s: %s\n",
            (uintmax_t)worker->seed, worker->number, trace->count, worker->directory,
            tc_kinds[call->op->kind].name, message);
    fprintf(out, "path: %s\nlast operations:\n", text);
    for (uint32_t i = trace->count > TC_LOG ? trace->count - TC_LOG : 0; i < trace->count; i++)
        tc_print_op(out, &trace->op[i]);
    fclose(out);
    const ssize_t written = write(STDOUT_FILENO, report, size); /* one: several may fail at once */
    _exit(written == (ssize_t)size ? 1 : 3);
}
