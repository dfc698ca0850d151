# SPDX-License-Identifier: LGPL-2.1-or-later
"""The section of BENCHMARKS.md about the bound on launches in flight, from what bound.py measured."""


def kernel(usec):
    return f"{usec} us" if usec < 1000 else f"{usec / 1000:g} ms"


def wait(row, budget):
    """Returns by how much launches of the job with precedence exceed their time alone: (median, worst) in us."""
    alone = row["alone"]["p50_us"]
    f = row["budgets"][budget]
    return max(f["p50_us"] - alone, 0), max(f["max_us"] - alone, 0)


def throughput(row, budget):
    return row["budgets"][budget]["tasks_per_s"] / row["shared"]["tasks_per_s"]


def render_bound(record, table):
    data = record["data"]
    budgets = list(data["rows"][0]["budgets"])
    text = (
        f"{data['device']}: a job with precedence launches one kernel now and then, beside a batch job that always has "
        "work; both have kernels of the length in the first column. The columns of each `Budget=` have how much longer "
        "a launch of the first job took than alone (median / worst, in us), and the work of the batch job in percent "
        "of its work unscheduled. With `Budget=0` the bound is a number of launches, `Threshold=`.\n\n"
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
