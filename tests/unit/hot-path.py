#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Counts the stops of the hot path: hot-path.py [--list]

A stop is a function of service/ or policy/ that runs between the ready edge of a client and the verdict that holds
another one. Inline functions of headers are not counted. The program hot-path is built without optimisation in a folder
of its own, which takes some minutes."""

import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
ARGUMENTS = ["--buildtype=debug", "-Doptimization=0", "-Dc_args=-finstrument-functions"]
INLINE = re.compile(r"^static inline [^(;{]*?(\w+)\(", re.MULTILINE)


def lines(*command):
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout.splitlines()


def stops():
    """Yields (function, file) in the order of the calls."""
    inline = {name for h in ROOT.glob("**/*.h") for name in INLINE.findall(h.read_text())}
    with tempfile.TemporaryDirectory() as build:
        subprocess.run(["meson", "setup", build, ROOT, *ARGUMENTS], check=True, stdout=sys.stderr)
        subprocess.run(["ninja", "-C", build, "tests/unit/hot-path"], check=True, stdout=sys.stderr)
        program = build + "/tests/unit/hot-path"
        found = lines("addr2line", "-f", "-e", program, *lines(program))
        for function, place in zip(found[::2], found[1::2]):
            file = (Path(build) / place.partition(":")[0]).resolve()
            if function not in inline and file.is_relative_to(ROOT):
                yield function, str(file.relative_to(ROOT))


def main():
    found = [s for s in dict.fromkeys(stops()) if s[1].startswith(("service/", "policy/"))]
    if "--list" in sys.argv:
        print("\n".join(f"{file}:{function}" for function, file in found))
    for room in ("service/", "policy/"):
        files = [file for _, file in found if file.startswith(room)]
        print(f"{room}: {len(files)} stops in {len(set(files))} files")


if __name__ == "__main__":
    main()
