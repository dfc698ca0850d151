# SPDX-License-Identifier: LGPL-2.1-or-later
"""The section of BENCHMARKS.md about bounds and time slices, from what study.py measured, and its plot."""

import html
import math
import os

WIDTH, HEIGHT, LEFT, TOP = 420, 200, 50, 40


def overhead(data, row):
    """Returns what the batch job did not get done, in percent of its work unscheduled."""
    return 100 * (1 - row["tasks_per_s"] / data["shared"]["tasks_per_s"])


def latency(data, row, key):
    return row[key] / data["alone"][key]


def name_of(kind, value):
    return str(value) if kind == "bounds" else f"{value / 1000:g} ms"


def rows_of(data, kind):
    return [
        [
            name_of(kind, row["value"]),
            f"{row['p50_us']:.0f}",
            f"{row['p99_us']:.0f}",
            f"{latency(data, row, 'p99_us'):.2f}x",
            f"{overhead(data, row):.0f} %",
        ]
        for row in data[kind]
    ]


def render_study(record, table):
    data = record["data"]
    text = (
        f"{data['device']}, kernels of {data['usec']} us: a job launches one kernel every 10 ms, beside a batch job "
        "that always has work. The first table is about a job with precedence, for each bound on the batch job's "
        "launches in flight (`Threshold=`, with `Budget=0`); the second about equals, for each time slice. The p99 is "
        f"that of the first job. Alone it is {data['alone']['p99_us']:.0f} us, and beside the batch job unscheduled "
        f"{data['shared']['p99_us']:.0f} us. The overhead is how much less the batch job gets done than unscheduled; "
        "for equals it includes the turns of the other job.\n\n"
    )
    head = ["p50 us", "p99 us", "p99 to alone", "overhead"]
    text += table(["in flight", *head], rows_of(data, "bounds")) + "\n"
    text += table(["time slice", *head], rows_of(data, "slices")) + "\n"
    return text + f"![bounds and slices](tests/bench/results/{record['name']}.svg)\n\n"


def line(points, colour):
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    dots = "".join(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{colour}"/>' for x, y in points)
    return f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>{dots}'


def text_at(x, y, words, anchor="middle", colour="#333"):
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="{colour}">{html.escape(words)}</text>'


def panel(data, kind, title, top):
    """Draws the latency by a scale of powers of two on the left, and the overhead in percent on the right."""
    rows = data[kind]
    right, bottom = LEFT + WIDTH, top + HEIGHT
    most = max(latency(data, row, "p99_us") for row in rows)
    doublings = max(1, math.ceil(math.log2(max(most, 1))))
    at = [LEFT + WIDTH * (i + 0.5) / len(rows) for i in range(len(rows))]
    out = [
        text_at(LEFT + WIDTH / 2, top - 12, title),
        f'<rect x="{LEFT}" y="{top}" width="{WIDTH}" height="{HEIGHT}" fill="none" stroke="#999"/>',
    ]
    for i in range(doublings + 1):
        out.append(text_at(LEFT - 6, bottom - HEIGHT * i / doublings + 4, f"{2**i}x", "end", "#b30"))
    for percent in range(0, 101, 25):
        out.append(text_at(right + 6, bottom - HEIGHT * percent / 100 + 4, f"{percent} %", "start", "#06c"))
    for x, row in zip(at, rows):
        out.append(text_at(x, bottom + 16, name_of(kind, row["value"])))
    waits = [math.log2(max(latency(data, row, "p99_us"), 1)) / doublings for row in rows]
    losses = [min(max(overhead(data, row) / 100, 0), 1) for row in rows]
    out.append(line([(x, bottom - HEIGHT * y) for x, y in zip(at, waits)], "#b30"))
    out.append(line([(x, bottom - HEIGHT * y) for x, y in zip(at, losses)], "#06c"))
    return out


def plot(record):
    data = record["data"]
    width, height = LEFT + WIDTH + 60, 2 * (HEIGHT + TOP) + 50
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}">',
        '<rect width="100%" height="100%" fill="white"/>',
        '<g font-family="sans-serif" font-size="12">',
        *panel(data, "bounds", "p99 to alone (red), overhead (blue): launches in flight", TOP),
        *panel(data, "slices", "p99 to alone (red), overhead (blue): time slice of equals", 2 * TOP + HEIGHT + 10),
        "</g>",
        "</svg>",
    ]
    return "\n".join(out) + "\n"


def write_plots(directory, records):
    for record in records:
        if record["name"].startswith("study-"):
            with open(os.path.join(directory, record["name"] + ".svg"), "w", encoding="utf-8") as f:
                f.write(plot(record))
