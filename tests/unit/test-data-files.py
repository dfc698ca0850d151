#!/usr/bin/python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Files that are not code agree with the code, and with each other: test-data-files.py SOURCE-DIR BUILD-DIR

These are: manual pages; message ids and catalog; polkit actions; bus policy and interface; unit and activation file.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree as ET
from pathlib import Path

SOURCE, BUILD = Path(sys.argv[1]), Path(sys.argv[2])


def lacks(tool):
    """Returns whether to skip a test because a tool is missing. In CI the test is not skipped, and fails without it."""
    return not shutil.which(tool) and not os.environ.get("CI")


def read(name):
    return (SOURCE / name).read_text(encoding="utf-8")


def message_ids():
    pairs = re.findall(r'#define (MESSAGE_\w+)[\s\\]+"(\w+)"', read("service/base/messages.h"))
    assert len(pairs) >= 15
    return dict(pairs)


def catalog():
    """Returns {id: (subject, whole entry)}."""
    entries = {}
    for entry in re.split(r"^-- ", read("units/xsched.catalog"), flags=re.M)[1:]:
        ident, rest = entry.split("\n", 1)
        assert ident not in entries, f"{ident} is in the catalog twice"
        entries[ident] = (re.search(r"^Subject: (.+)$", rest, re.M).group(1), rest)
    return entries


class ManualPages(unittest.TestCase):
    def setUp(self):
        if lacks("groff"):
            self.skipTest("there is no groff")

    def test_terminal(self):
        """On a terminal of 80 columns no word of a table is wider than its column, as groff would tell readers."""
        pages = sorted(p for p in (BUILD / "man").iterdir() if re.fullmatch(r".*\.[1-8]", p.name))
        self.assertGreater(len(pages), 10)
        for page in pages:
            command = ["groff", "-K", "utf8", "-t", "-man", "-Tutf8", "-rLL=78n", "-ww", "-z", page]
            told = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=True)
            self.assertNotIn("can't break line", told.stdout, page.name)


class PageForCockpit(unittest.TestCase):
    def test_catalogues_are_complete(self):
        """Each catalogue has exactly the texts of the page, and each translation has the placeholders of its text."""
        code = "".join(f.read_text(encoding="utf-8") for f in sorted((SOURCE / "cockpit").glob("*.js")))
        said = set(re.findall(r'\b_\(\s*"([^"\\]*)"', code))
        self.assertEqual(
            len(re.findall(r"\b_\(", code)), len(re.findall(r'\b_\(\s*"[^"\\]*"\s*\)', code)), "_() without a literal"
        )
        self.assertGreater(len(said), 100)
        self.assertEqual(len(re.findall(r"\bgettext\b", code)), 1, "gettext() is called outside of _()")
        for catalogue in sorted((SOURCE / "cockpit/po").glob("*.po")):
            pairs = dict(re.findall(r'^msgid "(.+)"\nmsgstr "(.+)"$', catalogue.read_text(encoding="utf-8"), re.M))
            self.assertEqual(set(pairs), said, catalogue.name)
            for text, translation in pairs.items():
                self.assertEqual(sorted(re.findall(r"\$\d", text)), sorted(re.findall(r"\$\d", translation)), text)

    def test_no_inline_code(self):
        page = read("cockpit/index.html")
        self.assertEqual(re.findall(r"<script(?![^>]* src=)", page), [])
        self.assertNotRegex(page, r"<style|\son\w+=|style=|javascript:")
        for f in sorted((SOURCE / "cockpit").glob("*.js")):
            text = f.read_text(encoding="utf-8")
            self.assertNotRegex(
                text, r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\b|new Function", f.name
            )

    def test_one_look(self):
        """The page, `xschedctl plot` and the demo have the same colours."""
        look = dict(re.findall(r'#define (PICTURE_\w+) +"(#[0-9a-f]+)"', read("common/picture.h")))
        css = read("cockpit/xsched.css")
        for i in range(8):
            self.assertIn(f"--series-{i}: {look[f'PICTURE_SERIES_{i}']};", css)
        self.assertIn(f"--grid: {look['PICTURE_GRID']};", css)
        for name in ("tools/xschedctl/plot-svg.c", "tools/demo/plot.c"):
            self.assertIn('#include "common/picture.h"', read(name))
            self.assertEqual(re.findall(r"#[0-9a-f]{6}\b", read(name)), [], name)


class Messages(unittest.TestCase):
    def test_ids_are_ids(self):
        ids = message_ids()
        for name, ident in ids.items():
            self.assertRegex(ident, r"^[0-9a-f]{32}$", name)
        self.assertEqual(len(set(ids.values())), len(ids))

    def test_catalog(self):
        entries = catalog()
        self.assertEqual(set(message_ids().values()), set(entries))
        for ident, (subject, entry) in entries.items():
            self.assertIn("Defined-By: xsched", entry, ident)
            self.assertGreater(len(entry.split("\n\n", 1)[1].strip()), 40, f"{ident} is not explained")

    def test_catalog_fields_exist(self):
        sent = set(re.findall(r'"([A-Z_]{4,})(?:=%[a-z])?"', read("service/base/log.c")))
        for ident, (subject, entry) in catalog().items():
            self.assertLessEqual(set(re.findall(r"@([A-Z_]+)@", entry)), sent, ident)

    def test_manual_page(self):
        self.assertEqual(
            set(re.findall(r"^([0-9a-f]{32})$", read("man/xschedd.8.scd"), re.M)), set(message_ids().values())
        )

    def test_every_message_is_sent(self):
        code = "".join(f.read_text(encoding="utf-8") for f in (SOURCE / "service").rglob("*.c"))
        for name in message_ids():
            self.assertRegex(code, rf"\b{name}\b", f"{name} is never sent")

    @unittest.skipIf(lacks("journalctl"), "no journalctl")
    def test_journalctl_reads_the_catalog(self):
        with tempfile.TemporaryDirectory() as root:
            where = Path(root, "usr/lib/systemd/catalog")
            where.mkdir(parents=True)
            Path(root, "var/lib/systemd/catalog").mkdir(parents=True)
            shutil.copy(SOURCE / "units/xsched.catalog", where)
            subprocess.run(["journalctl", f"--root={root}", "--update-catalog"], check=True)
            listed = subprocess.run(
                ["journalctl", f"--root={root}", "--list-catalog"], check=True, capture_output=True, text=True
            ).stdout
        for ident, (subject, _) in catalog().items():
            self.assertIn(f"{ident} xsched: {subject}", listed)


class Polkit(unittest.TestCase):
    def test_actions(self):
        root = ET.fromstring(read("dbus/org.xsched.policy"))
        actions = {a.get("id"): a for a in root.findall("action")}
        in_code = set(re.findall(r'\[AUTH_\w+\] = "([\w.-]+)"', read("service/base/auth-table.c")))
        self.assertEqual(set(actions), in_code)
        in_page = set(re.findall(r"^_(org\.xsched\.[a-z-]+)_$", read("man/xschedd.8.scd"), re.M))
        self.assertEqual(set(actions), in_page)

        free = {"org.xsched.register", "org.xsched.manage-own"}
        for name, action in actions.items():
            for child in ("description", "message"):
                self.assertTrue(action.findtext(child), name)
            defaults = {d.tag: d.text for d in action.find("defaults")}
            self.assertEqual(set(defaults), {"allow_any", "allow_inactive", "allow_active"}, name)
            for value in defaults.values():
                self.assertEqual(value == "yes", name in free, name)
                self.assertIn(value, ("yes", "auth_admin", "auth_admin_keep"), name)
            # Without an owner, polkit refuses to answer a service that is not root.
            owners = [a.text for a in action.findall("annotate") if a.get("key") == "org.freedesktop.policykit.owner"]
            self.assertEqual(owners, ["unix-user:xsched"], name)


class Bus(unittest.TestCase):
    def test_everybody_may_call(self):
        """Everybody may call the service, but without descriptors: no call takes one."""
        policy = ET.fromstring(read("dbus/org.xsched.Scheduler.conf"))
        default = [p for p in policy.findall("policy") if p.get("context") == "default"]
        self.assertEqual(len(default), 1)
        to = {"send_destination": "org.xsched.Scheduler"}
        self.assertEqual(
            [(a.tag, a.attrib) for a in default[0]],
            [("allow", to), ("deny", {**to, "min_fds": "1"}), ("allow", {"receive_sender": to["send_destination"]})],
        )
        methods = list(ET.fromstring(read("dbus/org.xsched.Scheduler.xml")).iter("method"))
        self.assertGreater(len(methods), 20)
        taken = [(m.get("name"), a) for m in methods for a in m.findall("arg") if a.get("direction") == "in"]
        self.assertEqual([name for name, a in taken if "h" in a.get("type")], [])

    def test_only_two_users_own_the_name(self):
        policy = ET.fromstring(read("dbus/org.xsched.Scheduler.conf"))
        owners = {p.get("user") for p in policy.findall("policy") for a in p.findall("allow") if a.get("own")}
        self.assertEqual(owners, {"root", "xsched"})

    def test_activation(self):
        service = read("dbus/org.xsched.Scheduler.service")
        unit = (BUILD / "units/xsched.service").read_text(encoding="utf-8")
        alias = re.search(r"^SystemdService=(.*)$", service, re.M).group(1)
        self.assertRegex(unit, rf"(?m)^Alias={re.escape(alias)}$")
        name = re.search(r"^Name=(.*)$", service, re.M).group(1)
        self.assertRegex(unit, rf"(?m)^BusName={re.escape(name)}$")
        user = re.search(r"^User=(.*)$", unit, re.M).group(1)
        self.assertRegex(read("units/xsched.sysusers"), rf"(?m)^u {user} ")


@unittest.skipIf(lacks("systemd-analyze"), "no systemd-analyze")
class Unit(unittest.TestCase):
    def test_hardening(self):
        subprocess.run(
            [
                "systemd-analyze",
                "security",
                "--no-pager",
                "--offline=true",
                "--threshold=10",
                BUILD / "units/xsched.service",
            ],
            check=True,
            stdout=subprocess.DEVNULL,
        )

    def verify(self, drop_in=""):
        def built(text):
            return re.sub(r"(?m)^(Exec(?:Start|StopPost)=-?)/\S+/(xsched\S+)", rf"\1{BUILD}/service/\2", text)

        with tempfile.TemporaryDirectory() as tmp:
            unit = (BUILD / "units/xsched.service").read_text(encoding="utf-8")
            path = Path(tmp, "xsched.service")
            path.write_text(built(re.sub(r"(?m)^Documentation=.*\n", "", unit)), encoding="utf-8")
            if drop_in:
                Path(tmp, "xsched.service.d").mkdir()
                Path(tmp, "xsched.service.d/50-privileged.conf").write_text(built(drop_in), encoding="utf-8")
            result = subprocess.run(
                ["systemd-analyze", "verify", "--man=no", "--recursive-errors=no", path], capture_output=True, text=True
            )
            self.assertEqual((result.returncode, result.stderr), (0, ""))

    def test_verify(self):
        self.verify()

    def test_verify_cpu_latency(self):
        drop_in = read("units/examples/cpu-latency.conf")
        self.verify(drop_in)
        path = re.search(r"(?m)^BindPaths=-(/dev/\S+)$", drop_in)[1]
        self.assertIn(f'"{path}"', read("service/base/cpu-latency.c"))
        self.assertIn(f"DeviceAllow={path} w", drop_in)

    def test_verify_privileged(self):
        drop_in = (BUILD / "units/examples/privileged.conf").read_text(encoding="utf-8")
        self.verify(drop_in)
        self.verify(re.sub(r"(?m)^#(\w+=)", r"\1", drop_in))  # with the lines that only mode debug needs
        capabilities = re.findall(r"(?m)^AmbientCapabilities=(\w+)$", drop_in)
        self.assertEqual(capabilities, ["CAP_SYS_PTRACE", "CAP_CHECKPOINT_RESTORE"])
        for name in capabilities:
            self.assertIn(name, read("man/xschedd.8.scd"))
        self.assertIn(" undo /run/xschedd/holds", drop_in)
        self.assertIn('"/run/xschedd"', read("service/enforce/privileged.c"))


class Layers(unittest.TestCase):
    """A layer exports nothing but functions of runtimes and of libc: a library in LD_PRELOAD comes before a program's
    own functions of the same names."""

    OF_RUNTIMES = re.compile(r"(hsa|xsched)_\w+|(cl|cu|hip)[A-Z]\w+")
    OF_LIBC = set(
        """__open64_2 __open_2 __openat64_2 __openat_2 close close_range closefrom dlclose dlsym dup dup2 dup3
        fcntl fcntl64 ioctl open open64 openat openat64""".split()
    )

    def test_names(self):
        by_link = {"libxsched-compat.so", "libxsched-hsa.so"}
        layers = [f for f in (BUILD / "shim").glob("libxsched-*.so") if f.name not in by_link]
        self.assertTrue(layers)
        for layer in layers:
            command = ["nm", "-D", "--defined-only", layer]
            listed = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
            names = {line.split()[-1].split("@")[0] for line in listed.stdout.splitlines()}
            sanitizers = ("__asan", "__odr_asan", "__tsan", "__ubsan")
            others = {n for n in names - self.OF_LIBC if not self.OF_RUNTIMES.fullmatch(n)}
            others = {n for n in others if not n.startswith(sanitizers)}
            self.assertEqual(others, set(), f"{layer.name} would replace a program's own functions")


# Files whose lines cannot be broken, or are not written by hand.
LONG_LINES = (
    (r"BENCHMARKS\.md|tests/bench/results/.*", "generated from measurements"),
    (r"tests/cuda/recorded-.*\.jsonl", "answers of a driver, one a line, as they were recorded"),
    (r"tests/fuzz/corpus-.*|tests/unit/abi/.*|tests/unit/kubernetes/.*\.json", "input of tests, written by tools"),
    (r"units/prometheus/.*\.json", "JSON, whose strings cannot be broken"),
    (r"dbus/.*\.policy", "messages to users, which are shown with their line breaks"),
    (r"cockpit/po/.*\.po", "a text of the page on one line, and its translation on the next"),
    (r"units/examples/host\.conf\.in", "one assignment of system.conf, as an administrator copies it"),
    (r"debian/copyright|LICENSE", "texts of others"),
)


class Style(unittest.TestCase):
    def files(self):
        """Yields (name, lines) of each text file of the tree."""
        listed = subprocess.run(
            ["git", "-c", "safe.directory=*", "-C", SOURCE, "ls-files", "-z"], capture_output=True, check=False
        ).stdout
        names = [n.decode() for n in listed.split(b"\0") if n]
        if not names:  # no clone, or no git
            for folder, below, files in os.walk(SOURCE):
                below[:] = [b for b in below if not b.startswith((".git", "build", "demo-out", "__pycache__"))]
                names += [os.path.relpath(os.path.join(folder, f), SOURCE) for f in files]
        self.assertGreater(len(names), 500)
        for name in names:
            path = SOURCE / name
            if path.is_symlink() or not path.is_file():
                continue
            data = path.read_bytes()
            if b"\0" not in data:
                yield name, data.decode("utf-8", errors="replace").split("\n")

    def test_lines(self):
        """No line is longer than 120 columns, except in LONG_LINES and in rows of Markdown's tables."""
        found = []
        for name, lines in self.files():
            if any(re.fullmatch(pattern, name) for pattern, _ in LONG_LINES):
                continue
            found += [
                f"{name}:{n}: {len(line)} columns"
                for n, line in enumerate(lines, 1)
                if len(line) > 120 and not (name.endswith(".md") and line.startswith("|"))
            ]
        self.assertEqual(found, [])

    def test_files(self):
        """A source file is about one noun, and has 600 lines at most."""
        sizes = {name: len(lines) - 1 for name, lines in self.files() if name.endswith((".c", ".h", ".py", ".js"))}
        self.assertEqual({name: n for name, n in sizes.items() if n > 600}, {})


if __name__ == "__main__":
    os.environ["SYSTEMD_COLORS"] = "0"
    unittest.main(argv=sys.argv[:1], verbosity=2)
