#!/usr/bin/python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Counts what "meson test" did: summary.py [--complete] [--gone=FILE] BUILD-DIR...

Names every test that failed, was skipped or is not there, and closes with "N passed, N failed, N skipped". Exits with 1
when a test failed, when none ran, when a suite that ran lacks what a missing package would have brought
(tests/left-out.txt of the build), with --complete when a suite or a test is missing altogether, or, with CI set in the
environment, when a test was skipped.

An archive of packages moves on. What is missing because it no longer serves a package is named, and fails nothing: that
package stands in FILE, which tools/install-packages has written, or the test was skipped and said so
(tests/lib/from-archive).

What failed is told with its last lines right before the close: who has only the end of a long log knows which test it
was, and why.
"""

import argparse
import collections
import json
import os
import re
import subprocess
import sys

PASSED = {"OK", "EXPECTEDFAIL"}
SKIPPED = {"SKIP"}
# The suites of HACKING.md, by which a suite without any test is noticed.
SUITES = {"unit", "model", "bus", "opencl", "cuda", "kfdsim", "fuzz", "system", "slurm", "vm"}
GONE = re.compile(r"no longer in the archive: ([^\s'\"]+)")

# Lines in an output that tell why a test failed: of cmocka, TAP, unittest, the sanitizers.
TELLING = re.compile(
    r"^not ok |\[  ERROR   \]|: error: |^(ERROR|FAIL): |^Traceback |"
    r"ERROR: \w+Sanitizer|WARNING: ThreadSanitizer|runtime error: "
)
AROUND = 4
# Numbers of printed lines: for all failures together, and for one.
LINES_MAX = 120
LINES_EACH = 30

LeftOut = collections.namedtuple("LeftOut", "suite package what")


class Build:
    def __init__(self, path):
        self.path = path
        log = os.path.join(path, "meson-logs", "testlog.json")
        self.results = []
        if os.path.exists(log):
            with open(log, encoding="utf-8") as f:
                self.results = [json.loads(line) for line in f]
        self.left_out = []
        with open(os.path.join(path, "tests", "left-out.txt"), encoding="utf-8") as f:
            self.left_out = [LeftOut(*line.strip().split(None, 2)) for line in f if line.strip()]

    def suites(self):
        """Names of the tests that ran: "xsched:kfdsim+kfdsim-shim / name"."""
        return {s for t in self.results for s in t["name"].split(" / ")[0].split(":")[-1].split("+")}

    def expected(self):
        """The names of all tests, as in the log; a test without a suite has no " / "."""
        tests = json.loads(
            subprocess.run(["meson", "introspect", "--tests", self.path], check=True, stdout=subprocess.PIPE).stdout
        )
        return {t["name"] for t in tests}

    def missing(self, complete):
        """(missing test or suite, the package that it needs or None)"""
        suites = SUITES if complete else self.suites()
        for left in self.left_out:
            if left.suite in suites:
                yield f"{left.what} (suite {left.suite}): the build did not find {left.package}", left.package
        if complete:
            for suite in sorted(SUITES - self.suites() - {left.suite for left in self.left_out}):
                yield f"suite {suite}: it has no test", None
            for name in sorted(self.expected() - {t["name"].split(" / ")[-1] for t in self.results}):
                yield f"{name}: it did not run", None


def gone_from_archive(test):
    return GONE.findall(test.get("stdout", "") + test.get("stderr", ""))


def output(test):
    return [line for stream in ("stdout", "stderr") for line in test.get(stream, "").splitlines() if line.strip()]


def last_words(lines, n):
    """At most n lines: the last ones, and earlier ones that tell the cause."""
    if len(lines) <= n:
        return lines
    end = len(lines) - (n - n // 2 - 1)
    telling = sorted({j for i in range(end) if TELLING.search(lines[i]) for j in range(i, min(i + AROUND, end))})
    # The first cause comes first, because later failures often follow from it.
    kept = telling[: n // 2]
    return [lines[i] for i in kept] + ["..."] + lines[end - (n // 2 - len(kept)) :]


class Summary:
    def __init__(self, gone):
        self.gone = set(gone)
        self.failures = []
        self.passed = self.failed = self.skipped = self.missing = self.excused = 0

    def count(self, test, build):
        if test["result"] in PASSED:
            self.passed += 1
        elif test["result"] in SKIPPED and gone_from_archive(test):
            self.excused += 1
            print(f"skipped: {test['name']} ({build}): no longer in the archive: {', '.join(gone_from_archive(test))}")
        elif test["result"] in SKIPPED:
            self.skipped += 1
            print(f"skipped: {test['name']} ({build})")
        else:
            self.failed += 1
            self.failures.append((f"failed: {test['name']} ({build}): {test['result']}", output(test)))

    def miss(self, what, package, build):
        if package in self.gone:
            self.excused += 1
            print(f"left out: {what}, which is no longer in the archive ({build})")
        else:
            self.missing += 1
            print(f"missing: {what} ({build})")

    def add(self, build, complete):
        for test in build.results:
            self.count(test, build.path)
        for what, package in build.missing(complete):
            self.miss(what, package, build.path)

    def tell_failures(self):
        if not self.failures:
            return
        each = min(LINES_EACH, LINES_MAX // len(self.failures))
        for what, lines in self.failures:
            print(what)
            for line in last_words(lines, each) if each >= 4 else []:
                print(f"    | {line[:300]}")

    def is_bad(self):
        return bool(self.failed or self.missing or not self.passed or (self.skipped and os.environ.get("CI")))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--complete", action="store_true", help="all suites and tests had to run")
    parser.add_argument("--gone", metavar="FILE", help="packages that the archive no longer serves, one a line")
    parser.add_argument("build", nargs="+")
    arguments = parser.parse_args()
    gone = []
    if arguments.gone and os.path.exists(arguments.gone):
        with open(arguments.gone, encoding="utf-8") as f:
            gone = f.read().split()
    summary = Summary(gone)
    for path in arguments.build:
        summary.add(Build(path), arguments.complete)
    summary.tell_failures()
    # Missing tests count as failed.
    print(f"{summary.passed} passed, {summary.failed + summary.missing} failed, {summary.skipped} skipped")
    return summary.is_bad()


if __name__ == "__main__":
    sys.exit(main())
