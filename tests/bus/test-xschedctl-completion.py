#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Completion in bash and zsh, as the shell itself asks for it, against a real service."""

import os
import shutil
import subprocess
import tempfile
import unittest

from harness import DEADLINE, DEVICE, XSCHEDCTL, Client, environment, main

# xschedctl's completions are made by the build, in its build folder.
COMPLETION = os.path.join(os.environ["SOURCE_DIR"], "tools/completion")
MADE = os.environ["COMPLETION"]


def completion(name):
    return os.path.join(MADE if "xschedctl" in name else COMPLETION, name)


def of_bash(program):
    return completion(program if program == "xschedctl" else program + ".bash")


PATH = os.path.dirname(XSCHEDCTL) + ":" + os.environ["PATH"]

# Splits the line into words as readline does, at COMP_WORDBREAKS, and calls the registered function.
BASH = r"""
source "$1"
line=$2
read -r _ _ function _ < <(complete -p "${line%% *}" | sed 's/complete //')
mapfile -t COMP_WORDS < <(grep -oE '[:=]|[^[:space:]:=]+' <<<"$line")
[[ $line == *[[:space:]] ]] && COMP_WORDS+=('')
COMP_LINE=$line COMP_POINT=${#line} COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
function=$(complete -p "${line%% *}" | grep -oP '(?<=-F )\S+')
$function
printf '%s\n' "${COMPREPLY[@]}"
"""

# Runs a shell on a pseudo terminal with the line and a key. Returns the arguments of compadd.
ZSH = r"""
zmodload zsh/zpty
zpty z zsh -f -i
zpty -w z "PS1=; fpath=(${(qq)1} \$fpath); autoload -Uz compinit; compinit -u -D"
zpty -w z 'compadd() {
        local -a __hits
        if [[ ${@[1,(i)(-|--)]} != *-(O|A|D)\ * ]]; then
                builtin compadd -A __hits "$@"
                print -lr -- "HIT:"$^__hits
        fi
        builtin compadd "$@"
}'
zpty -w z 'tell() { zle complete-word; print -r -- "END:"; zle kill-whole-line }; zle -N tell; bindkey "^T" tell'
zpty -w z 'print READY${:-:}'
zpty -r z out '*READY:*'
zpty -w -n z "$2"$'\x14'
zpty -r z out '*END:*'
print -r -- "$out" | tr -d '\r' | grep -o 'HIT:.*' | sed 's/^HIT://'
zpty -d z
"""


class Bash(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.client = Client(queues=1, prefix=(XSCHEDCTL, "run", "--name=done", "--"))
        cls.id = cls.client.row()["client"]
        cls.group = cls.client.row()["group"]

    @classmethod
    def tearDownClass(cls):
        cls.client.end()

    def complete(self, line, cwd=None, **changes):
        p = subprocess.run(
            ["bash", "--norc", "-c", BASH, "bash", of_bash(line.split()[0]), line],
            text=True,
            cwd=cwd,
            env=environment(**{"PATH": PATH, **changes}),
            capture_output=True,
            stdin=subprocess.DEVNULL,
            timeout=DEADLINE,
        )
        self.assertEqual((p.returncode, p.stderr), (0, ""))
        return set(p.stdout.split("\n")) - {""}

    def test_verbs(self):
        self.assertEqual(
            self.complete("xschedctl list-"),
            {
                "list-devices",
                "list-groups",
                "list-clients",
                "list-queues",
                "list-policies",
                "list-classes",
                "list-holds",
                "list-settings",
            },
        )
        self.assertEqual(self.complete("xschedctl --no-pager rel"), {"reload"})
        self.assertEqual(self.complete("xschedctl --bus-address x res"), {"reset", "resume"})
        self.assertEqual(self.complete("xschedctl -H x --user --machine y res"), {"reset", "resume"})
        self.assertIn(".host", self.complete("xschedctl --machine="))

    def test_options(self):
        self.assertEqual(self.complete("xschedctl run --pri"), {"--priority="})
        self.assertEqual(self.complete("xschedctl list-clients --pri"), set())
        self.assertIn("--delay=", self.complete("xschedctl top --"))
        self.assertEqual(self.complete("xschedctl --js"), {"--json="})
        # bash splits "--json=" into words of its own.
        self.assertEqual(self.complete("xschedctl --json="), {"short", "pretty", "off"})
        self.assertEqual(self.complete("xschedctl --json=s"), {"short"})
        self.assertEqual(self.complete("xschedctl --json p"), {"pretty"})
        self.assertEqual(self.complete("xschedctl run --class=ba"), {"batch"})

    def test_targets(self):
        self.assertLessEqual(
            {f"client:{self.id}", f"device:{DEVICE}", "device:all", self.group}, self.complete("xschedctl show ")
        )
        self.assertEqual(self.complete("xschedctl show client:"), {str(self.id)})
        self.assertEqual(self.complete("xschedctl suspend device:a"), {"all"})
        self.assertIn(self.group, self.complete("xschedctl status "))
        self.assertEqual(self.complete(f"xschedctl set {self.group[:6]}"), {self.group.split(":", 2)[2]})
        self.assertIn(str(self.client.pid), self.complete("xschedctl explain "))
        self.assertEqual(self.complete(f"xschedctl check {self.client.pid} "), set())

    def test_settings(self):
        self.assertEqual(
            self.complete("xschedctl set client:1 "),
            {
                "class=",
                "priority=",
                "weight=",
                "threshold=",
                "preemption=",
                "gang=",
                "deadline=",
                "laxity=",
                "critical=",
                "utilization=",
                "active=",
            },
        )
        self.assertIn("timeslice=", self.complete(f"xschedctl set device:{DEVICE} "))
        self.assertEqual(self.complete("xschedctl set client:1 class=bat"), {"batch"})
        self.assertLessEqual({"tree", "hpf", "kedf", "cfs"}, self.complete("xschedctl set device:all policy="))
        self.assertEqual(self.complete("xschedctl set device:all policy=tr"), {"tree"})
        self.assertIn("PolicySource", self.complete("xschedctl show client:%d -p " % self.id))

    def test_hostile_names(self):
        """Users choose the names of groups and files: the shell must run no part of a name, neither at completion nor
        when the line is accepted."""
        name, quoted = "$(touch pwned)", r"\$\(touch\ pwned\)"
        with tempfile.TemporaryDirectory() as cwd:
            with open(os.path.join(cwd, name), "w", encoding="utf-8"):
                pass
            os.mkdir(os.path.join(cwd, name + "d"))
            for line, wanted in (
                ("plot -o ", {quoted, quoted + "d"}),
                ("replay x --svg=", {quoted, quoted + "d"}),
                ("replay ", {quoted, quoted + "d"}),
                ("run --working-directory ", {quoted + "d"}),
            ):
                with self.subTest(line):
                    self.assertEqual(self.complete("xschedctl " + line, cwd), wanted)
            # Plays a service with such a group, which only a user with an own cgroup can make.
            with open(os.path.join(cwd, "xschedctl"), "w", encoding="utf-8") as f:
                f.write("#!/bin/sh\necho '/a/$(touch${IFS}pwned)'\n")
                os.fchmod(f.fileno(), 0o755)
            for verb in ("status", "set", "explain"):
                found = self.complete(f"xschedctl {verb} /", cwd, PATH=cwd + ":" + PATH)
                self.assertEqual(found, {r"/a/\$\(touch\$\{IFS\}pwned\)"})
            self.assertFalse(os.path.exists(os.path.join(cwd, "pwned")))

    def test_policy(self):
        self.assertEqual(self.complete("xschedctl pol"), {"policy"})
        self.assertEqual(self.complete("xschedctl policy "), {DEVICE, "all"})
        self.assertLessEqual({"tree", "hpf", "mlfq"}, self.complete(f"xschedctl policy {DEVICE} "))
        self.assertEqual(self.complete("xschedctl policy all ked"), {"kedf"})
        self.assertIn("timeslice=", self.complete("xschedctl policy all hpf "))
        self.assertEqual(self.complete("xschedctl policy all hpf timeslice=5ms conc"), {"concurrency="})

    def test_hint(self):
        (queue,) = self.complete("xschedctl hint queue:")
        self.assertRegex(queue, "^[0-9]+$")
        self.assertLessEqual({str(self.client.pid), f"queue:{queue}"}, self.complete("xschedctl hint "))
        self.assertLessEqual({"deadline=", "laxity=", "priority="}, self.complete(f"xschedctl hint {self.client.pid} "))
        self.assertEqual(self.complete(f"xschedctl hint queue:{queue} class=bat"), {"batch"})

    def test_record_and_replay(self):
        self.assertEqual(self.complete("xschedctl rec"), {"record"})
        self.assertEqual(self.complete("xschedctl record --dur"), {"--duration="})
        self.assertEqual(self.complete("xschedctl record --duration 5s "), {DEVICE})
        self.assertLessEqual({"--check", "--policy=", "--svg=", "--trace="}, self.complete("xschedctl replay --"))
        self.assertEqual(self.complete("xschedctl replay --policy=mlf"), {"mlfq"})
        self.assertEqual(self.complete(f"xschedctl replay {__file__[:-3]}"), {__file__})

    def test_commands(self):
        self.assertIn("bash", self.complete("xschedctl run bas"))
        self.assertIn("bash", self.complete("xschedctl run --class=batch -- bas"))
        self.assertEqual(self.complete("xschedctl run ls --he"), set())
        self.assertEqual(self.complete("xschedctl hold inter"), {"interactive"})
        self.assertIn("bash", self.complete("xschedctl hold interactive bas"))
        self.assertIn("bash", self.complete("xschedctl hold --why=x interactive -- bas"))

    def test_session(self):
        self.assertEqual(self.complete("xsched-session --sh"), {"--shim="})
        self.assertEqual(self.complete("xsched-session --shim="), {"layer", "preload", "none"})
        self.assertIn("tree", self.complete("xsched-session --policy="))
        self.assertIn("bash", self.complete("xsched-session --policy tree bas"))
        self.assertIn("bash", self.complete("xsched-session -- bas"))
        self.assertEqual(self.complete("xsched-session ls --sh"), set())

    def test_queues(self):
        self.assertEqual(self.complete("xsched-queues --us"), {"--usage", "--user"})
        self.assertEqual(self.complete("xsched-queues --json=s"), {"short"})

    def test_silent_without_a_service(self):
        p = subprocess.run(
            ["bash", "--norc", "-c", BASH, "bash", of_bash("xschedctl"), "xschedctl show "],
            text=True,
            env=environment(PATH=PATH, XSCHED_BUS_ADDRESS="unix:path=/nonexistent"),
            capture_output=True,
        )
        self.assertEqual((p.stdout.split(), p.stderr), (["device:all"], ""))


class Zsh(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        if not shutil.which("zsh"):
            raise unittest.SkipTest("zsh is missing")
        cls.client = Client()
        cls.id = cls.client.row()["client"]

    @classmethod
    def tearDownClass(cls):
        cls.client.end()

    def complete(self, line):
        with tempfile.TemporaryDirectory() as home:
            for name in ("_xschedctl", "_xsched-session", "_xsched-queues"):
                shutil.copy(completion(name), home)
            p = subprocess.run(
                ["zsh", "-f", "-c", ZSH, "zsh", home, line],
                text=True,
                capture_output=True,
                env=environment(PATH=PATH, HOME=home, TERM="dumb"),
                stdin=subprocess.DEVNULL,
                timeout=DEADLINE,
            )
        return set(p.stdout.split("\n")) - {""}

    def test_syntax(self):
        for name in ("_xschedctl", "_xsched-session", "_xsched-queues"):
            subprocess.run(["zsh", "-n", completion(name)], check=True)

    def test_verbs(self):
        self.assertLessEqual({"list-devices", "list-classes"}, self.complete("xschedctl list-"))

    def test_targets(self):
        self.assertLessEqual({f"client:{self.id}", "device:all", f"device:{DEVICE}"}, self.complete("xschedctl show "))

    def test_settings(self):
        self.assertLessEqual({"priority", "weight"}, self.complete("xschedctl set client:1 "))
        self.assertIn("batch", self.complete("xschedctl set client:1 class="))

    def test_policy_and_hint(self):
        self.assertIn(DEVICE, self.complete("xschedctl policy "))
        self.assertLessEqual({"tree", "kedf"}, self.complete(f"xschedctl policy {DEVICE} "))
        self.assertLessEqual({"deadline", "laxity"}, self.complete(f"xschedctl hint client:{self.id} "))

    def test_record_and_replay(self):
        self.assertIn(DEVICE, self.complete("xschedctl record "))
        self.assertIn("mlfq", self.complete("xschedctl replay --policy="))

    def test_options(self):
        self.assertIn("--priority", {h.rstrip("=") for h in self.complete("xschedctl run --pri")})
        self.assertIn("preload", self.complete("xsched-session --shim="))


if __name__ == "__main__":
    main(unittest)
