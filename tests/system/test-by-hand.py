# SPDX-License-Identifier: LGPL-2.1-or-later
"""The commands of README that install a build: after them the service starts at the first attempt."""

import os
import re
import unittest

import inside
from inside import NAME, journal, run, show


def commands():
    """The paragraph's commands, each with its prompt: '#' for root, '$' for a user."""
    with open("/mnt/source/README.md", encoding="utf-8") as f:
        paragraph = re.search(r"\nor from the build, .*?\n\n((?:    .*\n)+)", f.read())[1]
    return [(line.split()[0], line.split(None, 1)[1]) for line in paragraph.splitlines()]


class ByHand(unittest.TestCase):
    def test_installed_it_runs(self):
        self.assertFalse(os.path.exists("/usr/libexec/xschedd"))
        build, *then = commands()
        self.assertIn("meson install", build[1])
        # The build exists already. Unpacking it does what its "meson install" would do.
        run("/bin/sh", "-c", "tar -C /mnt/build/by-hand -c . | tar -C / -x --keep-directory-symlink")
        for _, command in then:
            said = run("/bin/bash", "-ec", command)
        self.assertIn("/org/xsched/Scheduler", said)
        self.assertEqual(
            (show("xsched", "ActiveState"), show("xsched", "NRestarts")), ("active", "0"), inside.log_tail()
        )
        self.assertEqual([m["MESSAGE"] for m in journal("-p", "err", "_SYSTEMD_UNIT=xsched.service")], [])
        self.assertEqual(run("xschedctl", "--no-legend", "list-clients"), "")
        self.assertIn(NAME, run("busctl", "--acquired", "list"))


if __name__ == "__main__":
    inside.main()
