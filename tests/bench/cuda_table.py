# SPDX-License-Identifier: LGPL-2.1-or-later
"""The section of BENCHMARKS.md about CUDA, from what bench-cuda.py measured, and its plot."""

import html
import os

WAYS = ("scheduled", "gate", "stop", "unexpected", "slice")
MODE_TEXT = {"eager": "eagerly", "graph": "as a CUDA graph"}
MODES = ("eager", "graph", "eager-random", "graph-random", "graph-told")
HOW = {
    "scheduled": "The job waits for kernels in flight (level 1).",
    "gate": "Gate: the job waits for kernels in flight (level 1).",
    "stop": "Stop: channels are stopped where that is quicker (level 3).",
    "unexpected": "Unexpected: the same with Linger=0, so that nothing is done before the job launches.",
    "slice": "Slice: as stop, and the trainings' channels have time slices of 100 us.",
}
RANDOM = (
    " Random: the pictures come at unforeseeable moments, 5 to 45 ms apart. Told: the same, but the program announces "
    'each 3 ms ahead by xsched_hint("WillLaunch").'
)
PARTS = (
    " *Launching* is the time until the program had launched all of a picture, which is the CPU's work, and *waiting* "
    "the time from then until the picture was there."
)
SCALE, LEFT, BAR, MOST = 26, 240, 14, 20  # points per ms, ...


def batch_text(d, kind):
    if kind == "gemm":
        return "layers of 8192 x 28672 in bfloat16, whose kernels take 5 to 7 ms"
    return f"ResNet-50 with batches of {d.get('resnet50 batch', 128)}"


def rows_of(d, kind):
    """Yields (mode, number of trainings beside it, way, result)."""
    ways = [name for name in ("native", *WAYS) if name in d[kind]]
    for how in MODES:
        counts = {int(key.split()[-1]) for name in ways for key in d[kind][name] if key.startswith(f"{how} beside ")}
        for n in sorted(counts):
            for name in ways:
                if f"{how} beside {n}" in d[kind][name]:
                    yield how, n, name, d[kind][name][f"{how} beside {n}"]


def render_kind(d, kind, table):
    rows, titles = [], ["", "p50 ms", "p90 ms", "p99 ms", "p99 to alone", "batch, of one alone", "of native"]
    alone_rate = d[kind]["native"].get("batch alone", {}).get("batch")
    parts = all("waiting p99" in r for *_, r in rows_of(d, kind))
    if parts:
        titles[4:4] = ["launching, p99 ms", "waiting, p99 ms"]
    for how, n, name, r in rows_of(d, kind):
        plain = how.split("-")[0]
        alone = d[kind][name][f"{plain} beside 0"]["p99"]
        native = d[kind]["native"].get(f"{plain} beside {n}")
        rows.append(
            [
                f"{how} beside {n}, {name}",
                *(f"{r[key]:.2f}" for key in ("p50", "p90", "p99")),
                *(f"{r[key]:.2f}" for key in ("launching p99", "waiting p99") if parts),
                f"{r['p99'] / alone:.2f}x",
                f"{100 * r['batch'] / alone_rate:.0f} %" if n and alone_rate else "",
                f"{100 * r['batch'] / native['batch']:.0f} %" if n and native else "",
            ]
        )
    return f"Beside trainings of {batch_text(d, kind)}:\n\n{table(titles, rows)}\n"


def weights_text(d):
    found = [
        f"{100 * d[kind][name]['weights']['share']:.1f} % ({kind}, {name})"
        for kind in d["batch"]
        for name in d[kind]
        if "weights" in d[kind][name]
    ]
    if not found:
        return ""
    return (
        "Two trainings at 300:100: the share of the first, by what each does alone, which should be 75 %: "
        + ", ".join(found)
    )


def stolen_text(d):
    """Says how much CPU time the hypervisor took, where bench-cuda.py noted it: late wake-ups lengthen the p99."""
    rows = [
        (r["stolen"], f"{how} beside {n}, {name}")
        for kind in d["batch"]
        for how, n, name, r in rows_of(d, kind)
        if "stolen" in r
    ]
    if not rows:
        return ""
    return (
        f"The hypervisor took at most {max(rows)[0]:g} % of one CPU's time from the machine while a row was measured "
        f"({max(rows)[1]}).\n\n"
    )


def render_cuda(record, table):
    d = record["data"]
    ways = [name for name in WAYS if any(name in d[kind] for kind in d["batch"])]
    alone = ", ".join(
        f"{100 * d[kind][name]['batch alone']['batch'] / d[kind]['native']['batch alone']['batch']:.0f} %"
        for kind in d["batch"]
        for name in ways
        if name in d[kind] and "batch alone" in d[kind][name]
    )
    found = [(how, r) for kind in d["batch"] for how, _, _, r in rows_of(d, kind)]
    random = any(how.endswith("-random") for how, _ in found)
    modes = " and ".join(MODE_TEXT[how] for how in MODE_TEXT if any(how == h for h, _ in found))
    text = (
        f"### {d['device']}, PyTorch {d['torch']}{record.get('what', '')}\n\nResNet-18, one picture 40 times a second, "
        f"{modes}, at priority 200, beside trainings; {d['seconds']:g} s each, {d['rounds']} times in turn. Natively "
        f"there is no layer and no service. {' '.join(HOW[name] for name in ways)}{RANDOM if random else ''}"
        f"{PARTS if any('waiting p99' in r for _, r in found) else ''} *To alone* compares with the job alone in the "
        "same way, *of native* with as many trainings natively."
        + (f" A training alone on the device, with the layer, reaches {alone} of native." if alone else "")
        + "\n\n"
    )
    text += "".join(render_kind(d, kind, table) for kind in d["batch"])
    weights = weights_text(d)
    text += f"{weights}.\n\n" if weights else ""
    text += stolen_text(d)
    text += "".join(f"{line}\n" for line in record.get("note", [])) + ("\n" if "note" in record else "")
    return text + f"![latencies](tests/bench/results/{record['name']}.svg)\n\n"


# --- the plot ---


def plot(record):
    """Draws a bar for each row, as long as its p99, with a mark at its median."""
    d, out, y = record["data"], [], 30
    for kind in d["batch"]:
        out.append(f'<text x="10" y="{y}" font-weight="bold">beside {html.escape(batch_text(d, kind))}</text>')
        y += 8
        for how, n, name, r in rows_of(d, kind):
            wide = SCALE * min(r["p99"], MOST)
            colour = "#c0392b" if name == "native" else "#2471a3"
            out.append(f'<text x="{LEFT - 8}" y="{y + BAR - 3}" text-anchor="end">{how} beside {n}, {name}</text>')
            out.append(f'<rect x="{LEFT}" y="{y}" width="{wide:.1f}" height="{BAR - 2}" fill="{colour}"/>')
            middle = LEFT + SCALE * min(r["p50"], MOST)
            out.append(f'<rect x="{middle:.1f}" y="{y}" width="2" height="{BAR - 2}" fill="black"/>')
            out.append(f'<text x="{LEFT + wide + 4:.1f}" y="{y + BAR - 3}">{r["p99"]:.2f}</text>')
            y += BAR
        y += 30
    width = LEFT + SCALE * MOST + 60
    head = f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{y}" viewBox="0 0 {width} {y}">'
    note = f'<text x="{LEFT}" y="14">p99 in ms, and the median (black)</text>'
    style = '<rect width="100%" height="100%" fill="white"/>\n<g font-family="sans-serif" font-size="11">'
    return "\n".join([head, style, note, *out, "</g>", "</svg>"]) + "\n"


def write_plots(directory, records):
    for record in records:
        if record["name"].startswith("cuda-"):
            with open(os.path.join(directory, record["name"] + ".svg"), "w", encoding="utf-8") as f:
                f.write(plot(record))
