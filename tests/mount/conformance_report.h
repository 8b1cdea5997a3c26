/* SPDX-License-Identifier: BSD-2-Clause
 *
 * conformance_report.h - how a case in its own process tells the runner how it ended: a result as
 * exit status, and one line of text on a pipe.
 */
#ifndef TESTS_MOUNT_CONFORMANCE_REPORT_H
#define TESTS_MOUNT_CONFORMANCE_REPORT_H

enum cf_result { CF_PASSED = 0, CF_FAILED = 1, CF_SKIPPED = 77 };

/* Where this process and its children report to. */
void cf_report_to(int fd);
/* Writes the reason; the caller exits with RESULT. */
void cf_report(enum cf_result result, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

#endif
