# SPDX-License-Identifier: LGPL-2.1-or-later
"""The section of BENCHMARKS.md about what the device's own time stamps cost, from what bench-stamps measured."""


def render_stamps(record, table):
    data = record["data"]
    ways = list(data["rows"][0]["us"])
    rows = [
        [f"{r['usec']} us {r['how']}" if r["usec"] < 1000 else f"{r['usec'] / 1000:g} ms {r['how']}"]
        + [f"{r['us'][way]:.2f}" for way in ways]
        for r in data["rows"]
    ]
    text = (
        f"{data['device']}: time per launch, in us, without any layer, of a program that waits for each launch (sync) "
        "or for many together (deep). It uses a plain queue, and one with profiling enabled; without events, with an "
        "event for each launch, and with the event's stamps read. Profiling alone costs nothing, and an event with "
        "stamps costs up to 6 us more than one without. So the layer reads stamps only if the program has enabled "
        "profiling, for one launch in 2 ms, and never enables it.\n\n"
    )
    return text + table(["", *ways], rows) + "\n"
