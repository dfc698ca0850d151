#!/usr/bin/python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""The manifests below DIRECTORY are valid by Kubernetes' definitions, and refer only to things that exist:
test-kubernetes.py DIRECTORY"""

import copy
import glob
import os
import re
import subprocess
import sys
import tempfile
import unittest

from manifests import Definitions, load

ROOT = sys.argv.pop(1)
KUSTOMIZATIONS = ("base", "priority-class")
KEYS = {"apiVersion", "kind", "namespace", "resources", "configMapGenerator"}


class Manifests(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.definitions = Definitions()
        cls.documents = [
            (path, d)
            for path in sorted(glob.glob(f"{ROOT}/**/*.yaml", recursive=True))
            for d in load(path)
            if os.path.basename(path) != "kustomization.yaml"
        ]

    def test_definitions(self):
        self.assertGreaterEqual(len(self.documents), 4)
        for path, document in self.documents:
            with self.subTest(path, kind=document["kind"]):
                self.assertEqual(self.definitions.errors(document), [])

    def test_mistakes_are_found(self):
        daemon_set = next(d for _, d in self.documents if d["kind"] == "DaemonSet")
        pod = ("spec", "template", "spec")
        for where, key, value in (
            (pod, "hostpid", True),
            (pod, "hostPID", "yes"),
            (pod, "tolerations", {}),
            (("spec",), "selector", None),
            ((*pod, "containers", 0), "name", None),
            ((*pod, "containers", 0, "securityContext"), "runAsUser", "nobody"),
        ):
            with self.subTest(key, value=value):
                wrong = copy.deepcopy(daemon_set)
                at = wrong
                for step in where:
                    at = at[step]
                if value is None:
                    del at[key]
                else:
                    at[key] = value
                self.assertEqual(len(self.definitions.errors(wrong)), 1)

    def test_kustomizations(self):
        """All files that a kustomization names exist, and it names all files of its directory."""
        for name in KUSTOMIZATIONS:
            directory = os.path.join(ROOT, name)
            (k,) = load(f"{directory}/kustomization.yaml")
            self.assertEqual(set(k) - KEYS, set())
            named = [*k["resources"], *(f for g in k.get("configMapGenerator", []) for f in g["files"])]
            for path in named:
                self.assertTrue(os.path.exists(os.path.join(directory, path)), path)
            found = [os.path.relpath(p, directory) for p in glob.glob(f"{directory}/**/*", recursive=True)]
            files = {p for p in found if os.path.isfile(os.path.join(directory, p))}
            self.assertEqual(files, {"kustomization.yaml", *(p for p in named if not p.startswith(".."))})

    def test_references(self):
        """Mounted ConfigMaps are generated, and selectors match their pods."""
        (k,) = load(f"{ROOT}/base/kustomization.yaml")
        made = {g["name"] for g in k["configMapGenerator"]}
        for _, d in self.documents:
            if d["kind"] != "DaemonSet":
                continue
            spec = d["spec"]["template"]["spec"]
            self.assertEqual({v["configMap"]["name"] for v in spec["volumes"]}, made)
            volumes = {v["name"] for v in spec["volumes"]}
            mounts = [m["name"] for c in spec["initContainers"] for m in c["volumeMounts"]]
            self.assertEqual(set(mounts), volumes)
            self.assertEqual(d["spec"]["selector"]["matchLabels"], d["spec"]["template"]["metadata"]["labels"])

    def test_packages(self):
        """The packages that the manual copies into the image are exactly those that a host needs."""
        with open(f"{ROOT}/../man/xsched-kubernetes.7.scd", encoding="utf-8") as f:
            lines = [i for i in f if re.match(r"\s*# cp ", i)]
        named = [i for line in lines for i in re.findall(r" ([a-z0-9-]+)\\_\\\*\.deb", line)]
        self.assertEqual(len(named), sum(line.count(".deb") for line in lines))
        with open(f"{ROOT}/../debian/control", encoding="utf-8") as f:
            stanzas = re.split(r"\n\n+", f.read())[1:]
        depends = {
            re.search("^Package: (.*)", s).group(1): re.search(r"^Depends:((\n .*)+)", s, re.M).group(1)
            for s in stanzas
        }
        wanted, found = ["xsched", "xsched-exporter"], set()
        while wanted:
            package = wanted.pop()
            found.add(package)
            wanted += [p for p in depends if re.search(rf"^ {re.escape(p)}\b(?!-)", depends[package], re.M)]
        self.assertEqual(set(named), found)


# Stands in for each program that the script calls, and logs its arguments. nsenter runs its command here.
STAND_IN = """#!/bin/sh
case $0 in
*/nsenter)
        while [ "$1" != -- ]; do shift; done
        shift
        exec "$@" ;;
esac
echo "${0##*/} $*" >>"$LOG"
"""


class Script(unittest.TestCase):
    def test_installs(self):
        """The script installs, with apt-get options that avoid questions, since nobody could answer them."""
        with tempfile.TemporaryDirectory() as directory:
            host, programs, packages, log = (f"{directory}/{i}" for i in ("host", "bin", "packages", "log"))
            for i in (f"{host}/run/systemd/system", programs, packages):
                os.makedirs(i)
            with open(f"{packages}/xsched_1_amd64.deb", "wb"):
                pass
            for name in ("nsenter", "apt-get", "systemctl", "xschedctl"):
                with open(f"{programs}/{name}", "w", encoding="ascii") as f:
                    f.write(STAND_IN)
                os.chmod(f"{programs}/{name}", 0o755)
            with open(f"{ROOT}/base/install.sh", encoding="utf-8") as f:
                text = f.read()
            self.assertEqual(text.count("host=/proc/1/root\n"), 1)
            subprocess.run(
                ["sh", "-s", "--", packages, f"{ROOT}/base", f"{ROOT}/base/classes"],
                input=text.replace("host=/proc/1/root\n", f"host={host}\n"),
                env={"PATH": f"{programs}:{os.environ['PATH']}", "LOG": log},
                text=True,
                check=True,
            )
            with open(log, encoding="utf-8") as f:
                (apt,) = [i.split() for i in f if i.startswith("apt-get")]
            self.assertEqual(os.listdir(f"{host}/var/lib/xsched-install"), ["xsched_1_amd64.deb"])
            self.assertEqual(len(os.listdir(f"{host}/etc/xsched/classes.d")), len(os.listdir(f"{ROOT}/base/classes")))
        self.assertEqual(apt[1:3], ["install", "-y"])
        self.assertIn("--allow-downgrades", apt)
        self.assertEqual(apt[apt.index("-o") + 1], "Dpkg::Options::=--force-confold")


if __name__ == "__main__":
    unittest.main()
