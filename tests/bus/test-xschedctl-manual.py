#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Documentation compared with the programs: --help, manual pages, completions; interface XML, introspection,
org.xsched.Scheduler(5)."""

import os
import re
import subprocess
import unittest
import xml.etree.ElementTree as ET

from harness import DEVICE, XSCHEDCTL, Client, ctl, ctl_json, main

SOURCE_DIR = os.environ["SOURCE_DIR"]
MADE = os.environ["COMPLETION"]
SESSION = os.environ["XSCHED_SESSION"]
QUEUES = os.environ["XSCHED_QUEUES"]
STANDARD = {
    "org.freedesktop.DBus.Peer",
    "org.freedesktop.DBus.Introspectable",
    "org.freedesktop.DBus.Properties",
    "org.freedesktop.DBus.ObjectManager",
}


def read(path):
    with open(os.path.join(SOURCE_DIR, path), encoding="utf-8") as f:
        return f.read()


def read_completion(name):
    """xschedctl's completions are made by the build."""
    if "xschedctl" not in name:
        return read(f"tools/completion/{name}")
    with open(os.path.join(MADE, name.removesuffix(".bash")), encoding="utf-8") as f:
        return f.read()


def help_of(program):
    return subprocess.run([program, "--help"], text=True, capture_output=True, check=True).stdout


def options_of_help(text):
    """{'-x', '--long'}: options of the lines that explain one."""
    return {
        o
        for line in text.splitlines()
        if re.match(r" +-", line)
        for o in re.findall(r"(?<![\w-])(--[a-z-]+|-[a-zA-Z])(?![\w-])", line.split("   ")[0] + line[:28])
    }


def options_of_page(text):
    """Options at the head of a paragraph of the page: *-x*, *--long*=_ARG_."""
    return {
        o
        for line in text.splitlines()
        if re.match(r"\*-", line)
        for o in re.findall(r"\*(--[a-z-]+|-[a-zA-Z])\*", line)
    }


def options_of_bash(text):
    return {
        o.rstrip("=")
        for line in text.splitlines()
        if re.search(r"global\+?=|options\+?=|\]\+?=", line)
        for o in re.findall(r"(?<![\w-])(--[a-z-]+=?|-[a-zA-Z])(?![\w-])", re.sub(r"local -[aA]", "", line))
    }


def options_of_zsh(text):
    found = set(re.findall(r"'(?:\([^)]*\))?(--[a-z-]+)[=\[]", text)) | set(re.findall(r'"(--[a-z-]+)\[', text))
    for group in re.findall(r"\{(-[^}\s]*)\}", text):
        found |= {o.rstrip("=") for o in group.split(",") if re.fullmatch(r"--?[a-zA-Z-]+=?", o)}
    return found


class Manual(unittest.TestCase):
    def test_options(self):
        for program, name in ((XSCHEDCTL, "xschedctl"), (SESSION, "xsched-session"), (QUEUES, "xsched-queues")):
            with self.subTest(name):
                wanted = options_of_help(help_of(program))
                self.assertGreater(len(wanted), 4)
                self.assertEqual(options_of_page(read(f"man/{name}.1.scd")), wanted)
                self.assertEqual(options_of_bash(read_completion(f"{name}.bash")), wanted)
                self.assertEqual(options_of_zsh(read_completion(f"_{name}")), wanted)

    def verbs(self):
        text = help_of(XSCHEDCTL)
        return re.findall(r"^  ([a-z-]+) ", text[text.index("Verbs:") : text.index("TARGET is")], re.M)

    def test_verbs(self):
        verbs = self.verbs()
        self.assertEqual(len(verbs), 29)
        page = read("man/xschedctl.1.scd")
        section = page[page.index("# VERBS") : page.index("# TARGETS")]
        self.assertEqual(re.findall(r"^\*([a-z-]+)\*", section, re.M), verbs)
        bash = re.search(r"verbs='([^']*)'", read_completion("xschedctl.bash"))[1].split()
        self.assertEqual(sorted(bash), sorted(verbs))
        zsh = read_completion("_xschedctl")
        zsh = zsh[zsh.index("verbs=(") : zsh.index("_arguments -C")]
        self.assertEqual(re.findall(r"""^ +['"]([a-z-]+):""", zsh, re.M), verbs)

    def test_every_verb_is_one(self):
        for verb in self.verbs():
            p = subprocess.run(
                [XSCHEDCTL, verb, "--bus-address=unix:path=/nonexistent", "--json=bogus"],
                text=True,
                capture_output=True,
            )
            self.assertNotIn("no such verb", p.stderr)

    def test_keys_of_set(self):
        page = read("man/xschedctl.1.scd")
        page = page[page.index("# SETTINGS") : page.index("# OPTIONS")]
        keys = {k for line in page.splitlines() if line.startswith("*") for k in re.findall(r"\*([a-z]+)\*", line)}
        text = help_of(XSCHEDCTL)
        text = text[text.index("KEY is") : text.index("Options:")]
        self.assertEqual(keys, set(re.findall(r"[a-z]+", text)) - set("is or of a device group".split()))
        bash = re.findall(r"printf '%s=\\n' ([a-z ]+)", read_completion("xschedctl.bash"))
        self.assertEqual(set(" ".join(bash).split()), keys)
        zsh = re.findall(r"compadd -S = ([a-z ]+)", read_completion("_xschedctl"))
        self.assertEqual(set(" ".join(zsh).split()), keys)


def members(interface):
    """{(kind, name): everything that a program depends on}"""
    found = {}
    for element in interface:
        if element.tag not in ("method", "signal", "property"):
            continue
        annotations = {a.get("name"): a.get("value") for a in element.findall("annotation")}
        if annotations.get("org.freedesktop.DBus.Property.EmitsChangedSignal") == "true":
            del annotations["org.freedesktop.DBus.Property.EmitsChangedSignal"]
        arguments = [
            (a.get("name"), a.get("type"), None if element.tag == "signal" else a.get("direction"))
            for a in element.findall("arg")
        ]
        found[element.tag, element.get("name")] = (element.get("type"), element.get("access"), arguments, annotations)
    return found


class Interface(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.maxDiff = None
        tree = ET.fromstring(
            read("dbus/org.xsched.Scheduler.xml"), ET.XMLParser(target=ET.TreeBuilder(insert_comments=True))
        )
        cls.written = {i.get("name"): i for i in tree.findall("interface")}

    def introspect(self, path):
        text = subprocess.check_output(
            [
                "dbus-send",
                f'--bus={os.environ["XSCHED_BUS_ADDRESS"]}',
                "--print-reply=literal",
                "--dest=org.xsched.Scheduler",
                path,
                "org.freedesktop.DBus.Introspectable.Introspect",
            ],
            text=True,
        )
        return {i.get("name"): i for i in ET.fromstring(text[text.index("<node") :]).findall("interface")}

    def test_running_service_is_what_is_written(self):
        with Client() as c:
            row = c.row()
            queue = next(q["queue"] for q in ctl_json("list-queues") if q["pid"] == c.pid)
            paths = subprocess.check_output(
                [
                    "dbus-send",
                    f'--bus={os.environ["XSCHED_BUS_ADDRESS"]}',
                    "--print-reply",
                    "--dest=org.xsched.Scheduler",
                    "/org/xsched/Scheduler",
                    "org.freedesktop.DBus.ObjectManager.GetManagedObjects",
                ],
                text=True,
            )
            paths = re.findall(r'object path "([^"]+)"', paths)
            of = {
                "org.xsched.Scheduler": "/org/xsched/Scheduler",
                "org.xsched.Scheduler.Client": f'/org/xsched/Scheduler/client/{row["client"]}',
                "org.xsched.Scheduler.Queue": f"/org/xsched/Scheduler/queue/{queue}",
                "org.xsched.Scheduler.Device": next(p for p in paths if p.startswith("/org/xsched/Scheduler/device/")),
                "org.xsched.Scheduler.Group": next(p for p in paths if p.startswith("/org/xsched/Scheduler/group/")),
            }
            self.assertEqual(set(of), set(self.written))
            for name, path in of.items():
                with self.subTest(name):
                    running = self.introspect(path)
                    self.assertEqual(set(running) - STANDARD, {name})
                    self.assertEqual(members(running[name]), members(self.written[name]))

    def test_every_member_is_documented(self):
        for name, interface in self.written.items():
            children = list(interface)
            for before, element in zip([None, *children], children):
                if element.tag in ("method", "signal", "property"):
                    self.assertTrue(
                        before is not None and before.tag is ET.Comment and len(before.text) > 5,
                        f'{name}.{element.get("name")} has no comment of its own',
                    )
                for argument in (
                    re.findall(r"@(\w+):", before.text or "") if before is not None and before.tag is ET.Comment else ()
                ):
                    self.assertIn(argument, [a.get("name") for a in element.findall("arg")], element.get("name"))

    def test_page_has_every_member(self):
        with open(os.environ["BUS_PAGE"], encoding="utf-8") as f:
            page = f.read().replace("\\", "")
        sections = re.split(r"^# (.*)$", page, flags=re.M)
        sections = dict(zip(sections[1::2], sections[2::2]))
        for name, interface in self.written.items():
            heads = re.findall(r"^\*(\w+)\*\s*(\(.*)$", sections[name], re.M)
            self.assertEqual(
                sorted(h for h, _ in heads), sorted(e.get("name") for e in interface if isinstance(e.tag, str))
            )
            for element in interface:
                if not isinstance(element.tag, str):
                    continue
                head = next(rest for h, rest in heads if h == element.get("name"))
                for argument in element.findall("arg"):
                    self.assertIn(f'{argument.get("type")} _{argument.get("name")}_', head)
                if element.tag == "property":
                    self.assertIn(
                        f'({element.get("type")}, read {"only" if element.get("access") == "read" else "and write"}',
                        head,
                    )

    def test_page_has_every_error(self):
        head = read("dbus/org.xsched.Scheduler.xml")
        head = head[: head.index("<node")]
        errors = set(re.search(r"Scheduler\.Error\.\{([^}]*)\}", head)[1].replace(",", " ").split())
        used = set()
        for folder, _, files in os.walk(os.path.join(SOURCE_DIR, "service")):
            for file in files:
                if file.endswith((".c", ".h")):
                    used |= set(re.findall(r'BUS_ERROR\("(\w+)"\)', read(os.path.join(folder, file))))
        self.assertEqual(used - errors, set())
        page = read("man/org.xsched.Scheduler.5.scd")
        page = page[page.index("# ERRORS") : page.index("# FILES")]
        self.assertEqual(
            {e.split(".")[-1] for e in re.findall(r"\*([\w.]+)\*", page) if "freedesktop" not in e}, errors
        )


if __name__ == "__main__":
    main(unittest)
