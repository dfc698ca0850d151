# SPDX-License-Identifier: LGPL-2.1-or-later
"""The section of BENCHMARKS.md about attackers, from what bench-attack.py measured."""

ATTACKS = {
    "ask": "Describe, lists, the whole tree of objects, over 3,000 queues",
    "set-badly": "Set() with wrong signatures, beyond one's rights, of nothing",
    "set-own": "settings of an own client with 100 queues",
    "register": "registrations, one after the other",
    "trespass": "queues for clients of others",
    "invent": "queues on invented devices",
    "connect": "a connection for each call",
    "socket-connect": "connections to the service's own socket, as many as can be made",
    "socket-refused": "lists, which are not for that socket",
    "socket-register": "registrations there",
    "socket-trespass": "queues for clients of others there",
    "socket-unread": "answers that are never taken there",
    "socket-descriptors": "descriptors that linger when they are closed, sent there",
    "storm": "edges of 2 clients with 8 queues",
    "crowd": "20,000 waiters on an eventfd",
    "beyond": "what one may not, asked of polkit (registrations ask it, too; the yardstick only spins)",
}


TARGET = 2  # times of quiet


def beyond_target(rows):
    """A line for each p99 that is too late, and what it is beside the yardstick."""
    lines = []
    for r in rows:
        for what in ("hold", "registration"):
            p99, yard, quiet = (r[k][what]["p99_us"] for k in ("attacked", "yardstick", "quiet"))
            if p99 > TARGET * quiet:
                lines.append(
                    f"{r['attack']}: {what}s' p99 is {p99 / quiet:.1f}x of quiet"
                    f" ({p99:.0f} us), and {p99 / yard:.1f}x of as busy with others"
                )
    return lines


def render_attack(record, table):
    """Text and table of the section; `table` makes a table of headings and rows."""
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
        rows.append(row("- as busy, with others", r, "yardstick"))
        rows.append(row("- nobody attacks", r, "quiet"))
    columns = ["p50 us", "p99 us", "to quiet", "to yardstick"]
    turns = len(d["rows"][0]["quiet"]["hold"]["p99_of_turns_us"])
    quiet = [t for r in d["rows"] for t in r["quiet"]["registration"]["p99_of_turns_us"]]
    return (
        "Holds and registrations of one user beside another who attacks. The yardstick, and the line below "
        "each attack: as many processes that keep the CPUs and the bus busy without a word to the service. "
        f"Each is measured in {turns} turns, by turns with its yardstick and with nobody there, and shown is the turn "
        "in the middle. The aim is a p99 of 2x of quiet at most; on a machine that has fewer CPUs than there are "
        "attackers, of the yardstick. An edge waits for some 10 µs of what is done for others when it comes, and not "
        "for a whole call. How much of a p99 is the machine's: with nobody there a turn's registrations had one of "
        f"{min(quiet):.0f} to {max(quiet):.0f} us.\n\n"
        + "".join(f"- Beyond {TARGET}x of quiet: {line}\n" for line in beyond_target(d["rows"]))
        + "\n"
        + table(["", *("hold " + c for c in columns), *("registration " + c for c in columns)], rows)
        + (f"\n{record['note']}\n" if "note" in record else "")
    )
