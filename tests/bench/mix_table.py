# SPDX-License-Identifier: LGPL-2.1-or-later
"""The section of BENCHMARKS.md about shares of all mixes of kernels, from what bench-mix.py measured, and its plot."""

import html
import json
import os
import re
import statistics

WITHIN = 0.03
SUBSETS = {
    "300": "All pairs at 300:100",
    "900": "All pairs at 900:100",
    "long": "Pairs over 10 s",
    "more": "Three tenants, nested cgroups, limits and guarantees, kernels longer than the time slice",
    "few": "Some of everything",
}


def kind_text(kind):
    usec, pattern = kind
    return (f"{usec} us" if usec < 100 else f"{usec / 1000:g} ms") + " " + pattern


def shares(parts):
    whole = sum(parts)
    return [p / whole if whole else 0 for p in parts]


def got(row):
    """Returns what each got: its part of the device's time for a limit, and its share of the work for weights."""
    return row["busy"] if row["limit"] is not None else shares(row["parts"])


def looked_at(row):
    return range(len(row["asked"])) if row["limit"] is None else [row["limit"]]


def farthest(row, have):
    if row["what"].startswith("Max"):
        return max(have[i] - row["asked"][i] for i in looked_at(row))
    if row["what"].startswith("Min"):
        return max(row["asked"][i] - have[i] for i in looked_at(row))
    return max(abs(have[i] - row["asked"][i]) for i in looked_at(row))


def off(row):
    """Returns how far the farthest tenant's share is off, as a part of the device."""
    return farthest(row, got(row))


def time_off(row):
    """Returns the same for the device's time, as the service accounted it."""
    return farthest(row, row["accounted"] if row["limit"] is not None else shares(row["accounted"]))


def unknown(row):
    """Returns the uncertainty of the share: a tenant alone was not equally fast before and after. For older rows, which
    do not have it, it is estimated as if only one of two tenants had differed, which is too little if anything."""
    return row.get("unknown", row["drift"] * row["asked"][0] * (1 - row["asked"][0]))


def accounted_off(row):
    """Returns the largest relative error of the accounted time, against the time in which the device had the work."""
    return max(abs(a / b - 1) if b else 0 for a, b in zip(row["accounted"], row["busy"]))


def joined(values):
    return ":".join(f"{100 * v:.1f}" for v in values)


def list_of(rows, table):
    cells = [
        [
            f"{r['what']}: {', '.join(map(kind_text, r['kinds']))}",
            joined(r["asked"][i] for i in looked_at(r)),
            joined(got(r)[i] for i in looked_at(r)),
            f"{100 * off(r):+.1f}",
            joined(shares(r["device"])),
            joined(shares(r["accounted"])),
            f"{100 * accounted_off(r):.1f}",
            f"{100 * sum(r['parts']):.0f} %",
            f"{100 * r['drift']:.0f} %",
            f"{100 * unknown(r):.1f}",
        ]
        for r in sorted(rows, key=off, reverse=True)
    ]
    columns = ["asked", "got", "off", "by kernels", "accounted", "% off real", "of alone", "drift", "unknown"]
    return table(["", *columns], cells)


def matrix_of(rows, table):
    kinds = list(dict.fromkeys(tuple(r["kinds"][0]) for r in rows))
    found = {(tuple(r["kinds"][0]), tuple(r["kinds"][1])): r for r in rows}
    cells = [
        [kind_text(a)] + [f"{100 * got(found[a, b])[0]:.1f}" if (a, b) in found else "" for b in kinds] for a in kinds
    ]
    return table(["heavy, beside", *map(kind_text, kinds)], cells)


def summary(rows):
    offs = [off(r) for r in rows]
    accounted = [accounted_off(r) for r in rows]
    untold = sum(o > WITHIN >= o - unknown(r) for o, r in zip(offs, rows))
    of_others = f" ({untold} of the others miss that by no more than is unknown of the machine)" if untold else ""
    times = [time_off(r) for r in rows]
    return (
        f"{sum(o <= WITHIN for o in offs)} of {len(rows)} are within {100 * WITHIN:.0f} points{of_others}; "
        f"median {100 * statistics.median(offs):.1f}, worst {100 * max(offs):.1f}. "
        f"The device's time is divided within {100 * WITHIN:.0f} points in {sum(t <= WITHIN for t in times)}, "
        f"worst {100 * max(times):.1f}. "
        f"Accounted time: {sum(a <= WITHIN for a in accounted)} of {len(rows)} within {100 * WITHIN:.0f} % of real "
        f"for every tenant, median {100 * statistics.median(accounted):.1f} %."
    )


def render_subset(subset, table):
    rows, title = subset["rows"], SUBSETS[subset["subset"]]
    seconds = sorted({r["seconds"] for r in rows})
    measured = f", measured {subset['measured']}" if "measured" in subset else ""
    text = f"**{title}** ({' and '.join(f'{s:g} s' for s in seconds)} each{measured}). {summary(rows)}\n\n"
    if subset["subset"] not in ("300", "900"):
        return text + list_of(rows, table)
    asked = rows[0]["asked"][0]
    return (
        text
        + f"The share of the heavier one, which should be {100 * asked:g}:\n\n"
        + matrix_of(rows, table)
        + "\nThe worst twelve:\n\n"
        + list_of(sorted(rows, key=off, reverse=True)[:12], table)
    )


def render_mix(record, table):
    d = record["data"]
    text = (
        f"### {d['device']}\n\n"
        "The work of each tenant, by the results of its kernels, is related to what it does alone in the same time. "
        "*got* is its share of these parts. *off* is the distance of the farthest tenant from what it should get, in "
        "points of the device; for a limit only what is beyond it counts. *by kernels* is the share by the number of "
        "kernels times their length, without the gaps that a tenant has even when it is alone. *accounted* is the "
        "service's RunUSec. *% off real* compares that with the time in which the device had the tenant's work, by its "
        "results. A kernel at the edge of the window counts for the part of its time, including its wait, that is "
        "within the window. So up to a kernel on each side is uncertain: a tenth of what a light tenant with kernels "
        "of 10 ms gets in 1 s. *of alone* is the sum of the parts; the rest is the cost of taking turns, and time "
        "reserved for synchronous tenants. *drift* is how much the machine's speed differed between the measurements "
        "of a tenant alone, and *unknown* is the uncertainty of the share in points that follows from it (a program "
        "with kernels of 5 us is as fast as its host launches them, which differs from second to second).\n\n"
        "Two limits are physical. No turn is shorter than a kernel: if a kernel is longer than the time slice, shares "
        "hold over turns of a kernel (the rows with a time slice of 1 ms). And where launches are counted, a kernel of "
        "5 us takes the host longer than the device: how much such a program gets done in its time depends on the "
        "host, and only *the device's time* is divided, by what is accounted.\n\n"
    )
    if not d["gpu"]:
        text += (
            f"The device is CPU {d['cpu']}: PoCL has one thread for each tenant (POCL_MAX_PTHREAD_COUNT=1), all on "
            "that CPU, and the threads that launch are on the others. A launch takes PoCL longer than a kernel of 5 "
            "us, so the rows with such kernels measure the host.\n\n"
        )
    text += "\n\n".join(render_subset(s, table).rstrip("\n") for s in d["subsets"])
    return text + f"\n\n![asked and got](tests/bench/results/{record['name']}.svg)\n\n"


# --- the plot --------------------------------------------------------------------------------------------------

WIDTH, LEFT, RIGHT, PANEL, TOP, GAP = 960, 60, 24, 210, 34, 54
STYLE = """
.ground{fill:#fff}.text{fill:#333;font:12px sans-serif}.small{fill:#555;font:10px sans-serif}\
.title{fill:#111;font:bold 14px sans-serif}
.band{fill:#2a7f4f;opacity:.16}.asked{stroke:#2a7f4f;stroke-width:1}.good{fill:#1f5fa8}\
.bad{fill:#c4361f}.frame{stroke:#999;fill:none}
@media (prefers-color-scheme:dark){.ground{fill:#16181c}.text{fill:#ddd}.small{fill:#aaa}.title{fill:#fff}\
.good{fill:#6aa9f0}.bad{fill:#ff7a5c}}
"""


def panel(subset, top):
    """Draws each mix as a column, the best first; a dot is a tenant's share less what it should get."""
    rows = sorted(subset["rows"], key=off)
    reach = max(0.06, *(abs(got(r)[i] - r["asked"][i]) for r in rows for i in looked_at(r)))
    width = (WIDTH - LEFT - RIGHT) / len(rows)

    def y(v):
        return top + PANEL / 2 - v / reach * PANEL / 2

    out = [
        f'<text x="{LEFT}" y="{top - 8}" class="title">{html.escape(SUBSETS[subset["subset"]])}</text>',
        (
            f'<rect x="{LEFT}" y="{y(WITHIN):.1f}" width="{WIDTH - LEFT - RIGHT}" '
            f'height="{y(-WITHIN) - y(WITHIN):.1f}" class="band"/>'
        ),
        f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y(0):.1f}" y2="{y(0):.1f}" class="asked"/>',
        f'<rect x="{LEFT}" y="{top}" width="{WIDTH - LEFT - RIGHT}" height="{PANEL}" class="frame"/>',
    ]
    for v in (-reach, -WITHIN, 0, WITHIN, reach):
        out.append(f'<text x="{LEFT - 6}" y="{y(v) + 4:.1f}" text-anchor="end" class="small">{100 * v:+.0f}</text>')
    for n, r in enumerate(rows):
        x = LEFT + (n + 0.5) * width
        mark = "good" if off(r) <= WITHIN else "bad"
        name = f"{r['what']}: {', '.join(map(kind_text, r['kinds']))}: asked {joined(r['asked'])}, got {joined(got(r))}"
        dots = "".join(f'<circle cx="{x:.1f}" cy="{y(got(r)[i] - r["asked"][i]):.1f}" r="2.6"/>' for i in looked_at(r))
        out.append(f'<g class="{mark}"><title>{html.escape(name)}</title>{dots}</g>')
    worst = rows[-1]
    out.append(
        f'<text x="{WIDTH - RIGHT}" y="{top + PANEL + 16}" text-anchor="end" class="small">worst: '
        f'{html.escape(worst["what"])}, {html.escape(", ".join(map(kind_text, worst["kinds"])))}</text>'
    )
    out.append(
        f'<text x="{LEFT}" y="{top + PANEL + 16}" class="small">{len(rows)} mixes, from the best to the worst</text>'
    )
    return out


def plot(record):
    d = record["data"]
    height = TOP + len(d["subsets"]) * (PANEL + GAP) + 10
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" viewBox="0 0 {WIDTH} {height}">',
        f"<style>{STYLE}</style>",
        f'<rect width="{WIDTH}" height="{height}" class="ground"/>',
        f'<text x="{LEFT}" y="16" class="text">Shares that tenants got, less those that were asked for, in points of '
        "the device: "
        f'{html.escape(d["device"])}</text>',
    ]
    for n, subset in enumerate(d["subsets"]):
        out += panel(subset, TOP + 16 + n * (PANEL + GAP))
    return "\n".join([*out, "</svg>"]) + "\n"


def write_plots(directory, found):
    for record in found:
        if re.fullmatch("mix-.*", record["name"]):
            with open(os.path.join(directory, record["name"] + ".svg"), "w", encoding="utf-8") as f:
                f.write(plot(record))


def merged(path, data):
    """Adds the subsets that were measured before and not now; and if only a part was measured now, the other rows."""
    try:
        with open(path, encoding="utf-8") as f:
            old = json.load(f)["data"]["subsets"]
    except OSError:
        old = []
    new = {s["subset"]: s for s in old}
    for s in data["subsets"]:
        before = new.get(s["subset"]) if s.pop("part", False) else None
        rows = {(r["what"], str(r["kinds"])): r for r in [*(before["rows"] if before else []), *s["rows"]]}
        if before and before.get("measured"):
            s["measured"] = f"{s['measured']}, in part; {before['measured']}"
        new[s["subset"]] = {**s, "rows": list(rows.values())}
    return {**data, "subsets": [new[name] for name in SUBSETS if name in new]}
