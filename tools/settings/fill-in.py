#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""fill-in.py SETTING-LIST TEMPLATE: prints the template, with the settings filled in.

SETTING-LIST is the program of that name, which prints the service's own table of settings. A template may contain
@SETTINGS_TABLE@ (scdoc), @SETTING_KEYS@, @SETTING_ATTRIBUTES@ and @SETTING_VARIABLES@ (lists for a manual page),
@SETTINGS_OF_ANYBODY@ and @SETTINGS_OF_GROUPS@ (words for a shell).
"""

import re
import subprocess
import sys
from collections import namedtuple

Setting = namedtuple("Setting", "name word whose range default lower from_above")
HEAD = ("*key*", "*of*", "*a value is*", "*default*", "*lower is*", "*slices hand it down*")
WHOSE = {"anybody": "groups, clients, queues", "groups": "groups"}


def in_words(items):
    """Returns the items as "a, b and c", one a line: scdoc joins lines."""
    return ",\n  ".join(items[:-1]) + "\n  and " + items[-1]


def table(settings):
    rows = [HEAD] + [
        (f"_{s.name}=_", WHOSE[s.whose], s.range.replace("_", r"\_"), f"_{s.default}_", s.lower, s.from_above)
        for s in settings
    ]
    lines = []
    for i, row in enumerate(rows):
        first, other = ("[[", ":[") if i == 0 else ("| ", ": ")
        lines += [f"{first} {row[0]}"] + [f"{other} {cell}" for cell in row[1:]]
    return "\n".join(lines)


def main(program, template):
    text = subprocess.run([program], text=True, capture_output=True, check=True).stdout
    settings = [Setting(*line.split("\t")) for line in text.splitlines()]
    values = {
        "SETTINGS_TABLE": table(settings),
        "SETTING_KEYS": in_words([f"_{s.name}=_" for s in settings]),
        "SETTING_ATTRIBUTES": in_words([f"_user.xsched.{s.word}_" for s in settings]),
        "SETTING_VARIABLES": in_words([f"_XSCHED\\_{s.name.upper()}_" for s in settings]),
        "SETTINGS_OF_ANYBODY": " ".join(s.word for s in settings if s.whose == "anybody"),
        "SETTINGS_OF_GROUPS": " ".join(s.word for s in settings if s.whose == "groups"),
    }
    with open(template, encoding="utf-8") as f:
        print(re.sub(r"@([A-Z_]+)@", lambda m: values[m[1]], f.read()), end="")


if __name__ == "__main__":
    main(*sys.argv[1:])
