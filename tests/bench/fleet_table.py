# SPDX-License-Identifier: LGPL-2.1-or-later
"""The section of BENCHMARKS.md about a fleet of hosts, from what fleet-sim and bench-hosts.py found, and its plot."""

import html
import math
import os

NAMES = {
    "first-come": "first come, first served",
    "exclusive": "GPUs of their own",
    "time-slicing": "time slicing",
    "xsched": "xsched",
}
CLASSES = {"interactive": "requests", "heavy": "training, weight 300", "light": "training, weight 100"}

WIDTH, LEFT, RIGHT, ROW, BAR = 900, 170, 70, 22, 14
STYLE = (
    "text{font-family:sans-serif;fill:#333}.text{font-size:13px}.small{font-size:11px}.ground{fill:#fff}"
    ".xsched{fill:#2a7}.other{fill:#89a}.frame{fill:none;stroke:#ccc}"
)

NOTE = (
    "`fleet-sim` runs the code of `policy/` on each of {gpus} simulated GPUs ({hosts} hosts of {gpus_per_host}). The "
    "jobs come from a synthetic trace in the format of PAI's: {jobs} jobs, submitted within {minutes:.0f} minutes. A "
    "service answers requests of 8 ms, in launches of 1 ms; training works in launches of 2, 5 or 10 ms, and gangs in "
    "steps of 250 ms. Up to {slots} jobs share a GPU, except where each has GPUs of its own. A running launch is never "
    "stopped (level 1). `tools/fleet/fleet.h` describes the simulation; `--philly=` and `--pai-jobs=` read published "
    "traces.\n\n"
    "Under xsched, {requests} requests met training on their GPU, and none waited for it for longer than "
    "{behind:.1f} ms in total. `--check` asserts that each waits at most {bound:.0f} ms, the longest launch and a "
    "slice, and as much again for each turn of the starvation floor while it waits behind others' requests.\n\n"
)
GANG_NOTE = (
    "The part of the time on its GPUs that a gang waits for its own workers. Each host decides for itself. So the "
    "worker whose GPU has the most other work delays the rest, and others use the GPUs meanwhile. `Gang=yes`, which "
    "keeps a gang on one host together, is not simulated.\n\n"
)


def seconds(ms):
    return f"{ms / 1000:.0f} s" if ms >= 10000 else f"{ms / 1000:.1f} s" if ms >= 1000 else f"{ms:.1f} ms"


def render_fleet(record, table):
    d = record["data"]
    found = d["disciplines"]
    us = found["xsched"]
    text = NOTE.format(
        gpus=d["hosts"] * d["gpus_per_host"],
        minutes=d["span_s"] / 60,
        requests=us["request_behind_training"]["n"],
        behind=us["request_behind_training"]["max_ms"],
        bound=d["bound_ms"],
        **{k: d[k] for k in ("hosts", "gpus_per_host", "jobs", "slots")},
    )
    text += table(
        [
            "",
            "GPUs busy",
            "a request waits, p50",
            "p99",
            "behind training, at most",
            *(f"slowdown of {name}" for name in CLASSES.values()),
            "a job waits for GPUs, p99",
            "shares off, mean",
            "at most",
        ],
        [
            [
                NAMES[name],
                f"{100 * r['utilisation']:.0f} %",
                seconds(r["requests"]["p50_ms"]),
                seconds(r["requests"]["p99_ms"]),
                seconds(r["request_behind_training"]["max_ms"]),
                *(f"{r['classes'][c]['slowdown']:.2f}" for c in CLASSES),
                seconds(max(r["classes"][c]["placed"]["p99_ms"] for c in CLASSES)),
                *(
                    f"{100 * r[key]:.1f} points" if r["share_periods"] else ""
                    for key in ("share_error", "share_error_max")
                ),
            ]
            for name, r in found.items()
        ],
    )
    text += f"\n![a fleet](tests/bench/results/{record['name']}.svg)\n\n" + GANG_NOTE
    sizes = list(us["gangs"])
    text += table(
        ["training on", *(f"{s}: {what}" for s in sizes for what in ("slowdown", "waits for its workers"))],
        [
            [
                NAMES[name],
                *(
                    cell
                    for s in sizes
                    for cell in (f"{r['gangs'][s]['slowdown']:.2f}", f"{100 * r['gangs'][s]['waited']:.0f} %")
                ),
            ]
            for name, r in found.items()
        ],
    )
    speed = us["simulated_s"] / us["took_s"]
    text += f"\nOn one CPU, xsched's part was simulated {speed:.1f} times as fast as real time.\n\n"
    return text


def bars(top, title, values, shown, scale):
    """Draws a panel with a bar for each discipline."""
    most = max(map(scale, values.values())) or 1
    out = [f'<text x="{LEFT}" y="{top - 6}" class="text">{html.escape(title)}</text>']
    for n, (name, value) in enumerate(values.items()):
        y, width = top + n * ROW, scale(value) / most * (WIDTH - LEFT - RIGHT)
        kind = "xsched" if name == "xsched" else "other"
        out += [
            f'<text x="{LEFT - 8}" y="{y + BAR - 2}" text-anchor="end" class="small">{NAMES[name]}</text>',
            f'<rect x="{LEFT}" y="{y}" width="{width:.1f}" height="{BAR}" class="{kind}"/>',
            f'<text x="{LEFT + width + 6:.1f}" y="{y + BAR - 2}" class="small">{shown(value)}</text>',
        ]
    return out


def plot(record):
    found = record["data"]["disciplines"]
    panels = [
        (
            "A request waits, p99, logarithmic",
            {n: r["requests"]["p99_ms"] for n, r in found.items()},
            seconds,
            lambda v: math.log10(1 + v),
        ),
        (
            "Slowdown of training of weight 300",
            {n: r["classes"]["heavy"]["slowdown"] for n, r in found.items()},
            lambda v: f"{v:.2f}",
            float,
        ),
        (
            "Slowdown of training of weight 100",
            {n: r["classes"]["light"]["slowdown"] for n, r in found.items()},
            lambda v: f"{v:.2f}",
            float,
        ),
        (
            "GPUs busy while jobs are submitted",
            {n: r["utilisation"] for n, r in found.items()},
            lambda v: f"{100 * v:.0f} %",
            float,
        ),
    ]
    step = len(found) * ROW + 36
    height = 20 + len(panels) * step
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" viewBox="0 0 {WIDTH} {height}">',
        f"<style>{STYLE}</style>",
        f'<rect width="{WIDTH}" height="{height}" class="ground"/>',
    ]
    for n, panel in enumerate(panels):
        out += bars(30 + n * step, *panel)
    return "\n".join([*out, "</svg>"]) + "\n"


HOSTS_NOTE = (
    "{hosts} real xschedd run on one machine, each on a bus of its own, with {gpus} fake GPUs, each shared by two "
    "programs: {programs} programs in all. {times} times, an event happened on a host while all its programs worked: "
    "{what}.\n\n"
    "Then {load_gpus} GPUs of each host worked, in launches of {load_ms} ms, until the end. In {rounds} rounds, events "
    "happened on up to {most_together} hosts at the same time, all of which were down before the first one recovered: "
    "{struck}. Finally, all services were killed at once; {back:.1f} s after they were started again, all programs "
    "were registered. After each event all programs were registered exactly once and with the settings that had been "
    "made at run time; the programs of all hosts got on, also those without a service; and every result was right. "
    "Otherwise the benchmark would have failed, without figures.\n\n"
)
WHAT = {
    "kill": "the service was killed",
    "stop": "it was stopped and started",
    "hang": "it hung, and the watchdog killed it",
    "lose_bus": "the bus died",
    "replace": "half of the programs died, and others were started",
}


MEMORY = {"empty_kb": "", "full_kb": ", with programs", "load_kb": ", at work"}


def render_hosts(record, table):
    d = record["data"]
    counted = {what: n for what, n in d["happened"].items() if what in WHAT}
    said = lambda happened: ", ".join(f"{WHAT[what]} ({n})" for what, n in happened.items())
    text = HOSTS_NOTE.format(
        times=sum(counted.values()),
        what=said(counted),
        struck=said(d["struck"]),
        back=d["all_back_s"],
        **{k: d[k] for k in ("hosts", "gpus", "programs", "load_gpus", "load_ms", "rounds", "most_together")},
    )
    rows = [
        [who, *(f"{d[key][part] * n / 1024:.1f}" for n in (1, d["hosts"]) for key in MEMORY)]
        for who, part in (("xschedd", "service"), ("dbus-daemon", "bus"), ("programs", "programs"))
    ]
    head = ["memory (Pss), MiB", *(f"{which}{when}" for which in ("of a host", "of all") for when in MEMORY.values())]
    text += table(head, rows)
    text += (
        f"\nCPU of all services and buses together: {d['idle_cpu_us_per_s'] / 10000:.2f} % of one while no program "
        f"works, and {d['load_cpu_us_per_s'] / 10000:.0f} % while {d['load_gpus']} GPUs of each host do, "
        f"{d['load_launches_per_s']:.0f} launches a second in all. On one host whose programs all work, and wait for "
        f"each other at each launch of 1 ms: {d['cpu_us_per_launch']:.0f} us a launch ({d['launches']} launches).\n"
    )
    return text


def write_plots(directory, found):
    for record in found:
        if record["name"] == "fleet":
            with open(os.path.join(directory, record["name"] + ".svg"), "w", encoding="utf-8") as f:
                f.write(plot(record))
