/* SPDX-License-Identifier: BSD-2-Clause
 *
 * models.h - the models of an open store: loaded for decoding, chosen for encoding, and public ones
 * brought in when the store is large enough.
 *
 * A store is self-contained: before a block may name a model, the model's file lies in the store. A
 * public model costs the store its own size, so it is brought in only when the store is large enough
 * for that to be small (FS_MODELS_SHARE). Private models are put there by sepfs-train.
 *
 * Models are added to the set and never taken out while it is open, so a context may keep what it
 * was given until the set is freed. Any thread.
 */
#ifndef FS_MODELS_H
#define FS_MODELS_H

#include "codec/sep.h"
#include "index/index.h"

/* The files of all models in a store take at most a 64th of the logical bytes, whatever they save
 * there: on text and source code that are stored at 4:1, public models save about a 50th of the
 * logical bytes (docs/benchmarks/codec.md: 6 to 11 % of what is stored), on other data next to
 * nothing. */
#define FS_MODELS_SHARE 64u

struct fs_models;

/* Loads the models that lie in the store. One that can't be read or is no model is logged and left
 * out: only blocks that name it are then lost to reading. 0 or a negative errno. */
int fs_models_open(struct index *index, struct fs_models **models);
/* When no context that was given them is in use any more. NULL is allowed. */
void fs_models_free(struct fs_models *models);

/* Brings in public models from DIRECTORY (files *.sepm; NULL or missing: none) as far as the share
 * allows, smallest first, and decides what may be encoded with: private models of the store, and
 * those of DIRECTORY that are in it. A model that can't be brought in is logged, and that is all. */
void fs_models_choose(struct fs_models *models, const char *directory);

/* Lists the models, those to encode with first: *encode of the *count. LIST has
 * SEP_CONTEXT_MODELS_MAX elements, and is good until the set is freed. */
void fs_models_list(struct fs_models *models, const struct sep_model **list, unsigned *count,
                    unsigned *encode);

/* Gives all of them to CONTEXT, to decode with. */
enum sep_status fs_models_give(struct fs_models *models, struct sep_context *context);

/* True when the model with this hash is there. */
bool fs_models_have(struct fs_models *models, uint64_t hash);

#endif
