#!/usr/bin/python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""The binary interface of the public libraries is the recorded one.

    test-abi.py HEADERS BASELINES LIBRARY...            compares each library with BASELINES/NAME.abi
    test-abi.py --renew HEADERS BASELINES LIBRARY...    records the interfaces anew, after an intended change

A change that breaks programs that were linked before also needs another soname and another version of the symbols."""

import os
import re
import subprocess
import sys
import tempfile
import unittest

RENEW = "--renew" in sys.argv
HEADERS, BASELINES, *LIBRARIES = [a for a in sys.argv[1:] if a != "--renew"]

# Only what the public headers declare, and nothing that depends on the build directory.
ABIDW = ["abidw", "--headers-dir", HEADERS, "--drop-private-types", "--exported-interfaces-only", "--no-elf-needed"]
ABIDW += ["--no-show-locs", "--no-corpus-path", "--no-comp-dir-path"]
INCOMPATIBLE = 8  # abidiff(1): bits of its exit status
ERRORS = 1 | 2


def baseline(library):
    return os.path.join(BASELINES, os.path.basename(library).split(".so")[0] + ".abi")


def write_abi(library, path):
    subprocess.run([*ABIDW, "--out-file", path, library], check=True)


def abidiff(old, new):
    done = subprocess.run(["abidiff", "--no-show-locs", old, new], stdout=subprocess.PIPE, text=True)
    if done.returncode & ERRORS:
        raise RuntimeError(f"abidiff: exit status {done.returncode}: {done.stdout}")
    return done.returncode, done.stdout


class Abi(unittest.TestCase):
    def setUp(self):
        where = tempfile.TemporaryDirectory(prefix="xsched-abi-")
        self.addCleanup(where.cleanup)
        self.now = os.path.join(where.name, "now.abi")
        self.other = os.path.join(where.name, "other.abi")

    def test_is_the_recorded_one(self):
        for library in LIBRARIES:
            write_abi(library, self.now)
            differs, said = abidiff(baseline(library), self.now)
            if differs:
                what = "breaks programs that were linked before" if differs & INCOMPATIBLE else "has changed"
                self.fail(
                    f"the binary interface of {os.path.basename(library)} {what}:\n{said}\n"
                    "If this is intended, run ninja -C build abi-renew, and commit tests/unit/abi."
                )

    def alter(self, pattern, by):
        """Alters one thing in each library's baseline, and yields abidiff's result for it."""
        for library in LIBRARIES:
            with open(baseline(library), encoding="utf-8") as f:
                text = f.read()
            altered, n = re.subn(pattern, by, text, count=1)
            self.assertEqual(n, 1, f"{library}: nothing to alter")
            with open(self.other, "w", encoding="utf-8") as f:
                f.write(altered)
            yield abidiff(self.other, baseline(library))

    def test_a_symbol_that_is_gone_is_seen(self):
        for library in LIBRARIES:
            with open(baseline(library), encoding="utf-8") as f:
                text = f.read()
            name = re.search(r"<elf-symbol name='(\w+)'", text)[1]
            # The altered baseline has another name in its place, which the library lacks.
            more = text.replace(f"name='{name}'", f"name='{name}_more'").replace(f"'{name}@", f"'{name}_more@")
            with open(self.other, "w", encoding="utf-8") as f:
                f.write(more)
            differs, said = abidiff(self.other, baseline(library))
            self.assertTrue(differs & INCOMPATIBLE, said)
            self.assertIn(f"{name}_more", said)

    def test_a_type_of_another_size_is_seen(self):
        for differs, said in self.alter(r"(<type-decl name='(?:unsigned )?int' size-in-bits=)'32'", r"\1'64'"):
            self.assertTrue(differs, said)


if __name__ == "__main__":
    if RENEW:
        for path in LIBRARIES:
            write_abi(path, baseline(path))
    else:
        unittest.main(argv=sys.argv[:1], verbosity=2)
