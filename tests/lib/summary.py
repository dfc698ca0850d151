#!/usr/bin/python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Counts what "meson test" did: summary.py BUILD-DIR...

Names every test that failed or was skipped, and closes with "N passed, N failed, N skipped". Exits with 1 when a test failed,
when none ran, or, with CI set in the environment, when one was skipped.
"""

import json
import os
import sys

PASSED = {"OK", "EXPECTEDFAIL"}
SKIPPED = {"SKIP"}


def results(build):
    path = os.path.join(build, "meson-logs", "testlog.json")
    with open(path, encoding="utf-8") as log:
        for line in log:
            yield json.loads(line)


def main():
    passed = failed = skipped = 0
    for build in sys.argv[1:]:
        for test in results(build):
            if test["result"] in PASSED:
                passed += 1
            elif test["result"] in SKIPPED:
                skipped += 1
                print(f"skipped: {test['name']} ({build})")
            else:
                failed += 1
                print(f"failed: {test['name']} ({build}): {test['result']}")
    print(f"{passed} passed, {failed} failed, {skipped} skipped")
    return bool(failed or not passed or (skipped and os.environ.get("CI")))


if __name__ == "__main__":
    sys.exit(main())
