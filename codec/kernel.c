/* SPDX-License-Identifier: BSD-2-Clause
 *
 * kernel.c - which arithmetic this processor runs.
 */
#include "codec.h"
#include "kernel.h"

const struct sep_kernel *sep_kernel_best(void)
{
#ifdef SEP_HAVE_AVX2
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi") &&
        __builtin_cpu_supports("popcnt"))
        return &sep_kernel_avx2;
#endif
    return &sep_kernel_scalar;
}

const char *sep_simd_name(void)
{
    return sep_kernel_best()->name;
}
