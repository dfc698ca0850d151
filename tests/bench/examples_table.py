# SPDX-License-Identifier: LGPL-2.1-or-later
"""The section of BENCHMARKS.md about XSched's own examples, from what bench-examples.py measured."""


def render_examples(record, table):
    data = record["data"]
    rows = []
    for r in data["rows"]:
        for who in ("high", "low"):
            if who in r:
                times = r[who]
                name = f"{r['example']}, {r['way']}: {who}"
                rows.append([name, times["tasks"], f"{times['mean_ms']:.1f}", times["p50_ms"], times["max_ms"]])
    text = (
        f"{data['device']}: the examples of XSched's repository, compiled by nvcc from its own sources and our "
        "headers, with our layer preloaded and our service, policy hpf, or without both. Each task launches a kernel "
        "100 times and waits for it; both programs do that all the time, with 30 to 50 ms between two tasks. The times "
        "of a task are in ms, as the examples print them. The first two examples ask for the priorities 0, 1 and 2 by "
        "XSched's variables and hints. These can only lower a priority here, so each process was given 10 before.\n\n"
    )
    return text + table(["", "tasks", "mean", "p50", "max"], rows) + "\n"
