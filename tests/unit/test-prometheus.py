#!/usr/bin/python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Prometheus' own tool accepts the exporter's output and the alert rules: test-prometheus.py PROMTOOL TEST-EXPORTER
FOLDER"""

import json
import re
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

PROMTOOL, EXAMPLE, FOLDER = sys.argv[1], sys.argv[2], Path(sys.argv[3])
SUFFIXES = r"(_bucket|_sum|_count)$"


def promtool(*args, text=None):
    return subprocess.run([PROMTOOL, *args], input=text, capture_output=True, text=True, check=False)


def example():
    return subprocess.run([EXAMPLE, "--example"], capture_output=True, text=True, check=True).stdout


def told():
    """Returns the names of the exporter's metrics."""
    return set(re.findall(r"^# TYPE (\S+) ", example(), re.M))


def named(text):
    return {re.sub(SUFFIXES, "", n) for n in re.findall(r"\bxsched_\w+", text)}


class Metrics(unittest.TestCase):
    def test_check_metrics(self):
        done = promtool("check", "metrics", text=example())
        self.assertEqual((done.returncode, done.stdout + done.stderr), (0, ""))

    def test_mistakes_are_found(self):
        self.assertNotEqual(promtool("check", "metrics", text=example().replace("_total", "")).returncode, 0)

    def test_manual_page(self):
        """The manual page has exactly the exporter's metrics."""
        page = (FOLDER / "../../man/xsched-exporter.8.scd").read_text(encoding="utf-8").replace("\\_", "_")
        inside = page[page.index("# METRICS") : page.index("# LIMITS")]
        self.assertEqual({n for n in re.findall(r"_(xsched_\w+)_", inside)}, told())


class Rules(unittest.TestCase):
    def setUp(self):
        self.rules = (FOLDER / "xsched.rules.yml").read_text(encoding="utf-8")
        self.tests = (FOLDER / "xsched.rules.test.yml").read_text(encoding="utf-8")

    def run_tests(self, rules):
        with tempfile.TemporaryDirectory() as d:
            Path(d, "xsched.rules.yml").write_text(rules, encoding="utf-8")
            Path(d, "tests.yml").write_text(self.tests, encoding="utf-8")
            return promtool("test", "rules", f"{d}/tests.yml")

    def alerts(self):
        """Returns [(text of a rule, its name)]."""
        parts = re.split(r"(?m)^ *(?:#.*\n *)*(?=- alert: )", self.rules)[1:]
        return [(p, re.match(r"- alert: (\w+)", p)[1]) for p in parts]

    def test_check_rules(self):
        done = promtool("check", "rules", str(FOLDER / "xsched.rules.yml"))
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn(f"{len(self.alerts())} rules found", done.stdout)

    def test_rules(self):
        done = self.run_tests(self.rules)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_each_is_tested(self):
        """The rules' tests fail for each alert that never fires, and for each that fires at once."""
        self.assertEqual(len(self.alerts()), 7)
        for text, name in self.alerts():
            expr = re.search(r"expr: (.*\n(?: {10,}.*\n)*)", text)[1]
            silent = self.rules.replace(text, text.replace(expr, "vector(0) > 1\n", 1))
            self.assertNotEqual(silent, self.rules)
            self.assertNotEqual(self.run_tests(silent).returncode, 0, name)
            if "for:" in text:
                at_once = self.rules.replace(text, re.sub(r"for: .*\n", "for: 0s\n", text))
                if name != "XschedDecisionsSlow":  # its rate takes time anyway
                    self.assertNotEqual(self.run_tests(at_once).returncode, 0, name)

    def test_metrics_exist(self):
        exprs = "".join(re.findall(r"expr: (.*\n(?: {10,}.*\n)*)", self.rules))
        self.assertGreater(len(named(exprs)), 6)
        self.assertLessEqual(named(exprs), told())


class Dashboard(unittest.TestCase):
    def setUp(self):
        self.dashboard = json.loads((FOLDER / "xsched.dashboard.json").read_text(encoding="utf-8"))

    def test_shape(self):
        ids = [p["id"] for p in self.dashboard["panels"]]
        self.assertEqual(len(set(ids)), len(ids))
        for p in self.dashboard["panels"]:
            self.assertTrue(p["title"] and p["targets"] and p["gridPos"], p)
            self.assertLessEqual(p["gridPos"]["x"] + p["gridPos"]["w"], 24, p["title"])

    def test_shows_everything(self):
        """Each metric is in a panel, except for the one that says that the service is degraded."""
        text = json.dumps([t["expr"] for p in self.dashboard["panels"] for t in p["targets"]])
        self.assertEqual(told() - named(text), {"xsched_degraded"})
        self.assertLessEqual(named(text), told())


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
