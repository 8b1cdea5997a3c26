/* SPDX-License-Identifier: BSD-2-Clause
 *
 * quantise.c - from floats to the integers of codec/net.h, once.
 *
 * TRAIN_CLIP is 127 in integers. What is left to choose is how fine the rows are (cut: bits that
 * the sum has more than its cut form) and the dense weights (shift); coarser steps reach further
 * before they saturate. Both are chosen by trial on training blocks, and the result is judged by
 * held-out ones. Gates go into the rows; a patch whose gate is nearly closed is left out.
 */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kind.h"
#include "net.h"
#include "walk.h"

#include "codec/model_file.h"
#include "codec/transform.h"

#define GATE_CLOSED 0.05F
#define TRIAL_BYTES (96u << 10)
#define JUDGE_BYTES (2u << 20)
#define CUTS        4u
#define SHIFTS      3u
#define UNIT        16.0F /* logits are in 1/16 nat */
#define LN2         0.69314718055994531

static float limit(float value, float most)
{
    return value > most ? most : value < -most ? -most : value;
}

static float widest(const struct train_net *net)
{
    const float *const out = &net->dense.out[0][0][0];
    float most = 1e-3F;

    for (size_t k = 0; k < sizeof net->dense.out / sizeof *out; k++)
        most = fabsf(out[k]) > most ? fabsf(out[k]) : most;
    return most;
}

/* The largest shift that saturates no dense weight. */
static unsigned exact_shift(const struct train_net *net)
{
    const float unit = widest(net) * UNIT * TRAIN_CLIP / 127.0F;
    unsigned shift = 1;

    while (shift < SEP_NET_SHIFT_MAX - SHIFTS && unit * (float)(2u << shift) <= 127.0F)
        shift++;
    return shift;
}

static void fill_dense(const struct train_net *net, struct sep_net *to)
{
    const float scale = 127.0F / TRAIN_CLIP * (float)(1u << to->cut);
    const float grain = UNIT * (float)(1u << to->shift);
    const float half = to->cut != 0 ? (float)(1u << (to->cut - 1)) : 0.0F;

    for (unsigned d = 0; d < TRAIN_WIDTH; d++)
        to->bias[d] = (int16_t)lrintf(limit(net->dense.bias[d] * scale + half, SEP_NET_BIAS_MAX));
    for (unsigned head = 0; head < TRAIN_HEADS; head++)
        for (unsigned s = 0; s < TRAIN_SYMBOLS; s++) {
            to->head_bias[head][s] =
                (int32_t)lrintf(limit(net->dense.out_bias[head][s] * grain, SEP_NET_HEAD_MAX));
            for (unsigned d = 0; d < TRAIN_WIDTH; d++)
                to->head[head][s][d] = (int8_t)lrintf(
                    limit(net->dense.out[head][s][d] * grain * TRAIN_CLIP / 127.0F, 127));
        }
}

static void fill_rows(const struct train_net *net, struct sep_net *to)
{
    const size_t count = (size_t)TRAIN_WIDTH << net->rows_log;
    const float scale = 127.0F / TRAIN_CLIP * (float)(1u << to->cut);
    unsigned f = 0;

    for (unsigned from = 0; from < TRAIN_FEATURES; from++) {
        const float *const row = net->row + from * count;

        if (net->gate[from] < GATE_CLOSED)
            continue;
        to->patch[f] = net->patch[from];
        for (size_t k = 0; k < count; k++)
            to->rows[f * count + k] = (int8_t)lrintf(limit(row[k] * net->gate[from] * scale, 127));
        f++;
    }
}

/* ---- loss ----------------------------------------------------------------------------------- */

static double nats(const int8_t row[SEP_SYMBOLS], unsigned symbol)
{
    double total = 0;

    for (unsigned s = 0; s < SEP_SYMBOLS; s++)
        total += exp((double)row[s] / (double)UNIT);
    return log(total) - (double)row[symbol] / (double)UNIT;
}

static double integer_loss(const struct sep_net *net, const struct train_walk *walk, uint8_t byte)
{
    uint8_t active[SEP_NET_WIDTH];
    int8_t row[SEP_SYMBOLS];
    double loss;

    sep_net_activate(net, walk->m->patch_value, active);
    sep_net_logits(net, active, 0, row);
    loss = nats(row, byte >> 4);
    sep_net_logits(net, active, 1u + (byte >> 4), row);
    return loss + nats(row, byte & 15);
}

static double float_loss(const struct train_net *net, const struct train_walk *walk, uint8_t byte,
                         struct train_lane *lane)
{
    for (unsigned f = 0; f < TRAIN_FEATURES; f++)
        lane->index[0][f] =
            sep_net_row(walk->m->patch_value[net->patch[f]], net->patch[f], net->rows_log);
    lane->byte[0] = byte;
    lane->steps = 1;
    train_math_best()->examples(net, lane);
    return lane->loss;
}

struct exam {
    const struct train_net *floats; /* or NULL */
    const struct sep_net *integers;
    const struct train_sample *sample;
    unsigned kinds;
    bool held_out;
    uint32_t bytes_max, each_max;    /* of all blocks; of one */
    double float_loss, integer_loss; /* out: nats */
    uint64_t bytes;                  /* out */
};

static int take_block(struct exam *exam, const struct train_block *block, struct train_walk *walk,
                      struct train_lane *lane)
{
    uint8_t *const copy = malloc(block->size);
    const uint32_t size = block->size < exam->each_max ? block->size : exam->each_max;

    if (copy == NULL)
        return -ENOMEM;
    memcpy(copy, block->bytes, block->size);
    if (block->kind == TRAIN_KIND_X86)
        sep_transform_apply(SEP_TRANSFORM_X86, copy, block->size);
    train_walk_begin(walk, copy, size, train_stride_of(block));
    while (train_walk_at(walk) < size) {
        const uint8_t byte = copy[train_walk_at(walk)];

        if (exam->floats != NULL)
            exam->float_loss += float_loss(exam->floats, walk, byte, lane);
        exam->integer_loss += integer_loss(exam->integers, walk, byte);
        train_walk_next(walk);
    }
    exam->bytes += size;
    free(copy);
    return 0;
}

static int take_exam(struct exam *exam, const struct train_net *net)
{
    struct train_lane *const lane = aligned_alloc(64, sizeof *lane);
    struct train_walk walk;
    int error = train_walk_init(&walk, net->patch, TRAIN_FEATURES);

    exam->float_loss = exam->integer_loss = 0;
    exam->bytes = 0;
    if (lane == NULL)
        error = -ENOMEM;
    for (size_t k = 0; k < exam->sample->count && error == 0 && exam->bytes < exam->bytes_max;
         k++) {
        const struct train_block *const block = &exam->sample->blocks[k];

        if (block->held_out == exam->held_out && (exam->kinds & TRAIN_KIND_BIT(block->kind)) != 0)
            error = take_block(exam, block, &walk, lane);
    }
    train_walk_free(&walk);
    free(lane);
    return error;
}

/* ---- choice --------------------------------------------------------------------------------- */

static int try_all(const struct train_net *net, struct exam *exam, struct sep_net *to)
{
    const unsigned first = exact_shift(net);
    double best = INFINITY;
    uint8_t best_cut = 0, best_shift = 1;

    for (unsigned cut = 0; cut < CUTS; cut++)
        for (unsigned extra = 0; extra < SHIFTS; extra++) {
            int error;

            if (extra != 0 && cut != 1) /* the two do not depend on each other much */
                continue;
            to->cut = (uint8_t)cut;
            to->shift = (uint8_t)(cut > 1 ? best_shift : first + extra);
            fill_dense(net, to);
            if (extra == 0)
                fill_rows(net, to);
            error = take_exam(exam, net);
            if (error != 0)
                return error;
            if (exam->integer_loss < best) {
                best = exam->integer_loss;
                best_cut = to->cut;
                best_shift = to->shift;
            }
        }
    to->cut = best_cut;
    to->shift = best_shift;
    fill_dense(net, to);
    fill_rows(net, to);
    return 0;
}

int train_net_quantise(const struct train_net *net, const struct train_sample *sample,
                       unsigned kinds, struct sep_model *model, struct train_loss *loss)
{
    struct exam exam = {
        .sample = sample, .kinds = kinds, .bytes_max = TRIAL_BYTES, .each_max = TRIAL_BYTES / 8};
    unsigned open = 0;
    struct sep_net *to;
    int error;

    for (unsigned f = 0; f < TRAIN_FEATURES; f++)
        open += net->gate[f] >= GATE_CLOSED;
    if (open == 0)
        return -ENODATA;
    to = sep_net_new(open, net->rows_log);
    if (to == NULL)
        return -ENOMEM;
    exam.integers = to;
    error = try_all(net, &exam, to);
    if (error == 0 && !sep_net_prepare(to))
        error = -EINVAL;
    exam.floats = net;
    exam.held_out = true;
    exam.bytes_max = JUDGE_BYTES;
    exam.each_max = SEP_BLOCK_SIZE_MAX;
    if (error == 0)
        error = take_exam(&exam, net);
    if (error != 0) {
        sep_net_free(to);
        return error;
    }
    *loss = (struct train_loss){.bytes = exam.bytes, .patches = open};
    if (exam.bytes != 0) {
        loss->floats = exam.float_loss / (double)exam.bytes / LN2;
        loss->integers = exam.integer_loss / (double)exam.bytes / LN2;
    }
    model->net = to;
    return 0;
}
