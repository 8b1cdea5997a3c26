/* SPDX-License-Identifier: BSD-2-Clause
 *
 * bench.h - the measurements of sepfs-bench, one file each. argv[0] is the name of the measurement;
 * the return value is the exit code of the process.
 */
#ifndef TOOLS_BENCH_H
#define TOOLS_BENCH_H

int bench_codec(int argc,
                char **argv); /* ratio and speed of the block codecs, peers in the same run */
int bench_mount(int argc,
                char **argv); /* file operations on a mount, passthrough_ll in the same run */

#endif
