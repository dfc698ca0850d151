# SPDX-License-Identifier: LGPL-2.1-or-later
"""The section of BENCHMARKS.md about attackers, from what bench-attack.py measured."""

ATTACKS = {
    "ask": "Describe, lists, the whole tree of objects, over 3,000 queues",
    "set-badly": "Set() with wrong signatures, without permission, of unknown properties",
    "set-own": "settings of an own client with 100 queues",
    "register": "registrations, one after the other",
    "trespass": "queues for clients of others",
    "invent": "queues on invented devices",
    "connect": "a connection for each call",
    "socket-connect": "as many connections to the service's own socket as can be made",
    "socket-refused": "lists by that socket, which refuses them",
    "socket-register": "registrations by that socket",
    "socket-trespass": "queues for clients of others by that socket",
    "socket-unread": "answers by that socket that are never read",
    "socket-descriptors": "descriptors that linger when they are closed, sent to that socket",
    "storm": "edges of 2 clients with 8 queues",
    "crowd": "20,000 waiters on an eventfd",
    "beyond": "calls without permission; polkit is asked about these and about registrations; the yardstick only spins",
}


TARGET = 2  # times of quiet


def beyond_target(rows):
    """Returns a line for each p99 that misses the target, with its ratio to the yardstick's."""
    lines = []
    for r in rows:
        for what in ("hold", "registration"):
            p99, yard, quiet = (r[k][what]["p99_us"] for k in ("attacked", "yardstick", "quiet"))
            if p99 > TARGET * quiet:
                lines.append(
                    f"{r['attack']}: {what}s' p99 is {p99 / quiet:.1f}x of quiet"
                    f" ({p99:.0f} us), and {p99 / yard:.1f}x of the yardstick"
                )
    return lines


def render_attack(record, table):
    """Returns the text and the table of the section; `table` makes a table of headings and rows."""
    d = record["data"]

    def row(text, r, key):
        cells = [text]
        for what in ("hold", "registration"):
            p99 = r[key][what]["p99_us"]
            cells += [f"{r[key][what][k]:.0f}" for k in ("p50_us", "p99_us")]
            cells += [
                "" if key in ("quiet", other) else f"{p99 / r[other][what]['p99_us']:.1f}x"
                for other in ("quiet", "yardstick")
            ]
        return cells

    rows = []
    for r in d["rows"]:
        rows.append(row(ATTACKS.get(r["attack"], r["attack"]), r, "attacked"))
        rows.append(row("- yardstick", r, "yardstick"))
        rows.append(row("- quiet", r, "quiet"))
    columns = ["p50 us", "p99 us", "to quiet", "to yardstick"]
    turns = len(d["rows"][0]["quiet"]["hold"]["p99_of_turns_us"])
    quiet = [t for r in d["rows"] for t in r["quiet"]["registration"]["p99_of_turns_us"]]
    return (
        "Holds and registrations of one user beside another who attacks. The yardstick, in the line below each attack, "
        "is as many processes that keep the CPUs and the bus busy but do not call the service. Each attack is measured "
        f"in {turns} turns, alternating with its yardstick and with quiet; the table has the turn in the middle. The "
        "aim is a p99 of at most 2x of quiet, or, on a machine with fewer CPUs than attackers, of the yardstick. An "
        "edge that arrives during a call waits for some 10 µs, and not for the whole call. Part of a p99 is the "
        f"machine's: in quiet turns the p99 of registrations was {min(quiet):.0f} to {max(quiet):.0f} us.\n\n"
        + "".join(f"- Beyond {TARGET}x of quiet: {line}\n" for line in beyond_target(d["rows"]))
        + "\n"
        + table(["", *("hold " + c for c in columns), *("registration " + c for c in columns)], rows)
        + (f"\n{record['note']}\n" if "note" in record else "")
    )
