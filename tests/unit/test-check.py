# SPDX-License-Identifier: LGPL-2.1-or-later
"""A run of ./check that lacks something fails, and says what it lacks. A package that the archive no longer has is
named, and does not fail the run."""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

SOURCE = Path(os.environ["SOURCE_DIR"])
SUITES = ("unit", "model", "bus", "opencl", "cuda", "kfdsim", "fuzz", "system", "slurm", "vm")
ENVIRONMENT = {k: v for k, v in os.environ.items() if k != "CI"}


class Scratch(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.top = Path(scratch.name)

    def program(self, name, text):
        path = self.top / "bin" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text("#!/bin/sh\n" + text, encoding="utf-8")
        path.chmod(0o755)
        return str(path)

    def run_with(self, *argv, **environment):
        path = f"{self.top}/bin:{os.environ['PATH']}"
        return subprocess.run(
            [str(a) for a in argv],
            env={**ENVIRONMENT, "PATH": path, **environment},
            capture_output=True,
            text=True,
            check=False,
        )


class Summary(Scratch):
    def setUp(self):
        super().setUp()
        self.tests = [{"name": f"xsched:{s} / test-{s}", "result": "OK", "stdout": "", "stderr": ""} for s in SUITES]
        self.left_out = ""
        self.program("meson", f"cat {self.top}/expected.json")
        self.expected = [t["name"].split(" / ")[1] for t in self.tests]

    def summary(self, *options, **environment):
        build = self.top / "build"
        (build / "meson-logs").mkdir(parents=True, exist_ok=True)
        (build / "tests").mkdir(exist_ok=True)
        (build / "meson-logs/testlog.json").write_text(
            "".join(json.dumps(t) + "\n" for t in self.tests), encoding="utf-8"
        )
        (build / "tests/left-out.txt").write_text(self.left_out, encoding="utf-8")
        (self.top / "expected.json").write_text(json.dumps([{"name": n} for n in self.expected]), encoding="utf-8")
        done = self.run_with(sys.executable, SOURCE / "tests/lib/summary.py", *options, build, **environment)
        return done.returncode, done.stdout

    def test_all_is_well(self):
        self.assertEqual(self.summary("--complete"), (0, f"{len(SUITES)} passed, 0 failed, 0 skipped\n"))

    def test_nothing_ran(self):
        self.tests = []
        self.assertEqual(self.summary(), (1, "0 passed, 0 failed, 0 skipped\n"))

    def test_failed(self):
        for result in ("FAIL", "TIMEOUT", "ERROR", "UNEXPECTEDPASS"):
            self.tests[3]["result"] = result
            self.assertEqual(self.summary()[0], 1)

    def test_the_reason_of_a_failure_is_at_the_end(self):
        said = "\n".join(["[  ERROR   ] --- 1 != 2", *(f"line {i}" for i in range(500))])
        self.tests[3] |= {"result": "FAIL", "stdout": said, "stderr": "the last\n"}
        lines = self.summary()[1].splitlines()
        begun = next(i for i, line in enumerate(lines) if line.startswith("failed: xsched:opencl / test-opencl"))
        self.assertLessEqual(len(lines) - begun, 40)
        self.assertEqual(lines[begun + 1], "    | [  ERROR   ] --- 1 != 2")
        self.assertEqual(lines[-2], "    | the last")

    def test_all_failures_are_at_the_end(self):
        for test in self.tests:
            test |= {"result": "FAIL", "stdout": "\n".join(f"line {i}" for i in range(500))}
        lines = self.summary()[1].splitlines()
        self.assertLessEqual(len(lines), 150)
        for test in self.tests:
            at = next(i for i, line in enumerate(lines) if line.startswith(f"failed: {test['name']} "))
            self.assertIn("    | line 499", lines[at : at + 40])

    def test_a_test_did_not_run(self):
        self.expected.append("one-more")
        status, said = self.summary("--complete")
        self.assertEqual(status, 1)
        self.assertIn("missing: one-more: it did not run", said)
        self.assertTrue(said.endswith(f"{len(SUITES)} passed, 1 failed, 0 skipped\n"))
        self.assertEqual(self.summary()[0], 0)  # only some tests were chosen

    def test_a_suite_is_not_there(self):
        for suite in SUITES:
            with self.subTest(suite):
                kept = [t for t in self.tests if f":{suite} " not in t["name"]]
                self.tests, before = kept, self.tests
                self.expected = [t["name"].split(" / ")[1] for t in kept]
                status, said = self.summary("--complete")
                self.assertEqual(
                    (status, said),
                    (
                        1,
                        f"missing: suite {suite}: it has no test ({self.top}/build)\n"
                        f"{len(SUITES) - 1} passed, 1 failed, 0 skipped\n",
                    ),
                )
                self.tests = before

    def test_a_package_was_missing(self):
        self.left_out = "kfdsim libhsakmt-dev the simulated driver\n"
        status, said = self.summary("--complete")
        self.assertEqual(status, 1)
        self.assertIn("missing: the simulated driver (suite kfdsim): the build did not find libhsakmt-dev", said)
        self.assertEqual(self.summary()[0], 1)  # the suite kfdsim was among the chosen ones
        self.tests = self.tests[:1]
        self.assertEqual(self.summary()[0], 0)

    def test_a_package_is_gone_from_the_archive(self):
        gone = self.top / "gone"
        self.left_out = "kfdsim libhsakmt-dev the simulated driver\nmodel spin the models\n"
        gone.write_text("libhsakmt-dev\n", encoding="utf-8")
        status, said = self.summary("--complete", f"--gone={gone}")
        self.assertEqual(status, 1)
        self.assertIn(
            (
                "left out: the simulated driver (suite kfdsim): the build did not find libhsakmt-dev, which is no "
                "longer in the archive"
            ),
            said,
        )
        self.assertIn("missing: the models", said)
        gone.write_text("libhsakmt-dev\nspin\n", encoding="utf-8")
        self.assertEqual(self.summary("--complete", f"--gone={gone}", CI="1")[0], 0)

    def test_skipped(self):
        self.tests[0]["result"] = "SKIP"
        self.assertEqual(self.summary("--complete")[0], 0)
        self.assertEqual(self.summary("--complete", CI="1")[0], 1)
        self.tests[0]["stderr"] = "no longer in the archive: linux-image-6\n"
        status, said = self.summary("--complete", CI="1")
        self.assertEqual(status, 0)
        self.assertIn("skipped: xsched:unit / test-unit", said)
        self.assertIn("no longer in the archive: linux-image-6", said)


class FromArchive(Scratch):
    def fetch(self, text, status):
        return self.run_with(
            SOURCE / "tests/lib/from-archive", self.program("fetch", f"cat >&2 <<'E'\n{text}\nE\nexit {status}\n")
        )

    def test_what_apt_says(self):
        for text in (
            "E: Unable to locate package foo-1",
            "E: Package 'foo-1' has no installation candidate",
            "E: Can't find a source to download version '2.0' of 'foo-1:amd64'",
            (
                "E: Failed to fetch http://deb.debian.org/debian/pool/main/f/foo/foo-1_2.0_amd64.deb  404  Not Found "
                "[IP: 1.2.3.4 80]"
            ),
        ):
            done = self.fetch(text, 100)
            self.assertEqual((done.returncode, done.stderr), (77, f"{text}\nno longer in the archive: foo-1\n"))

    def test_other_failures_stay_failures(self):
        for text in (
            "E: Temporary failure resolving 'deb.debian.org'",
            "E: Unable to fetch some archives",
            "no space left on device",
        ):
            self.assertEqual(self.fetch(text, 100).returncode, 100)
        self.assertEqual(self.fetch("E: Unable to locate package foo", 0).returncode, 0)


class Within(Scratch):
    def within(self, *command):
        return self.run_with(SOURCE / "tests/lib/within", "60", *command)

    def test_who_ends_in_time(self):
        done = self.within("sh", "-c", "echo out; echo err >&2; exit 3")
        self.assertEqual((done.returncode, done.stdout, done.stderr), (3, "out\n", "err\n"))
        self.assertEqual(self.within("sh", "-c", "kill -9 $$").returncode, 128 + 9)

    def test_who_does_not(self):
        """All processes are named, with the functions that they are in, and ended: the pipes that run_with() reads to
        their ends are theirs, too."""
        fifo = self.top / "fifo"
        os.mkfifo(fifo)
        done = self.run_with(SOURCE / "tests/lib/within", "0.5", "sh", "-c", f"cat {fifo} & cat {fifo}; echo never")
        self.assertEqual(done.returncode, 124)
        self.assertTrue(done.stderr.startswith("--- not ended after 0.5 s\n"), done.stderr)
        self.assertEqual(len(re.findall(rf"^--- [0-9]+: cat {re.escape(str(fifo))}$", done.stderr, re.M)), 2)
        self.assertRegex(done.stderr, r"(?m)^#\d+ .* (__)?open(64)?")


class InstallPackages(Scratch):
    """tools/install-packages with an apt-get that knows all packages but one."""

    def setUp(self):
        super().setUp()
        self.program("dpkg-query", "echo installed nothing\n")
        self.program("id", "echo 0\n")
        self.program(
            "apt-cache",
            'if [ "$2" = "$GONE" ]; then c="(none)"; else c=1.0; fi; printf "%s:\\n  Candidate: %s\\n" "$2" "$c"\n',
        )
        self.program(
            "apt-get",
            (
                'echo "$*" >>"$APT_LOG"\n'
                'case " $* " in *" update "*) ;; *" $GONE "*) echo "E: Unable to locate package $GONE"; '
                "exit 100;; esac\n"
            ),
        )

    def install(self, gone, *options):
        log = self.top / "log"
        log.write_text("", encoding="utf-8")
        done = self.run_with(SOURCE / "tools/install-packages", *options, GONE=gone, APT_LOG=str(log))
        return done, log.read_text(encoding="utf-8").splitlines()

    def test_no_such_section(self):
        for options in (("--only=nope", "--check"), ("--only=run,ru", "--check"), ("--only=[run]",)):
            done, said = self.install("nothing", *options)
            self.assertEqual((done.returncode, said), (2, []))
            self.assertIn("there is no such section", done.stderr)
        self.assertEqual(self.install("nothing", "--only=run,build", "--check")[0].returncode, 1)

    def test_one_of_the_tests_is_gone(self):
        gone = self.top / "gone"
        done, said = self.install("spin", f"--gone={gone}")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("no longer in the archive: spin\n", done.stderr)
        self.assertEqual(gone.read_text(encoding="utf-8"), "spin\n")
        self.assertIn(" valgrind ", said[-1] + " ")
        self.assertNotIn(" spin ", said[-1] + " ")

    def test_nothing_is_gone(self):
        gone = self.top / "gone"
        gone.write_text("of another run\n", encoding="utf-8")
        self.assertEqual(self.install("-", f"--gone={gone}")[0].returncode, 0)
        self.assertEqual(gone.read_text(encoding="utf-8"), "")

    def test_what_is_needed_is_an_error(self):
        gone = self.top / "gone"
        self.assertEqual(self.install("libjson-c-dev", f"--gone={gone}")[0].returncode, 1)
        self.assertEqual(gone.read_text(encoding="utf-8"), "")
        self.assertEqual(self.install("spin")[0].returncode, 1)


class Configured(Scratch):
    """./check configures again, because the build directory may have been set up without the tests' packages, as by
    ./demo."""

    def setUp(self):
        super().setUp()
        (self.top / "tools").mkdir()
        (self.top / "tests/lib").mkdir(parents=True)
        shutil.copy(SOURCE / "check", self.top / "check")
        self.copy_program("tools/install-packages", 'echo installs >>"$LOG"; touch "$TOP/package"')
        self.copy_program("tests/lib/summary.py", "true")
        # Like the real one: without --reconfigure, a directory that is set up stays as it is.
        self.program(
            "meson",
            """
[ "$1" = setup ] || exit 0
shift
if [ "$1" = --reconfigure ]; then shift; elif [ -e "$1/build.ninja" ]; then exit 0; fi
mkdir -p "$1"
touch "$1/build.ninja"
if [ -e "$TOP/package" ]; then echo found; else echo missing; fi >>"$LOG"
""",
        )
        self.program("ninja", 'echo builds >>"$LOG"')

    def copy_program(self, name, text):
        (self.top / name).write_text("#!/bin/sh\n" + text + "\n", encoding="utf-8")
        (self.top / name).chmod(0o755)

    def check(self, *argv):
        done = self.run_with(*argv, LOG=str(self.top / "log"), TOP=str(self.top), BUILD_DIR=str(self.top / "build"))
        self.assertEqual(done.returncode, 0, done.stderr)
        return (self.top / "log").read_text(encoding="utf-8").split()

    def test_what_came_since_is_found(self):
        self.assertEqual(self.check("meson", "setup", self.top / "build"), ["missing"])
        self.assertEqual(self.check(self.top / "check"), ["missing", "installs", "found", "builds"])

    def test_for_the_first_time(self):
        self.assertEqual(self.check(self.top / "check"), ["installs", "found", "builds"])


if __name__ == "__main__":
    unittest.main(verbosity=2)
