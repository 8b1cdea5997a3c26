/* SPDX-License-Identifier: BSD-2-Clause
 *
 * compact_pass.c - the parts of a pass in their order: write back what is dirty and count the work,
 * when somebody asked; plan and recode; collect the garbage that this made.
 */
#include <errno.h>
#include <syslog.h>

#include "compact.h"
#include "writeback.h"

/* Packs of which less than this many percent is alive are rewritten when all was asked for: what
 * stays of them, and the room they take, is then a tenth at most. */
#define THOROUGH_PERCENT 90u

/* A block that several files share is met once for each of them. */
static uint64_t per_owner(const struct compact_item *item)
{
    return item->references > 1 ? item->plain_size / item->references : item->plain_size;
}

/* What there is to do, for the progress bar. */
static int count_work(struct compact_pass *pass)
{
    struct compact_item items[COMPACT_CHUNK];
    struct compact_plan plan;
    struct fs_compact_status *status;
    uint64_t bytes = 0;
    uint64_t blocks = 0;
    unsigned count;
    int more = compact_plan_begin(&plan, pass->fs, &pass->request, pass->kind);

    if (more == 0)
        more = 1;
    while (more > 0) {
        if (!compact_gate(pass)) {
            more = -ECANCELED;
            break;
        }
        more = compact_plan_next(&plan, items, &count);
        for (unsigned i = 0; more >= 0 && i < count; i++) {
            if (items[i].settled)
                continue;
            blocks++;
            bytes += items[i].piece ? items[i].extent.length : per_owner(&items[i]);
        }
    }
    compact_plan_end(&plan);
    status = compact_status_lock(pass);
    status->blocks_total = blocks;
    status->bytes_total = bytes;
    compact_status_unlock(pass);
    return more;
}

static int collect_garbage(struct compact_pass *pass)
{
    const bool thorough =
        pass->request.gc || (pass->request.all && pass->request.ino <= INDEX_ROOT_INO);
    struct index_gc_result result = {0};
    struct index_space space;
    int error;

    if (!thorough && pass->replaced == 0)
        return 0;
    error = index_gc(pass->fs->index, thorough ? THOROUGH_PERCENT : COMPACT_GC_PERCENT,
                     compact_stop_flag(pass), &result);
    if (error == -EUCLEAN) { /* what was recoded stays, and is no less right for that */
        fs_log(LOG_WARNING, "garbage is not collected: a record of the index is malformed; "
                            "sepfs-fsck repairs it");
        return 0;
    }
    if (error == 0 && index_space(pass->fs->index, &space) == 0) {
        pass->collected = true;
        pass->garbage =
            space.pack_bytes > space.live_bytes ? space.pack_bytes - space.live_bytes : 0;
    }
    return error;
}

int compact_pass_whole(struct compact_pass *pass)
{
    struct compact_plan plan;
    int error = 0;

    if (pass->kind == COMPACT_ASKED) {
        error = fs_writeback_all(pass->fs);
        if (error == 0)
            error = count_work(pass);
    }
    if (error == 0)
        error = compact_plan_begin(&plan, pass->fs, &pass->request, pass->kind);
    if (error != 0)
        return error;
    if (pass->kind == COMPACT_TIMER)
        plan.cold_now = pass->cold_now;
    error = compact_pass_run(pass, &plan);
    pass->due = plan.due;
    compact_plan_end(&plan);
    return error != 0 ? error : collect_garbage(pass);
}
