# SPDX-License-Identifier: LGPL-2.1-or-later
"""The section of BENCHMARKS.md about the bound on launches in flight, from what bound.py measured."""


def kernel(usec):
    return f"{usec} us" if usec < 1000 else f"{usec / 1000:g} ms"


def wait(row, budget):
    """Of a launch of the job above, beyond what it takes alone: (median, worst), us."""
    alone = row["alone"]["p50_us"]
    f = row["budgets"][budget]
    return max(f["p50_us"] - alone, 0), max(f["max_us"] - alone, 0)


def throughput(row, budget):
    return row["budgets"][budget]["tasks_per_s"] / row["shared"]["tasks_per_s"]


def render_bound(record, table):
    data = record["data"]
    budgets = list(data["rows"][0]["budgets"])
    text = (
        f"{data['device']}: one kernel now and then of a job with precedence, beside a batch job that always has work, "
        "both with kernels of the length in the first column. For each `Budget=`: what a launch of the one above "
        "waited for beyond what it takes alone (median / worst, us), and what the one below got done, as a part of "
        "what it does unscheduled. `Budget=0` is a bound in numbers, of `Threshold=` launches.\n\n"
    )
    rows = []
    for row in data["rows"]:
        cells = [
            kernel(row["usec"]),
            (
                f"{row['shared']['p50_us'] - row['alone']['p50_us']:.0f} / "
                f"{row['shared']['max_us'] - row['alone']['p50_us']:.0f}"
            ),
        ]
        for b in budgets:
            median, worst = wait(row, b)
            cells.append(f"{median:.0f} / {worst:.0f}, {100 * throughput(row, b):.0f} %")
        rows.append(cells)
    return text + table(["kernel", "unscheduled", *[f"{b} us" for b in budgets]], rows) + "\n"
