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


def name_of(what, kinds):
    return f"{what}: {', '.join(map(kind_text, kinds))}"


def name(row):
    return name_of(row["what"], row["kinds"])


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


def held(row):
    """Returns the part of the time in which the device was each tenant's, by its stamps: their turns, gaps included.
    None: older rows do not have it."""
    return [t[0] + t[1] for t in row["turns"]] if row.get("turns") else None


def handovers(row):
    return [t[2] for t in row["turns"]]


def time_off(row):
    """Returns how far the farthest tenant's share of the device's time is off; for older rows as the service accounted
    it."""
    have = held(row) or row["accounted"]
    return farthest(row, have if row["limit"] is not None else shares(have))


def unknown(row):
    """Returns the uncertainty of the share: a tenant alone was not equally fast before and after. For older rows, which
    do not have it, it is estimated as if only one of two tenants had differed, which is too little if anything."""
    return row.get("unknown", row["drift"] * row["asked"][0] * (1 - row["asked"][0]))


def expected(row):
    """Returns what each tenant would get if the device's time were divided as asked. It gets less done in that time
    than alone: its launches are watched; and launches that ran beside another's had half of the device, as a long
    kernel that is in flight when a job with precedence comes. None: not measured."""
    if not row.get("watched") or None in row["watched"]:
        return None
    beside = [max(whole - t[0], 0) for whole, t in zip(row["ran"], row["turns"])]
    have = [a * w - b for a, w, b in zip(row["asked"], row["watched"], beside)]
    return have if row["limit"] is not None else shares(have)


def bound(row):
    """Returns by how much that moves the farthest tenant's share of the work."""
    have = expected(row)
    return max(abs(have[i] - row["asked"][i]) for i in looked_at(row)) if have else 0


def is_kept(row):
    """Whether the share is within its tolerance of what was asked, or of what is expected of that, but for what is
    unknown of the machine; and the device's time is divided as asked."""
    have = expected(row)
    near = off(row) <= WITHIN + unknown(row)
    if not near and have:
        near = max(abs(got(row)[i] - have[i]) for i in looked_at(row)) <= WITHIN + unknown(row)
    return near and time_off(row) <= WITHIN


def real(row):
    """Returns between what each tenant's time was, by stamps (tests/lib/spans.py). At least, its launches ran and no
    other's did; and a deep tenant has others in flight in its gaps. At most, it has its gaps, the hand-overs to it, and
    all the time in which launches of others ran as well: what runs on beyond its turn is its own."""
    found = []
    for (_, pattern), (ran, gaps, before, *_), whole in zip(row["kinds"], row["turns"], row["ran"]):
        shared = max(whole - ran, 0)  # `ran` has half of what it ran beside another
        found.append((ran - shared + (gaps if pattern == "deep" else 0), ran + shared + gaps + before))
    return found


def accounted_off(row):
    """Returns the largest relative error of the accounted time. Older rows are compared with the time that the work
    takes alone."""
    if not row.get("turns"):
        return max(abs(a / b - 1) if b else 0 for a, b in zip(row["accounted"], row["busy"]))
    of_all = zip(row["accounted"], real(row))
    return max(max(1 - a / least if least else 0, a / most - 1 if most else 0, 0) for a, (least, most) in of_all)


def joined(values):
    return ":".join(f"{100 * v:.1f}" for v in values)


def cells_of(r):
    stamped = held(r) is not None
    return [
        name(r),
        joined(r["asked"][i] for i in looked_at(r)),
        joined(got(r)[i] for i in looked_at(r)),
        f"{100 * off(r):+.1f}",
        joined(shares(held(r)) if stamped else shares(r["device"])),
        joined(shares(r["accounted"])),
        f"{100 * accounted_off(r):.1f}",
        *([f"{100 * sum(handovers(r)):.1f} %"] if stamped else []),
        f"{100 * sum(r['parts']):.0f} %",
        f"{100 * r['drift']:.0f} %",
        f"{100 * unknown(r):.1f}",
        *([f"{100 * bound(r):.1f}"] if stamped else []),
    ]


def list_of(rows, table):
    stamped = held(rows[0]) is not None
    columns = ["asked", "got", "off", "by time" if stamped else "by kernels", "accounted", "% off real"]
    columns += [*(["hand-overs"] if stamped else []), "of alone", "drift", "unknown", *(["bound"] if stamped else [])]
    return table(["", *columns], [cells_of(r) for r in sorted(rows, key=off, reverse=True)])


def matrix_of(rows, table):
    kinds = list(dict.fromkeys(tuple(r["kinds"][0]) for r in rows))
    found = {(tuple(r["kinds"][0]), tuple(r["kinds"][1])): r for r in rows}
    cells = [
        [kind_text(a)] + [f"{100 * got(found[a, b])[0]:.1f}" if (a, b) in found else "" for b in kinds] for a in kinds
    ]
    return table(["heavy, beside", *map(kind_text, kinds)], cells)


def others_text(rows):
    """Says of the rows that are farther off than they may be why they are."""
    far = [r for r in rows if off(r) > WITHIN]
    untold = [r for r in far if off(r) - unknown(r) <= WITHIN]
    by_watch = [r for r in far if r not in untold and expected(r) and is_kept(r)]
    texts = []
    if untold:
        texts.append(f"{len(untold)} of the others miss that by no more than is unknown of the machine")
    if by_watch:
        texts.append(f"{len(by_watch)} by no more than their bound")
    return f" ({', '.join(texts)})" if texts else ""


def missed_text(rows):
    missed = [r for r in rows if expected(r) and not is_kept(r)]
    return f" {len(missed)} miss their bound." if missed else " All keep their bound." if expected(rows[0]) else ""


def summary(rows):
    offs = [off(r) for r in rows]
    accounted = [accounted_off(r) for r in rows]
    times = [time_off(r) for r in rows]
    stamped = held(rows[0]) is not None
    return (
        f"{sum(o <= WITHIN for o in offs)} of {len(rows)} are within {100 * WITHIN:.0f} points by work"
        f"{others_text(rows)}; "
        f"median {100 * statistics.median(offs):.1f}, worst {100 * max(offs):.1f}. "
        f"The device's time, {'by its stamps' if stamped else 'as accounted'}, is divided within {100 * WITHIN:.0f} "
        f"points in {sum(t <= WITHIN for t in times)}, worst {100 * max(times):.1f}. "
        f"Accounted time: {sum(a <= WITHIN for a in accounted)} of {len(rows)} within {100 * WITHIN:.0f} % of real "
        f"for every tenant, median {100 * statistics.median(accounted):.1f} %, worst {100 * max(accounted):.1f} %."
        f"{missed_text(rows)}"
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


BY_STAMPS = (
    "The work of each tenant, by the results of its kernels, is related to what it does alone in the same time, "
    "without any layer. *got* is its share of these parts. *off* is the distance of the farthest tenant from what "
    "it should get, in points of the device; for a limit only what is beyond it counts. *of alone* is the sum of "
    "the parts; the rest is the cost of taking turns and of being watched, and time reserved for synchronous "
    "tenants. *drift* is how much the machine's speed differed between the measurements of a tenant alone, and "
    "*unknown* is the uncertainty of the share in points that follows from it.\n\n"
    "Each launch stamps its begin and its end by the device's own clock (`tests/opencl/device-clock.h`); that "
    "costs the host nothing. From the stamps of all tenants each moment is somebody's turn, or a hand-over from "
    "one to the next (`tests/lib/spans.py`). *by time* is the share of the turns, and *hand-overs* is their part "
    "of the time. *accounted* is the service's RunUSec. *% off real* is how far that is from what the stamps "
    "leave open: a tenant's time is at least that in which its launches alone ran (with the gaps between them, "
    "for a deep one, which has the next in flight), and at most that of its launches, gaps, and the hand-overs to "
    "it.\n\n"
    "Where work and time disagree, a tenant's launches follow each other in its turns less quickly than alone, "
    "because the host launches more slowly what is watched. How much that is, is measured of each kind alone "
    "(`Accounting=exact`). And a launch that runs beside another tenant's has half of the device: so does a "
    "kernel of 10 ms that is in flight when a job with precedence comes. *bound* is by how many points both move "
    "the share of the work if the device's time is divided as asked. A share that is farther from that than 3 "
    "points and what is unknown fails the benchmark, and so does a division of the device's time. No turn is "
    "shorter than a kernel: if a kernel is longer than the time slice, shares hold over turns of a kernel (the "
    "rows with a time slice of 1 ms).\n\n"
)
BY_WORK = (
    "These are older, and their kernels are as long as profiling events say, which adds some 5 us to each on a "
    "GPU: what is called 5 us there ran 0.25 us, and how much such a program gets done depends on the host alone. "
    "*by kernels* is the share by the number of kernels times their length. *% off real* compares what was "
    "accounted with the time that the work takes alone. A kernel at the edge of the window counts for the part of "
    "its time, including its wait, that is within the window.\n\n"
)


PACED = (
    "This device is simulated (`tests/opencl/paced-device.h`): processes of their own launch by a real OpenCL loader, "
    "the layer and a real service, but each kernel takes exactly the time that it should, and its results are made "
    "without it. As an H200, the device has one process's context loaded at a time, for 2 ms if others have launches, "
    "takes 0.13 ms to load another, 1.8 us between two launches and 11 us from a launch to it and back. A launch costs "
    "the host 3.5 us, an event 1.6 us, and a question about one 2.5 us, as on an H100's host. Time is real, and the "
    "processes have real-time priorities. So these rows show what the scheduler adds, and not what a GPU's clocks and "
    "caches do.\n\n"
)


def render_mix(record, table):
    d = record["data"]
    stamped = [s for s in d["subsets"] if held(s["rows"][0])]
    older = [s for s in d["subsets"] if s not in stamped]
    text = f"### {d['device']}\n\n"
    if not d["gpu"]:
        text += (
            f"The device is CPU {d['cpu']}: PoCL has one thread for each tenant (POCL_MAX_PTHREAD_COUNT=1), all on "
            "that CPU, and the threads that launch are on the others. A launch takes PoCL longer than a kernel of 5 "
            "us, so the rows with such kernels measure the host.\n\n"
        )
    if d["device"] == "paced device":
        text += PACED
    for note, subsets in ((BY_STAMPS, stamped), (BY_WORK, older)):
        if subsets:
            text += note + "\n\n".join(render_subset(s, table).rstrip("\n") for s in subsets) + "\n\n"
    if "note" in d:
        text += d["note"] + "\n\n"
    return text + f"![asked and got](tests/bench/results/{record['name']}.svg)\n\n"


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
        text = f"{name(r)}: asked {joined(r['asked'])}, got {joined(got(r))}"
        dots = "".join(f'<circle cx="{x:.1f}" cy="{y(got(r)[i] - r["asked"][i]):.1f}" r="2.6"/>' for i in looked_at(r))
        out.append(f'<g class="{mark}"><title>{html.escape(text)}</title>{dots}</g>')
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


def misses(data):
    """Returns the mixes that are farther off than their bound, as texts."""
    rows = [r for s in data["subsets"] for r in s["rows"] if held(r) and expected(r)]
    return [
        f"{name(r)}: asked {joined(r['asked'])}, got {joined(got(r))}, " f"by time {joined(shares(held(r)))}"
        for r in rows
        if not is_kept(r)
    ]


def merged(path, data):
    """Adds the subsets that were measured before and not now; and if only a part was measured now, the other rows. A
    `note` on what was measured before is not kept."""
    try:
        with open(path, encoding="utf-8") as f:
            old = json.load(f)["data"]["subsets"]
    except OSError:
        old = []
    new = {s["subset"]: s for s in old}
    for s in (s for s in data["subsets"] if s["rows"]):
        before = new.get(s["subset"]) if s.pop("part", False) else None
        rows = {(r["what"], str(r["kinds"])): r for r in [*(before["rows"] if before else []), *s["rows"]]}
        if before and before.get("measured"):
            s["measured"] = f"{s['measured']}, in part; {before['measured']}"
        new[s["subset"]] = {**s, "rows": list(rows.values())}
    return {**data, "subsets": [new[name] for name in SUBSETS if name in new]}
