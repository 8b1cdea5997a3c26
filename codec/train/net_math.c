/* SPDX-License-Identifier: BSD-2-Clause
 *
 * net_math.c - the arithmetic of net.h; built once as it is and once for AVX2, with the same
 * results: vectors of eight floats are an extension of the language, not of the processor.
 */
#include <math.h>
#include <string.h>

#include "net.h"

typedef float vector __attribute__((vector_size(32)));
typedef int32_t integers __attribute__((vector_size(32)));

#define PART   8u
#define PARTS  (TRAIN_WIDTH / PART)
#define AHEAD  4u /* examples that rows are asked for in advance */
#define LITTLE 1e-6F

/* The truth is taken to be any symbol with this probability in all: logits grow to 8 nats between
 * the possible and the impossible, and no further, since integers reach 127 / 16 from their mean. */
#define SMOOTH 0.005F

static inline vector load(const float *from)
{
    vector value;

    memcpy(&value, from, sizeof value);
    return value;
}

static inline void store(float *to, vector value)
{
    memcpy(to, &value, sizeof value);
}

static inline vector each(float value)
{
    return (vector){value, value, value, value, value, value, value, value};
}

static inline float sum(vector v)
{
    return ((v[0] + v[4]) + (v[2] + v[6])) + ((v[1] + v[5]) + (v[3] + v[7]));
}

static inline vector larger(vector a, vector b)
{
    const integers mask = a > b;

    return (vector)(((integers)a & mask) | ((integers)b & ~mask));
}

static inline vector smaller(vector a, vector b)
{
    const integers mask = a < b;

    return (vector)(((integers)a & mask) | ((integers)b & ~mask));
}

/* e^x for x in [-80, 0]: 2^n times a polynomial of the sixth degree, error below 1e-6. */
static inline vector exponential(vector x)
{
    const vector t = larger(x, each(-80.0F)) * each(1.44269504F);
    const integers n = __builtin_convertvector(t - each(0.5F), integers);
    const vector f = (t - __builtin_convertvector(n, vector)) * each(0.69314718F);
    const vector p =
        each(1.0F) +
        f * (each(1.0F) +
             f * (each(0.5F) +
                  f * (each(1.0F / 6) +
                       f * (each(1.0F / 24) + f * (each(1.0F / 120) + f * each(1.0F / 720))))));

    return (vector)((integers)p + (n << 23));
}

static inline const float *row_of(const struct train_net *net, unsigned feature, uint32_t index)
{
    return net->row + (((size_t)feature << net->rows_log) + index) * TRAIN_WIDTH;
}

/* Softmax of one head; leaves probability - smoothed truth in ERROR and returns the loss. */
static inline float head(const struct train_net *net, unsigned which, const float *h,
                         unsigned symbol, float *error)
{
    vector a = load(net->dense.out_bias[which]), b = load(net->dense.out_bias[which] + PART);
    vector top, total;
    float most = 0, shares, chance;

    for (unsigned k = 0; k < TRAIN_WIDTH; k++) {
        a += each(h[k]) * load(net->across[which][k]);
        b += each(h[k]) * load(net->across[which][k] + PART);
    }
    top = larger(a, b);
    for (unsigned k = 0; k < PART; k++)
        most = k == 0 || top[k] > most ? top[k] : most;
    a = exponential(a - each(most));
    b = exponential(b - each(most));
    total = a + b;
    shares = sum(total);
    store(error, a / each(shares));
    store(error + PART, b / each(shares));
    chance = error[symbol];
    store(error, load(error) - each(SMOOTH / (float)TRAIN_SYMBOLS));
    store(error + PART, load(error + PART) - each(SMOOTH / (float)TRAIN_SYMBOLS));
    error[symbol] -= 1.0F - SMOOTH;
    return -logf(chance > 1e-9F ? chance : 1e-9F);
}

/* Gradient of one head's weights, and what it adds to that of h. */
static inline void head_back(const struct train_net *net, unsigned which, const float *h,
                             const float *error, struct train_dense *gradient, vector dh[PARTS])
{
    float *const bias = gradient->out_bias[which];

    store(bias, load(bias) + load(error));
    store(bias + PART, load(bias + PART) + load(error + PART));
    for (unsigned s = 0; s < TRAIN_SYMBOLS; s++) {
        const vector e = each(error[s]);
        const float *const weight = net->dense.out[which][s];
        float *const slope = gradient->out[which][s];

        for (unsigned p = 0; p < PARTS; p++) {
            dh[p] += e * load(weight + p * PART);
            store(slope + p * PART, load(slope + p * PART) + e * load(h + p * PART));
        }
    }
}

static void ask_for_rows(const struct train_net *net, const uint32_t *index)
{
    for (unsigned f = 0; f < TRAIN_FEATURES; f++) {
        __builtin_prefetch(row_of(net, f, index[f]));
        __builtin_prefetch(row_of(net, f, index[f]) + 16);
    }
}

static void example(const struct train_net *net, struct train_lane *lane, unsigned step)
{
    const uint8_t byte = lane->byte[step];
    const unsigned low_head = 1u + (byte >> 4);
    vector z[PARTS], dh[PARTS] = {{0}}, squares = {0};
    _Alignas(32) float h[TRAIN_WIDTH], error[TRAIN_SYMBOLS];

    for (unsigned p = 0; p < PARTS; p++)
        z[p] = load(net->dense.bias + p * PART);
    for (unsigned f = 0; f < TRAIN_FEATURES; f++) {
        const float *const row = row_of(net, f, lane->index[step][f]);
        const vector gate = each(net->gate[f]);

        for (unsigned p = 0; p < PARTS; p++)
            z[p] += gate * load(row + p * PART);
    }
    for (unsigned p = 0; p < PARTS; p++)
        store(h + p * PART, smaller(larger(z[p], each(0)), each(TRAIN_CLIP)));

    lane->loss += (double)head(net, 0, h, byte >> 4, error);
    head_back(net, 0, h, error, &lane->gradient, dh);
    lane->loss += (double)head(net, low_head, h, byte & 15, error);
    head_back(net, low_head, h, error, &lane->gradient, dh);

    for (unsigned p = 0; p < PARTS; p++) {
        const integers open = (z[p] > each(0)) & (z[p] < each(TRAIN_CLIP));
        const vector dz = (vector)((integers)dh[p] & open);
        float *const bias = lane->gradient.bias + p * PART;

        store(bias, load(bias) + dz);
        store(lane->dz[step] + p * PART, dz);
        squares += dz * dz;
    }
    lane->dz_square[step] = sum(squares) / (float)TRAIN_WIDTH;
}

static void examples(const struct train_net *net, struct train_lane *lane)
{
    memset(&lane->gradient, 0, sizeof lane->gradient);
    lane->loss = 0;
    for (unsigned step = 0; step < AHEAD && step < lane->steps; step++)
        ask_for_rows(net, lane->index[step]);
    for (unsigned step = 0; step < lane->steps; step++) {
        if (step + AHEAD < lane->steps)
            ask_for_rows(net, lane->index[step + AHEAD]);
        example(net, lane, step);
    }
}

static void rows(struct train_net *net, const struct train_lane *lanes, unsigned feature,
                 float rate, float penalty)
{
    const float gate = net->gate[feature];
    float *const squares = net->row_squares + ((size_t)feature << net->rows_log);
    vector slope = {0};
    unsigned seen = 0;

    if (gate <= 0)
        return;
    for (unsigned l = 0; l < TRAIN_LANES; l++) {
        const struct train_lane *const lane = &lanes[l];

        for (unsigned step = 0; step < lane->steps; step++) {
            const uint32_t index = lane->index[step][feature];
            float *const row = (float *)row_of(net, feature, index);
            float pace;

            squares[index] += gate * gate * lane->dz_square[step];
            pace = rate * gate / sqrtf(squares[index] + LITTLE);
            for (unsigned p = 0; p < PARTS; p++) {
                const vector dz = load(lane->dz[step] + p * PART);
                const vector old = load(row + p * PART);

                slope += dz * old;
                store(row + p * PART, old - each(pace) * dz);
            }
            seen++;
        }
    }
    if (seen != 0) {
        const float moved = gate - rate * (sum(slope) / (float)seen + penalty);

        net->gate[feature] = moved > 1 ? 1 : moved < 0 ? 0 : moved;
    }
}

static void dense(struct train_net *net, const struct train_lane *lanes, unsigned first,
                  unsigned end, float rate)
{
    float *const weight = (float *)&net->dense, *const squares = (float *)&net->squares;
    unsigned seen = 0;

    for (unsigned l = 0; l < TRAIN_LANES; l++)
        seen += lanes[l].steps;
    if (seen == 0)
        return;
    for (unsigned k = first; k < end; k++) {
        float slope = 0;

        for (unsigned l = 0; l < TRAIN_LANES; l++)
            slope += ((const float *)&lanes[l].gradient)[k];
        slope /= (float)seen;
        squares[k] += slope * slope;
        weight[k] -= rate * slope / sqrtf(squares[k] + 1e-10F);
    }
}

#ifdef TRAIN_AVX2
const struct train_math train_math_avx2 = {examples, rows, dense};
#else
const struct train_math train_math_plain = {examples, rows, dense};
#endif
