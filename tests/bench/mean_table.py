# SPDX-License-Identifier: LGPL-2.1-or-later
"""The section of BENCHMARKS.md about MeanUSec, from what bench-mean.py measured."""

WITHIN = 0.1
GPU_NOTE = (
    "A GPU's runtime calls back late, so time is what passes between completions that are noticed soon "
    "(`opencl-guess.h`), unless a program has enabled profiling: then its launches' own stamps are read "
    "(`opencl-stamps.h`), which this table was made before. By estimate two things are in it that are not the "
    "launch's. A synchronous program's launch has the way to the device and back in it, some 5 us, and here the cost "
    "of the stamps that the program itself takes, 8 us: 20 us look like 33. And synchronous programs of one weight are "
    "let into each other's gaps, since nobody would gain if the device stood still for them: what others have on the "
    "device meanwhile is in the time from a launch to its end. Only stamps tell that apart. By stamps, on an H100 "
    "(2026-11-25, 0.5 s each; 20 ms kernels were not followed then, which is mended and was not measured again): 20 "
    "us sync beside "
    "an equal 18.3 us of 18.4, 0.1 ms 97.8 of 98.5, 1 ms 997.3 of 997.3; alone 20.1 of 20.1, 99.9 of 99.8, 999.8 of "
    "1000.0.\n\n"
)


def length(usec):
    return f"{usec} us" if usec < 1000 else f"{usec / 1000:g} ms"


def kind(part):
    return f"{length(part['usec'])} {part['how']}"


def off(part):
    """Launches of one length take no less than their median, which one that was interrupted does not move, and no more
    than their mean, which it does."""
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
        f"{data['device']}: the mean time of a launch that the service goes by (`MeanUSec`), beside "
        "the median and the mean "
        "of what the device's own time stamps say of the same launches, us; *off*: how far it is from "
        "between the two. "
        f"{good} of {len(parts)} are within {100 * WITHIN:.0f} %, the farthest is "
        f"{100 * max(off(p) for p, _ in parts):.0f} % "
        "off.\n\n"
    )
    if data["gpu"]:
        text += GPU_NOTE
    head = ["launches", "beside", "median", "mean", "MeanUSec", "off"]
    return text + table(head, [cells(p, others) for p, others in parts]) + "\n"
