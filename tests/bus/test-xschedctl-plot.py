#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""xschedctl plot: the picture of the last minutes, compared with the groups' counters."""

import os
import re
import subprocess
import tempfile
import time
import unittest
import xml.etree.ElementTree as ElementTree

from harness import DEVICE, XSCHEDCTL, Client, Terminal, ctl, ctl_json, environment, main, wait_until

SVG = "{http://www.w3.org/2000/svg}"
WIDTH, HEIGHT = 600, 130  # size of a device's whole time


def area(path):
    """The area of a figure of horizontal and vertical lines."""
    corners, x, y = [], 0, 0
    for letter, numbers in re.findall(r"([MHVZ])([-\d. ]*)", path):
        if letter == "M":
            x, y = map(float, numbers.split())
        elif letter == "H":
            x = float(numbers)
        elif letter == "V":
            y = float(numbers)
        corners.append((x, y))
    return abs(sum(a[0] * b[1] - b[0] * a[1] for a, b in zip(corners, corners[1:] + corners[:1]))) / 2


class Picture:
    def __init__(self, text):
        self.root = ElementTree.fromstring(text)
        self.shares, self.legend = {}, {}
        for panel in self.root.findall(f"{SVG}g"):
            device = self.device(panel)
            for path in panel.findall(f'{SVG}path[@class="a"]'):
                self.shares[device, path.find(f"{SVG}title").text] = area(path.get("d")) / (WIDTH * HEIGHT)
            for line in panel.findall(f"{SVG}text"):
                if line.find(f"{SVG}title") is not None:
                    self.legend[device, line.find(f"{SVG}title").text] = float(line.text.split("%")[0])

    @staticmethod
    def device(panel):
        """The id, followed by the name."""
        return panel.find(f"{SVG}text").text.split(" ")[0]

    @property
    def devices(self):
        return [self.device(p) for p in self.root.findall(f"{SVG}g")]


class Plot(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        """Two clients share a device for a while, and are idle after that."""
        cls.clients = [
            Client(prefix=(XSCHEDCTL, "run", f"--name={n}", f"--weight={w}", "--"))
            for n, w in (("ours", 300), ("theirs", 100))
        ]
        for c in cls.clients:
            c.do("stream")
        wait_until(lambda: len({s["begin_usec"] for s in cls.samples()}) > 3, "several seconds are in the record")
        for c in cls.clients:
            c.do("rest")
        cls.ours, cls.theirs = [c.row()["group"] for c in cls.clients]
        wait_until(cls.is_complete, "the record says what the counters say")

    @classmethod
    def tearDownClass(cls):
        for c in cls.clients:
            c.end()

    @classmethod
    def samples(cls, *args):
        return ctl_json("plot", *args)["samples"]

    @classmethod
    def sums(cls, *args):
        sums = {}
        for s in cls.samples(*args):
            if s["group"] is not None:
                sum_ = sums.setdefault(
                    s["group"], dict.fromkeys(("run", "kept", "wait", "drain_wait", "service_wait"), 0)
                )
                for key in sum_:
                    sum_[key] += s[f"{key}_usec"]
        return sums

    @classmethod
    def is_complete(cls):
        have = cls.sums()
        rows = {g["group"]: g for g in ctl_json("list-groups")}
        return all(
            abs(have.get(n, {}).get(k, 0) - rows[n][f"{k}_usec"]) <= 2
            for n in (cls.ours, cls.theirs)
            for k in ("run", "kept", "wait", "drain_wait", "service_wait")
        )

    def picture(self, *args):
        with tempfile.TemporaryDirectory() as directory:
            name = os.path.join(directory, "x.svg")
            self.assertEqual(ctl("plot", "-o", name, *args), "")
            with open(name, encoding="utf-8") as f:
                return Picture(f.read())

    def test_the_picture_says_what_the_counters_say(self):
        said = self.sums()
        self.assertGreater(said[self.ours]["run"], 0)
        self.assertGreater(said[self.theirs]["wait"], 0)
        p = self.picture("--since=15min")
        for group in (self.ours, self.theirs):
            # In 15 minutes with a few seconds of work, a rounding of a tenth of a pixel in height is half of the area.
            self.assertAlmostEqual(p.legend[DEVICE, group], said[group]["run"] / 9e6, delta=0.06)
        first = min(s["begin_usec"] for s in self.samples())
        span = ctl_json("plot")["until_usec"] - first
        p = self.picture(f"--since={span + 1_000_000}us")
        for group in (self.ours, self.theirs):
            want = said[group]["run"] / (span + 1_000_000)
            self.assertGreater(want, 0.01)
            self.assertAlmostEqual(p.shares[DEVICE, group], want, delta=0.1 * want + 0.005)
            self.assertAlmostEqual(p.legend[DEVICE, group] / 100, want, delta=0.1 * want + 0.005)
        self.assertLessEqual(sum(v for k, v in p.shares.items() if k[1] not in ("policy", "drain", "service")), 1.01)

    def test_since(self):
        few = self.samples("--since=2s")
        samples = self.samples()  # and waits that ended in between
        self.assertLess(len(few), len(samples))
        for s in few:
            self.assertIn(s, samples)
        for bad in ("x", "0", "infinity", "25:00", "14:05:99", "2999-01-01 00:00", ""):
            self.assertIn("--since=", ctl("plot", f"--since={bad}", status=1))
        now = time.localtime()
        for good in (
            "1h",
            "5min",
            "-5min",
            time.strftime("%H:%M:%S", time.localtime(time.time() - 60)),
            time.strftime("%Y-%m-%d 00:00", now),
        ):
            if good.endswith("00:00") and now.tm_hour == now.tm_min == 0:
                continue
            self.assertTrue(self.samples(f"--since={good}"), good)

    def test_device(self):
        self.assertEqual(self.picture(f"--device={DEVICE}").devices, [DEVICE])
        self.assertEqual(self.picture(f"--device=device:{DEVICE}").devices, [DEVICE])
        self.assertEqual({s["device"] for s in self.samples(f"--device={DEVICE}")}, {DEVICE})
        self.assertIn("no such device", ctl("plot", "--device=other", status=1))

    def test_where_it_goes(self):
        """SVG into a pipe; characters on a terminal, unless SVG is asked for; and a file as a whole, or an error."""
        self.assertTrue(ctl("plot").startswith("<?xml"))
        self.assertTrue(ctl("plot", "-o", "-").startswith("<?xml"))
        text = Terminal("plot", "--no-pager", columns=100).end()
        self.assertNotIn("<svg", text)
        self.assertIn("(idle)", text)
        self.assertRegex(text, re.escape(self.ours.rsplit("/", 1)[-1][-8:]) + r" +\d+\.\d ")
        for line in text.replace("\r", "").split("\n"):
            self.assertLessEqual(len(re.sub(r"\x1b\[[\d;]*m", "", line)), 100, line)
        self.assertIn("<svg", Terminal("plot", "-o-", "--no-pager").end())
        self.assertIn("cannot write /nonexistent/x", ctl("plot", "-o", "/nonexistent/x", status=1))
        self.assertIn("--output=", ctl("plot", "--json=short", "-o", "x", status=1))
        with open("/dev/full", "w", encoding="utf-8") as full:
            p = subprocess.run(
                [XSCHEDCTL, "plot", "-o", "-"],
                env=environment(),
                stdout=full,
                stderr=subprocess.PIPE,
                text=True,
                check=False,
            )
        self.assertEqual(p.returncode, 1)
        self.assertIn("cannot write", p.stderr)

    def test_a_file_is_replaced(self):
        """A reader of the former file keeps it; links and modes stay; and no other file is left."""
        with tempfile.TemporaryDirectory() as directory:
            name, other, link, new = (os.path.join(directory, n) for n in ("x.svg", "other", "link", "new"))
            with open(name, "w", encoding="utf-8") as f:
                f.write("former")
            os.chmod(name, 0o640)
            os.link(name, other)
            os.symlink("x.svg", link)
            for output in (name, link):
                ctl("plot", "-o", output)
                with open(name, encoding="utf-8") as f:
                    self.assertTrue(f.read().rstrip().endswith("</svg>"))
                with open(other, encoding="utf-8") as f:
                    self.assertEqual(f.read(), "former")
                self.assertEqual((os.stat(name).st_mode & 0o777, os.readlink(link)), (0o640, "x.svg"))
            ctl("plot", "-o", new)
            mask = os.umask(0)
            os.umask(mask)
            self.assertEqual(os.stat(new).st_mode & 0o777, 0o666 & ~mask)
            self.assertEqual(sorted(os.listdir(directory)), ["link", "new", "other", "x.svg"])
            # A link's target is made if it does not exist.
            os.symlink("made", absent := os.path.join(directory, "absent"))
            ctl("plot", "-o", absent)
            with open(os.path.join(directory, "made"), encoding="utf-8") as f:
                self.assertTrue(f.read().rstrip().endswith("</svg>"))
            self.assertEqual(os.readlink(absent), "made")
            # Something else than a regular file is written to in place.
            os.mkfifo(fifo := os.path.join(directory, "fifo"))
            with subprocess.Popen(["cat", fifo], stdout=subprocess.PIPE, text=True) as reader:
                ctl("plot", "-o", fifo)
                self.assertTrue(reader.communicate()[0].startswith("<?xml"))
            self.assertIn("fifo", os.listdir(directory))

    def test_block_characters(self):
        text = Terminal("plot", "--since=10s", "--no-pager", columns=120, LC_ALL="C.UTF-8").end()
        self.assertRegex(text, "[▁▂▃▄▅▆▇█]")
        text = Terminal("plot", "--since=10s", "--no-pager", columns=120, LC_ALL="C").end()
        self.assertTrue(text.isascii())
        self.assertRegex(text, "[.:=+*#@-]{2}")

    def test_it_needs_nothing_else(self):
        text = ctl("plot")
        self.assertEqual(set(re.findall(r'https?://[^"\s<]*', text)), {"http://www.w3.org/2000/svg"})
        self.assertNotRegex(text, r"(?i)<script|@import|<image|<use|href|url\((?!#)")
        self.assertIn("prefers-color-scheme:dark", text)
        self.assertLess(len(text), 60000)


if __name__ == "__main__":
    main(unittest)
