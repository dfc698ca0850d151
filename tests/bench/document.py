# SPDX-License-Identifier: LGPL-2.1-or-later
"""The sections of BENCHMARKS.md: the text and the tables about each benchmark's record."""

from attack_table import render_attack
from bound_table import render_bound
from cuda_table import render_cuda
from demo_table import render_demo
from examples_table import render_examples
from fleet_table import render_fleet, render_hosts
from llama_table import render_llama
from mean_table import render_mean
from mix_table import render_mix
from preempt_table import render_preempt
from stamps_table import render_stamps
from study_table import render_study


def table(head, rows):
    """Returns a Markdown table; the first column is text, the others are numbers."""
    widths = [max(len(str(row[i])) for row in [head, *rows]) for i in range(len(head))]
    lines = []
    for row in [head, None, *rows]:
        if row is None:
            cells = ["-" * widths[0]] + ["-" * (w - 1) + ":" for w in widths[1:]]
        else:
            cells = [str(row[0]).ljust(widths[0])] + [str(c).rjust(w) for c, w in zip(row[1:], widths[1:])]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def provenance(record):
    m = record["machine"]
    return (
        f"Measured {record['date']}"
        + (f" at {record['source']}" if record["source"] else "")
        + f" on {m['cpu']}, {m['cpus']} CPUs, {m['system']}, kernel {m['kernel']}"
        + (f", which had other work (load {m['load']:.1f})" if (m["load"] or 0) > 0.5 else "")
        + f":\n\n    {record['command']}\n"
    )


def render_decision(record):
    d = record["data"]
    yard = d["yardstick"]
    names = [
        ("yardstick", "yardstick: eventfd, epoll, futex and back"),
        ("begin", "the high job's launch, with its edge"),
        ("decision", "edge to verdicts written (the service's own figure)"),
        ("closed", "edge to the low job's gate closed"),
        ("opened", "end of the high job to the low job running"),
    ]
    rows = [
        [
            text,
            f"{d[key]['p50_us']:.1f}",
            f"{d[key]['p99_us']:.1f}",
            f"{d[key]['p50_us'] / yard['p50_us']:.2f}x",
            f"{d[key]['p99_us'] / yard['p99_us']:.2f}x",
        ]
        for key, text in names
    ]
    text = (
        "A low job launches without pause; a high job becomes ready and idle again. The yardstick is the same number "
        "of hand-overs by bare eventfd and futex between two processes, in the same run.\n\n"
    )
    text += table(["", "p50 us", "p99 us", "p50", "p99"], rows)
    text += f"\n{d['rounds']} rounds"
    if d["unheld"] + d["unresumed"]:
        text += (
            f"; the gate was not closed in time in {d['unheld']} of them, and not opened again in time in "
            f"{d['unresumed']}: these count with the length of the round"
        )
    return text + ".\n\n" + provenance(record)


def render_load(record):
    rows = [
        [
            (f"{d['policy']}, " if "policy" in d else "")
            + f"{d['clients']} clients"
            + (", all active" if d["spread"] else ", one driving, one ready"),
            f"{d['edges_per_s']:.0f}",
            f"{d['verdicts_per_s']:.0f}",
            f"{d['cpu_percent']:.1f} %",
            f"{d['us_per_edge']:.2f}",
            f"{d['yardstick_percent']:.1f} %" if "yardstick_percent" in d else "",
            f"{d['pss_kb'] / 1024:.1f}",
        ]
        for d in record["data"]
    ]
    head = ["", "edges/s", "verdicts/s", "of a core", "us an edge", "yardstick", "Pss MiB"]
    text = (
        "The load is 5,000 cycles a second of ready and idle, on a contended device; 4,500 where all are active. Then "
        "each client wakes the service twice: when it becomes ready, and when it is done. Where there are two verdicts "
        "a cycle, it is held first, and waits for the service. "
    )
    if all("yardstick_percent" in d for d in record["data"]):
        text += "The yardstick is a process in the same run that an eventfd wakes as often, and that does nothing. "
    else:
        head, *rows = ([c for i, c in enumerate(row) if i != 5] for row in [head, *rows])
    text += (
        "XSched's server, for comparison: "
        "32 % of a core at 28,700 events/s with one client (11 us each), 56 % at 10,800 tasks/s with 48 idle ones (52 "
        "us a task).\n\n"
    )
    return text + load_aim(record["data"]) + table(head, rows) + "\n" + provenance(record)


LOAD_AIM_PERCENT = 5


def load_aim(data):
    text = f"The aim is less than {LOAD_AIM_PERCENT} % of a core. "
    for spread, case in ((False, "With one client that drives"), (True, "Where all are active")):
        percents = [d["cpu_percent"] for d in data if d["spread"] == spread]
        if not percents:
            continue
        met = sum(p < LOAD_AIM_PERCENT for p in percents)
        says = {0: "it is not met", len(percents): "it is met"}.get(met, f"it is met in {met} of {len(percents)} rows")
        text += f"{case} {says}: {min(percents):.1f} to {max(percents):.1f} %. "
    return text.rstrip() + "\n\n"


def render_orderings(record):
    sizes = sorted({(d["devices"], d["queues"]) for d in record["data"]})
    policies = list(dict.fromkeys(d["policy"] for d in record["data"]))
    found = {(d["policy"], d["devices"], d["queues"]): d for d in record["data"]}
    rows = []
    for policy in policies:
        us = [found[policy, *size]["us"] for size in sizes]
        rows.append([policy, *(f"{t:.2f}" for t in us), f"{us[-1] / found['tree', *sizes[-1]]['us']:.2f}x"])
    text = (
        "What an event costs each policy, in us of CPU time: a queue gets work or runs out of it, and its device "
        "decides. Half of the queues have work, and there are eight below a node. The last column compares with tree. "
        "For hhpf the time includes the decisions of the other devices.\n\n"
    )
    head = [f"{q:,} on {d}" for d, q in sizes]
    return text + table(["queues on devices", *head, "to tree"], rows) + "\n" + provenance(record)


def render_idle(record):
    d = record["data"]
    names = {
        "idle": f"{d['clients']} idle clients",
        "requests": "one of them busy now and then, alone",
        "stream": "one of them always busy, alone",
    }
    rows = [[text, d[key]["launches"] or "", d[key]["wakeups"], d[key]["switches"]] for key, text in names.items()]
    text = table([f"in {d['seconds']} s", "launches", "wake-ups", "context switches"], rows)
    text += f"\nMemory (Pss): {d['pss_empty_kb']} KiB without clients, {d['pss_kb']} KiB with {d['clients']}.\n\n"
    return text + provenance(record)


def render_control(record):
    d = record["data"]

    def row(text, times, yard):
        return [
            text,
            *(f"{times[k]:.0f}" for k in ("p50_us", "p99_us")),
            *(f"{times[k] / yard[k]:.1f}x" for k in ("p50_us", "p99_us")),
        ]

    text = (
        "The yardstick of a start is the start of a process that does nothing. That of the others is a round trip to "
        "the bus daemon in the same run.\n\n"
    )
    text += table(
        ["", "p50 us", "p99 us", "p50 to yardstick", "p99 to yardstick"],
        [
            row("start to READY", d["start"]["ready"], d["start"]["yardstick"]),
            row(
                "registration of a process and a queue", d["registration"]["registered"], d["registration"]["yardstick"]
            ),
            row("priority set on the bus to verdict in the page", d["priority"]["verdict"], d["priority"]["yardstick"]),
        ],
    )
    text += (
        "\n"
        f"Messages on the bus for a program with one queue: {d['registration']['messages_registered']} until it is "
        f"registered, {d['registration']['messages']} until its end, including those of the bus itself.\n\n"
    )
    names = {"others": "with a process that is no client", "clients": "with a client and its queue"}
    if d["units"]:
        text += (
            table(
                [
                    "a unit that appears and vanishes",
                    "units",
                    "wall us",
                    "CPU us of the service",
                    "its wake-ups",
                    "bytes kept",
                ],
                [
                    [
                        names[k],
                        u["units"],
                        f"{u['wall_us']:.0f}",
                        f"{u['cpu_us']:.0f}",
                        f"{u['wakeups']:.1f}",
                        f"{u['left_over_bytes']:.0f}",
                    ]
                    for k, u in d["units"].items()
                ],
            )
            + "\n"
        )
    text += table(
        ["memory of the service, bytes", "its own", "pages shared with the client"],
        [[f"for each {k}", f"{v['private']:.0f}", f"{v['shared']:.0f}"] for k, v in d["memory"].items()],
    )
    return text + "\n" + provenance(record)


def render_text(record):
    return "".join(f"    {line}".rstrip() + "\n" for line in record["data"].splitlines()) + "\n" + provenance(record)


LAUNCH_NOTE = (
    "A tiny kernel, natively and with the layer, in turns in the same run. XSched's shim, for comparison, on PoCL: "
    "1.75x for launch and finish, 2.5x pipelined. A ratio differs by a tenth from process to process on a GPU. So for "
    "CUDA native launches are also made in the same process, by the addresses of libcuda's functions that the layer "
    "does not see: in brackets the smallest and the largest ratio of a process. Pipelined launches are made in turns "
    "of 500 and of 1500, each after a pause. So both turns have a part in common, in which the queue gets busy and two "
    "threads are woken, and in which the program waits for the end; *of that* tells it from what each launch costs.\n"
)

PATH_NOTE = (
    "What the CUDA layer adds to a launch of a kernel of 2 us, counted on a stand-in for libcuda and without a GPU: "
    "instructions, by valgrind, and how long calls of the driver and looks at the clock take, if each takes as long as "
    "was measured on an H200 (0.7 us to record an event, 1.4 us to ask for one, 2.3 us to ask for a stream, 3.1 us to "
    "read a time, 0.08 us for the clock). So these are no measured times: what caches and locks cost is not in them. "
    "The control thread's calls are made beside the program's, and can delay it by as much as they take. Watched: a "
    "second program is there, and this one may have 0.2 ms in flight; default: on the default stream, of which the "
    "driver is asked for the context; first: it has the highest priority; two: kernels of 1 and 3 us in turns; "
    "streams: the same as first, on two streams of which one begins later; behind: kernels of 10 us, so that the "
    "program waits for the device.\n"
)

EXEC_NOTE = (
    "System calls of /bin/true from its exec to its end, without a layer and with each layer preloaded. "
    "A layer adds only the calls that map a library: it does nothing before the first queue. "
    "A test fails if a layer adds more than 8.\n"
)

EDGE_NOTE = (
    "What the service runs when it hears an edge, counted by valgrind without a bus: other work of the machine does "
    "not change it. In a pair a driver of higher priority becomes ready and idle while another client is ready; "
    "spread, all clients do in turn. The loads above are these, but there one edge tells the service of a whole "
    "cycle. The kernel's part is not counted: of edges as quick, each is one system call, epoll_pwait2().\n"
)

CYCLE_NOTE = (
    "A cycle of the loads above that is over when the service hears of it, in a simulation of the kernel: each is one "
    "wake-up of the real loop. A timer is a timeout, or an alarm that is set, for which the kernel programs the CPU's "
    "clock, and again when the sleep is over. A look for other events is two system calls more, by sd-event.\n"
)

ACCOUNTING_NOTE = (
    "A program that only launches, and whose launches end at once, with `Accounting=` sampled, and exact: no program "
    "can lose more by being counted. It counts its launches while it is watched and while it is not. The loss is the "
    "difference to what it would have launched unwatched in the same seconds.\n"
)

# (title, text before the results, names of the results or a pattern of them, renderer)
SECTIONS = [
    ("Tenants on one device", "", ["demo-.*"], lambda record: render_demo(record, table) + provenance(record)),
    ("PyTorch on one device", "", ["cuda-.*"], lambda record: render_cuda(record, table) + provenance(record)),
    ("Shares, for every mix of kernels", "", ["mix-.*"], lambda record: render_mix(record, table) + provenance(record)),
    (
        "What is in flight when others want the device",
        "",
        ["bound-.*"],
        lambda record: render_bound(record, table) + provenance(record),
    ),
    (
        "Bounds in launches, and time slices",
        "",
        ["study-.*"],
        lambda record: render_study(record, table) + provenance(record),
    ),
    ("How long launches take", "", ["mean-.*"], lambda r: render_mean(r, table) + provenance(r)),
    ("What time stamps cost", "", ["stamps-.*"], lambda r: render_stamps(r, table) + provenance(r)),
    ("llama.cpp", "", ["llama-.*"], lambda r: render_llama(r, table) + provenance(r)),
    ("XSched's own examples", "", ["examples-.*"], lambda r: render_examples(r, table) + provenance(r)),
    ("A fleet of hosts", "", ["fleet"], lambda record: render_fleet(record, table) + provenance(record)),
    ("The services of a hundred hosts", "", ["hosts"], lambda r: render_hosts(r, table) + "\n" + provenance(r)),
    (
        "A launch",
        LAUNCH_NOTE,
        ["launch", "launch-nvidia-.*", "launch-cuda-.*", "launch-path", "doorbell", "gate"],
        render_text,
    ),
    ("A launch of CUDA, in instructions and calls", PATH_NOTE, ["launch-path-cuda"], render_text),
    ("A program that makes no queue", EXEC_NOTE, ["exec"], render_text),
    ("Counting a program that is alone", ACCOUNTING_NOTE, ["accounting"], render_text),
    ("From an edge to a closed gate", "", ["decision"], render_decision),
    (
        "From a doorbell to queues off the device, on a simulated AMD GPU",
        "",
        ["preempt"],
        lambda record: render_preempt(record, table) + provenance(record),
    ),
    ("The service under load", "", ["load"], render_load),
    ("An edge, in instructions", EDGE_NOTE, ["edge"], render_text),
    ("A cycle, in wake-ups", CYCLE_NOTE, ["cycle"], render_text),
    ("The idle service", "", ["idle"], render_idle),
    ("The control plane", "", ["control"], render_control),
    ("Beside attackers", "", ["attack"], lambda record: render_attack(record, table) + "\n" + provenance(record)),
    ("The policy", "", ["policy"], render_text),
    ("All policies", "", ["orderings"], render_orderings),
]

INTRODUCTION = """# Benchmarks

`tests/bench/benchmarks.py` writes this file from `tests/bench/results/`; do not edit it. The ratios matter: both sides
of each come from the same run on the same machine. Absolute times hold for that machine only. If it had other work
(its load is given), the far percentiles say more about that work than about xsched.
"""
