# SPDX-License-Identifier: LGPL-2.1-or-later
"""The section of BENCHMARKS.md about tenants on one device, from what xsched-demo measured."""

import re


def ms(us):
    return f"{us / 1000:.2f}"


PHASES = {"alone": "alone", "shared": "unscheduled", "xsched": "xsched"}


# What another scheduler reaches with the same jobs on the same device.
COMPARISONS = [
    (
        "H200",
        "XSched v1.2.0 there, with the same jobs: p99 of 3.4 ms beside 1 and 13.1 ms beside 7 batch jobs at its "
        "defaults, 2.3 and 4.8 ms at its best setting; alone 1.21 ms, unscheduled 3.4 and 16.7 ms.",
    )
]


def demo_rows(results):
    rows = []
    for r in results:
        alone = next((p for p in r["phases"] if p["phase"] == "alone"), None)
        shared = next((p for p in r["phases"] if p["phase"] == "shared"), None)
        for p in r["phases"]:
            latency, batch = p["latency"], p["batch"]["tasks_per_s"]
            rows.append(
                [
                    f"{r['settings']['low']} batch, {PHASES[p['phase']]}",
                    ms(latency["p50_us"]),
                    ms(latency["p99_us"]),
                    ms(latency["max_us"]),
                    f"{latency['p99_us'] / alone['latency']['p99_us']:.2f}x" if alone and p is not alone else "",
                    f"{latency['missed']}/{latency['tasks'] + latency['skipped']}",
                    f"{batch:.2f}" if p["phase"] != "alone" else "",
                    f"{100 * batch / shared['batch']['tasks_per_s']:.1f} %"
                    if p["phase"] == "xsched" and shared and shared["batch"]["tasks_per_s"]
                    else "",
                ]
            )
    return rows


def render_demo(record, table):
    first = record["data"][0]
    s = first["settings"]
    where = first["device"] + (f" (the device is CPU {first['cpu']})" if first["cpu"] >= 0 else "")
    where += f", driver {first['driver']}" if "driver" in first else ""
    settings = "".join(f", {x}" for x in s["xschedd"]) + (f", policy {s['policy']}" if s["policy"] else "")
    text = f"### {where}\n\n"
    text += (
        f"Kernels of {first['kernel_us'] / 1000:.3f} ms; latency job of {s['kernels']} kernels every "
        f"{s['period_us'] / 1000:.4g} ms, deadline {s['deadline_us'] / 1000:.3g} ms; batch tasks of "
        f"{s['batch_kernels']} "
        f"kernels; {s['duration_us'] / 1e6:.4g} s a phase; xsched: priorities {s['high_priority']} and "
        f"{s['low_priority']}{settings or ', defaults'}. Every result was checked.\n\n"
    )
    text += table(
        ["", "p50 ms", "p99 ms", "max ms", "p99 to alone", "missed", "batch tasks/s", "of unscheduled"],
        demo_rows(record["data"]),
    )
    if first["device"].startswith("simulated"):
        text += "\nNothing here says how fast a real GPU is: see xsched-demo(1), SIMULATED GPU.\n"
    for pattern, note in COMPARISONS:
        if re.search(pattern, first["device"]):
            text += f"\n{note}\n"
    return text + "\n"
