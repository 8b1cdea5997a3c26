/* SPDX-License-Identifier: BSD-2-Clause
 *
 * bench_plot.c - one SVG: a point a codec, ratio upwards, decoding speed to the right on a
 * logarithmic scale. Readable on light and dark pages; no scripts, no fonts of its own.
 */
#include <errno.h>
#include <math.h>
#include <stdio.h>

#include "bench_codec.h"

#define WIDTH  760.0
#define HEIGHT 420.0
#define LEFT   56.0
#define RIGHT  24.0
#define TOP    24.0
#define BOTTOM 48.0

struct range {
    double low, high;
};

/* Room on both sides of the values; a range of no width gets one. */
static struct range widen(struct range range)
{
    const double room = range.high > range.low ? 0.08 * (range.high - range.low) : 0.5;

    return (struct range){range.low - room, range.high + room};
}

static double place(struct range range, double value, double from, double to)
{
    return from + (value - range.low) / (range.high - range.low) * (to - from);
}

static void text(FILE *out, double x, double y, const char *anchor, const char *format,
                 double value)
{
    fprintf(out, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\">", x, y, anchor);
    fprintf(out, format, value);
    fputs("</text>\n", out);
}

static void axes(FILE *out, struct range speed, struct range ratio)
{
    const double step = ratio.high - ratio.low > 4 ? 1.0 : 0.5;

    for (int power = (int)ceil(speed.low); power <= (int)floor(speed.high); power++) {
        const double x = place(speed, power, LEFT, WIDTH - RIGHT);

        fprintf(out, "<path class=\"grid\" d=\"M%.1f %.1fV%.1f\"/>\n", x, TOP, HEIGHT - BOTTOM);
        text(out, x, HEIGHT - BOTTOM + 18, "middle", "%g", pow(10, power));
    }
    for (double at = ceil(ratio.low / step) * step; at <= ratio.high; at += step) {
        const double y = place(ratio, at, HEIGHT - BOTTOM, TOP);

        fprintf(out, "<path class=\"grid\" d=\"M%.1f %.1fH%.1f\"/>\n", LEFT, y, WIDTH - RIGHT);
        text(out, LEFT - 8, y + 4, "end", "%.1f", at);
    }
    fprintf(out, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"middle\">decoding, MB/s</text>\n",
            (LEFT + WIDTH - RIGHT) / 2, HEIGHT - 10);
    fprintf(out,
            "<text transform=\"translate(16 %.1f) rotate(-90)\" text-anchor=\"middle\">"
            "ratio, geometric mean</text>\n",
            (TOP + HEIGHT - BOTTOM) / 2);
}

int bench_plot(const char *path, const struct bench_point *points, unsigned count)
{
    struct range speed = {INFINITY, -INFINITY}, ratio = {INFINITY, -INFINITY};
    FILE *out = fopen(path, "w");

    if (out == NULL)
        return -errno;
    for (unsigned i = 0; i < count; i++) {
        const double power = log10(points[i].decode_speed);

        speed = (struct range){fmin(speed.low, power), fmax(speed.high, power)};
        ratio = (struct range){fmin(ratio.low, points[i].ratio), fmax(ratio.high, points[i].ratio)};
    }
    speed = widen(speed);
    ratio = widen(ratio);
    fprintf(out,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %.0f %.0f\" "
            "font-family=\"sans-serif\" font-size=\"12\">\n"
            "<title>Ratio against decoding speed</title>\n"
            "<style>text{fill:#888}.grid{stroke:#8884;fill:none}.peer{fill:#888}"
            ".ours{fill:#d2691e}</style>\n",
            WIDTH, HEIGHT);
    axes(out, speed, ratio);
    for (unsigned i = 0; i < count; i++) {
        const double x = place(speed, log10(points[i].decode_speed), LEFT, WIDTH - RIGHT);
        const double y = place(ratio, points[i].ratio, HEIGHT - BOTTOM, TOP);
        const bool right = x > WIDTH - 140;

        fprintf(out,
                "<circle class=\"%s\" cx=\"%.1f\" cy=\"%.1f\" r=\"5\"/>"
                "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\">%s</text>\n",
                points[i].ours ? "ours" : "peer", x, y, right ? x - 9 : x + 9, y + 4,
                right ? "end" : "start", points[i].name);
    }
    fputs("</svg>\n", out);
    if (ferror(out)) {
        fclose(out);
        return -EIO;
    }
    return fclose(out) == 0 ? 0 : -errno;
}
