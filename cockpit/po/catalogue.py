#!/usr/bin/python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Converts a catalogue of gettext to the file that Cockpit loads: catalogue.py LANGUAGE.po [manifest.json] >
po.LANGUAGE.js

With the manifest, only the manifest's texts: Cockpit's shell loads them for its menu, as po.manifest.LANGUAGE.js. It
reads only messages of one line without plurals or contexts, which is all that this page's catalogues have."""

import ast
import json
import re
import sys


def read(name):
    with open(name, encoding="utf-8") as f:
        text = f.read()
    pairs = re.findall(r'^msgid (".*")\nmsgstr (".*")$', text, re.M)
    if len(pairs) != len(re.findall(r"^msgid ", text, re.M)):
        raise SystemExit(f"{name}: a message that this does not know")
    return {ast.literal_eval(key): ast.literal_eval(value) for key, value in pairs}


def labels(manifest):
    """All labels of the manifest, at any depth."""
    if isinstance(manifest, dict):
        return {manifest.get("label")}.union(*map(labels, manifest.values()))
    return set().union(*map(labels, manifest)) if isinstance(manifest, list) else set()


def main():
    language = re.fullmatch(r"(?:.*/)?(\w+)\.po", sys.argv[1])[1]
    messages = {key: [None, value] for key, value in read(sys.argv[1]).items() if key and value}
    if len(sys.argv) > 2:
        with open(sys.argv[2], encoding="utf-8") as f:
            said = labels(json.load(f))
        messages = {key: value for key, value in messages.items() if key in said}
    messages[""] = {"language": language, "language-direction": "ltr"}
    sys.stdout.reconfigure(encoding="utf-8")
    print(f"cockpit.locale({json.dumps(messages, ensure_ascii=False, sort_keys=True, indent=1)});")


if __name__ == "__main__":
    main()
