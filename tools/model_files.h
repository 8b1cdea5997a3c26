/* SPDX-License-Identifier: BSD-2-Clause
 *
 * model_files.h - model files (.sepm) named on a command line.
 */
#ifndef TOOLS_MODEL_FILES_H
#define TOOLS_MODEL_FILES_H

#include "codec/sep.h"

struct model_files {
    struct sep_model *list[SEP_CONTEXT_MODELS_MAX];
    unsigned count;
};

/* Loads PATH. False after one error line that names it. */
bool model_files_add(struct model_files *files, const char *program, const char *path);
/* Gives all of them to CONTEXT, to encode and to decode with. */
enum sep_status model_files_give(const struct model_files *files, struct sep_context *context);
/* When no context uses them any more. */
void model_files_free(struct model_files *files);

#endif
