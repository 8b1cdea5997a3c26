/* SPDX-License-Identifier: BSD-2-Clause
 *
 * create.h - creation of a store, between store.c and create.c.
 */
#ifndef INDEX_CREATE_H
#define INDEX_CREATE_H

#include <stdbool.h>
#include <stddef.h>

struct index;

/* The caller's buffer for the one reason why a store was not opened. */
struct index_refusal {
    char *text;
    size_t size;
};

/* Writes the reason; returns RESULT. */
int index_refuse(struct index_refusal *refusal, int result, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Whether STORE (index->dir_fd) is a store. An error when it is neither one nor may become one. */
int index_store_exists(struct index *index, bool *exists, struct index_refusal *refusal);

/* Makes the locked, empty directory a store, begun again where a crash interrupted it. */
int index_store_create(struct index *index, struct index_refusal *refusal);

/* Opens the LMDB environment (index->env). */
int index_env_open(struct index *index, struct index_refusal *refusal);

/* Makes the names of the store, of sepfs.conf and of the index durable. A writer does so before its
 * first commit: whoever gave them may have been killed before it did, and what is committed to a file
 * is lost if a power cut brings back another one under its name. */
int index_store_sync_names(const struct index *index);

#endif
