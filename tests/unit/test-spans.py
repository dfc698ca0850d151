#!/usr/bin/python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""tests/lib/spans.py: whose turn it was on the device, by stamps of its launches"""

import array
import os
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "../lib"))
import spans

WINDOW = (1000, 2000)


class Spans(unittest.TestCase):
    def check(self, of_all, *expected):
        """`expected`: what each tenant ran, its gaps and the hand-overs to it, in thousandths; and its turns."""
        found = spans.turns(of_all, WINDOW)
        self.assertEqual(
            [(*(round(1000 * v) for v in (t.ran, t.gaps, t.handovers)), t.turns) for t in found], list(expected)
        )
        self.assertLessEqual(sum(t.ran + t.gaps + t.handovers for t in found), 1 + 1e-9)

    def test_alone(self):
        """Gaps are in the turn of the one who is alone; what is outside of the window is nobody's."""
        self.check([[(900, 1300), (1400, 1500), (1900, 2100)]], (500, 500, 0, 1))

    def test_turns(self):
        """The idle time before the first launch of a turn is a hand-over to the one whose turn it is."""
        one, two = [(1000, 1100), (1110, 1200), (1600, 1800)], [(1250, 1350), (1400, 1500)]
        self.check([one, two], (390, 10, 100, 2), (200, 50, 50, 1))

    def test_in_a_gap(self):
        """A launch in the other's gap is a turn of its own."""
        self.check([[(1000, 1400), (1600, 2000)], [(1450, 1500)]], (800, 0, 100, 2), (50, 0, 50, 1))

    def test_at_once(self):
        """Launches that run at once have half of that time each, a third where there are three."""
        self.check([[(1000, 1600)], [(1400, 2000)]], (500, 0, 0, 1), (500, 0, 0, 1))
        self.check([[(1000, 1300)], [(1000, 1300)], [(1000, 1300)]], *[(100, 0, 0, 1)] * 3)

    def test_nothing(self):
        self.check([[], [(1500, 1700)]], (0, 0, 0, 0), (200, 0, 500, 1))

    def test_files(self):
        """A file is read once: it tells of the last window only."""
        with tempfile.TemporaryDirectory() as directory:
            path = os.path.join(directory, "1")
            self.assertIsNone(spans.read(path))
            with open(path, "wb") as f:
                f.write(array.array("Q", (*WINDOW, 1100, 1200, 1300, 1500)).tobytes())
            self.assertEqual(spans.read(path), (WINDOW, [(1100, 1200), (1300, 1500)]))
            self.assertIsNone(spans.read(path))


if __name__ == "__main__":
    unittest.main()
