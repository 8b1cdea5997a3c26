/* SPDX-License-Identifier: BSD-2-Clause
 *
 * memory.c - where the codec's memory comes from.
 *
 * All of it goes through one function, so that a test can fail each allocation in turn and see the
 * error come out as SEP_ERROR_MEMORY. The counter is per thread and is zero outside tests.
 */
#include <stdlib.h>
#include <string.h>

#include "codec.h"

static _Thread_local unsigned allocations_until_failure;

void sep_test_fail_allocation(unsigned n)
{
    allocations_until_failure = n;
}

void *sep_allocate(size_t size)
{
    const size_t rounded = (size + 63) & ~(size_t)63;
    void *memory;

    if (allocations_until_failure != 0 && --allocations_until_failure == 0)
        return NULL;
    memory = rounded < size ? NULL : aligned_alloc(64, rounded);
    if (memory != NULL)
        memset(memory, 0, rounded);
    return memory;
}

void sep_release(void *memory)
{
    free(memory);
}
