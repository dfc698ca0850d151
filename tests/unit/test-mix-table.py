#!/usr/bin/python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""tests/bench/mix_table.py: which measured shares are farther off than their bound, and what accounted time is
compared with; mix_parts.py: what was measured in parts is as if it had been at once"""

import json
import os
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "../bench"))
import mix_parts
import mix_table


def row(turns, parts=(0.75, 0.25), watched=(1, 1), unknown=0, accounted=None, **more):
    """`turns`: (ran, gaps, hand-overs to it) of two tenants."""
    return {
        "what": "300:100",
        "kinds": [[5, "deep"], [1200, "deep"]],
        "asked": [0.75, 0.25],
        "limit": None,
        "seconds": 2,
        "parts": list(parts),
        "busy": list(parts),
        "accounted": list(accounted or [t[0] + t[1] for t in turns]),
        "drift": 0,
        "unknown": unknown,
        "turns": [[*t, 10, 0.1] for t in turns],
        "ran": [t[0] for t in turns],
        "watched": list(watched),
        **more,
    }


AS_ASKED = ((0.70, 0.02, 0.03), (0.23, 0.01, 0.01))


class Table(unittest.TestCase):
    def missed(self, *args, **more):
        return len(mix_table.misses({"subsets": [{"rows": [row(*args, **more)]}]}))

    def test_as_asked(self):
        self.assertEqual(self.missed(AS_ASKED), 0)

    def test_work_is_bounded_by_what_watching_costs(self):
        """A tenant that launches at 4/5 of its speed when it is watched has 70.6 % of the work in 75 % of the time."""
        self.assertEqual(self.missed(AS_ASKED, parts=(0.600, 0.25), watched=(0.8, 1)), 0)
        self.assertEqual(self.missed(AS_ASKED, parts=(0.600, 0.25)), 1, "nothing explains that")
        self.assertEqual(self.missed(AS_ASKED, parts=(0.450, 0.25), watched=(0.8, 1)), 1, "farther than that explains")
        self.assertEqual(self.missed(AS_ASKED, parts=(0.600, 0.25), unknown=0.05), 0, "the machine was not steady")

    def test_work_is_bounded_by_what_ran_at_once(self):
        """A tenant that has 30 % of the time has half of the device in the 12 % in which others ran, too."""
        more = {"what": "Min=30%", "asked": [0.3, 0.7], "limit": 0, "ran": [0.36, 0.70]}
        self.assertEqual(self.missed(((0.30, 0, 0), (0.64, 0, 0)), parts=(0.24, 0.70), **more), 0)
        self.assertEqual(self.missed(((0.30, 0, 0), (0.64, 0, 0)), parts=(0.19, 0.70), **more), 1)
        more["ran"] = [0.30, 0.64]
        self.assertEqual(self.missed(((0.30, 0, 0), (0.64, 0, 0)), parts=(0.24, 0.70), **more), 1)

    def test_time_has_no_excuse(self):
        """A wrong division of the device's time is a miss, whatever the work."""
        self.assertEqual(self.missed(((0.60, 0.02, 0), (0.33, 0.01, 0)), unknown=0.5, watched=(0.5, 1)), 1)

    def check_accounted(self, turns, ran, *expected, kinds=("deep", "deep")):
        """`expected`: (accounted of the first, relative error)."""
        for accounted, off in expected:
            found = row(turns, accounted=(accounted, 0.24), ran=ran, kinds=[[1200, k] for k in kinds])
            self.assertAlmostEqual(mix_table.accounted_off(found), off, places=4, msg=accounted)

    def test_accounted(self):
        """A tenant's time is that of its turns, and of a part of the hand-overs to it. Gaps need not be its own where
        it waits for each launch."""
        self.check_accounted(AS_ASKED, (0.70, 0.23), (0.72, 0), (0.75, 0), (0.74, 0), (0.684, 0.05), (0.7875, 0.05))
        self.check_accounted(AS_ASKED, (0.70, 0.23), (0.70, 0), (0.665, 0.05), kinds=("sync", "deep"))

    def test_accounted_of_what_ran_at_once(self):
        """What runs on beyond its turn, beside the next tenant's, is the time of who launched it, or is divided."""
        both = ((0.65, 0, 0), (0.29, 0, 0))  # 0.1 of the time they ran at once
        self.check_accounted(both, (0.70, 0.34), (0.60, 0), (0.70, 0), (0.735, 0.05), (0.57, 0.05))

    def test_older_rows_are_not_judged(self):
        older = row(AS_ASKED, parts=(0.1, 0.9))
        older["turns"] = None
        self.assertEqual(mix_table.misses({"subsets": [{"rows": [older]}]}), [])


def part(subset, rows, left_out=0, alone=None):
    return {
        "device": "a",
        "subsets": [{"subset": subset, "part": True, "left_out": left_out, "rows": rows, "alone": alone}],
    }


class Parts(unittest.TestCase):
    def test_joined(self):
        parts = [part("300", [row(AS_ASKED, what="a")], alone={"x": 1}), part("300", [row(AS_ASKED)], alone={"y": 2})]
        joined = mix_parts.joined(parts, True)
        self.assertEqual([r["what"] for r in joined["subsets"][0]["rows"]], ["a", "300:100"])
        self.assertFalse(joined["subsets"][0]["part"], "all mixes were measured, so none that was before stays")
        self.assertEqual(joined["subsets"][0]["alone"], {"x": 1, "y": 2})
        self.assertTrue(mix_parts.joined(parts[:1], False)["subsets"][0]["part"], "a part failed")
        parts.append(part("300", [row(AS_ASKED)], left_out=1))
        self.assertTrue(mix_parts.joined(parts, True)["subsets"][0]["part"])
        self.assertEqual(mix_parts.joined([part("300", [])], True)["subsets"], [])

    def test_again(self):
        far = row(AS_ASKED, parts=(0.60, 0.35), what="far")
        counted = row(AS_ASKED, accounted=(0.79, 0.2), what="counted")
        with tempfile.NamedTemporaryFile("w", encoding="utf-8") as f:
            json.dump({"data": part("300", [row(AS_ASKED), far, counted])}, f)
            f.flush()
            names = [f"{what}: 5 us deep, 1.2 ms deep" for what in ("far", "counted")]
            self.assertEqual(mix_parts.names_again(f.name, ["300"]), names)
            self.assertEqual(mix_parts.names_again(f.name, ["900"]), [])


if __name__ == "__main__":
    unittest.main()
