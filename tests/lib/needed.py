#!/usr/bin/python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Targets that tests need: needed.py BUILD-DIR [MESON-TEST-ARGUMENT...]

Prints the targets of ninja, one a line: the programs that the tests depend on, and all generated files, which tests
read without declaring it."""

import json
import os
import subprocess
import sys


def meson(*arguments):
    return subprocess.run(["meson", *arguments], check=True, stdout=subprocess.PIPE, text=True).stdout


def main():
    build, arguments = sys.argv[1], sys.argv[2:]
    # "xsched:kfdsim+kfdsim-shim / name"
    names = {line.split(" / ")[-1] for line in meson("test", "-C", build, "--list", *arguments).splitlines()}
    targets = json.loads(meson("introspect", "--targets", build))
    outputs = {t["id"]: t["filename"] for t in targets}
    tests = [t for t in json.loads(meson("introspect", "--tests", build)) if t["name"] in names]
    needed = {d for t in tests for d in t["depends"]}
    needed |= {t["id"] for t in targets if t["build_by_default"] and (t["type"] == "custom" or t["installed"])}
    for f in sorted({f for t in needed for f in outputs[t]}):
        print(os.path.relpath(f, os.path.realpath(build)))


if __name__ == "__main__":
    main()
