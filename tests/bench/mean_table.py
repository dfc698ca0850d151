# SPDX-License-Identifier: LGPL-2.1-or-later
"""The section of BENCHMARKS.md about MeanUSec, from what bench-mean.py measured."""

WITHIN = 0.1
GPU_NOTE = (
    "These programs have enabled profiling, so the layer reads their launches' time stamps (`opencl-stamps.h`). For a "
    "program without profiling, the layer takes the time between completions that it notices soon (`opencl-guess.h`), "
    "because a GPU's runtime calls back late. That time includes two others. A synchronous program's launch includes "
    "the way to the device and back, some 5 us. And synchronous programs of one weight run in each other's gaps, since "
    "it would help nobody if the device were idle then: so the time from a launch to its end includes what others run "
    "meanwhile. Measured that way on 2026-11-23, at 3263594, 25 of 40 were within 10 %: all but one of the deep ones, "
    "and few of the synchronous ones.\n\n"
)


def length(usec):
    return f"{usec} us" if usec < 1000 else f"{usec / 1000:g} ms"


def kind(part):
    return f"{length(part['usec'])} {part['how']}"


def off(part):
    """Returns how far MeanUSec is outside of the range from the median to the mean. A launch that was interrupted
    changes the mean of launches of one length, but not their median, so the true time is between the two."""
    low, high = sorted((part["mean"], part["median"]))
    return max(1 - part["seen"] / low, part["seen"] / high - 1, 0)


def cells(part, others):
    return [
        kind(part),
        " and ".join(map(kind, others)) or "alone",
        f"{part['median']:.1f}",
        f"{part['mean']:.1f}",
        f"{part['seen']:.1f}",
        f"{100 * off(part):.1f} %",
    ]


def render_mean(record, table):
    data = record["data"]
    parts = [(p, [other for j, other in enumerate(row) if j != i]) for row in data["rows"] for i, p in enumerate(row)]
    good = sum(off(p) <= WITHIN for p, _ in parts)
    text = (
        f"{data['device']}: the mean time of a launch that the service uses (`MeanUSec`), beside the median and the "
        "mean of the same launches by the device's own time stamps, in us. *Off* is how far it is outside of the range "
        f"between the two. {good} of {len(parts)} are within {100 * WITHIN:.0f} %, the farthest is "
        f"{100 * max(off(p) for p, _ in parts):.0f} % off.\n\n"
    )
    if data["gpu"]:
        text += GPU_NOTE
    head = ["launches", "beside", "median", "mean", "MeanUSec", "off"]
    return text + table(head, [cells(p, others) for p, others in parts]) + "\n"
