/* SPDX-License-Identifier: BSD-2-Clause
 *
 * memory.c - where the codec's memory comes from.
 *
 * All of it goes through one function, so that a test can fail each allocation in turn and see the
 * error come out as SEP_ERROR_MEMORY. The counter is per thread and is zero outside tests.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "codec.h"

/* Slot tables are read at random: with pages of 4 KiB, address translation costs more than the
 * read. The kernel may decline, which costs speed only. */
#define HUGE_PAGE ((size_t)2 << 20)

static _Thread_local unsigned allocations_until_failure;

void sep_test_fail_allocation(unsigned n)
{
    allocations_until_failure = n;
}

void *sep_allocate(size_t size)
{
    const size_t alignment = size >= HUGE_PAGE ? HUGE_PAGE : 64;
    const size_t rounded = (size + alignment - 1) & ~(alignment - 1);
    void *memory;

    if (allocations_until_failure != 0 && --allocations_until_failure == 0)
        return NULL;
    memory = rounded < size ? NULL : aligned_alloc(alignment, rounded);
    if (memory != NULL && alignment == HUGE_PAGE)
        (void)madvise(memory, rounded, MADV_HUGEPAGE);
    if (memory != NULL)
        memset(memory, 0, rounded);
    return memory;
}

void sep_release(void *memory)
{
    free(memory);
}
