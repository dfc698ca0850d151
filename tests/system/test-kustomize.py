#!/usr/bin/python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""The objects that the kustomizations below kubernetes/ define: test-kustomize.py DIRECTORY

The test builds them with Debian 13's kustomize, in the root that debian-root makes. Where that root cannot be made, it
uses the builder that is installed here."""

import glob
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

import yaml

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "unit"))
from manifests import Definitions  # noqa: E402  pylint: disable=wrong-import-position

ROOT = sys.argv.pop(1)


def find_builder():
    """The command that builds a kustomization."""
    made = subprocess.run([os.path.join(HERE, "debian-root"), "trixie"], stdout=subprocess.PIPE, text=True, check=False)
    if made.returncode == 0:
        return [f"{made.stdout.strip()}/usr/bin/kustomize", "build"]
    if made.returncode != 77:
        sys.exit(f"debian-root: status {made.returncode}")
    for builder in (["kustomize", "build"], ["kubectl", "kustomize"]):
        if shutil.which(builder[0]):
            return builder
    print("neither kustomize nor kubectl")
    sys.exit(77)


class Built(unittest.TestCase):
    @staticmethod
    def run_builder(directory):
        return subprocess.run([*BUILDER, directory], capture_output=True, text=True, check=False)

    def build(self, name):
        done = self.run_builder(f"{ROOT}/{name}")
        self.assertEqual(done.returncode, 0, done.stderr)
        return {
            (d["kind"], re.sub("-[a-z0-9]{10}$", "", d["metadata"]["name"])): d for d in yaml.safe_load_all(done.stdout)
        }

    def check(self, name, kinds):
        built = self.build(name)
        self.assertEqual(sorted(kind for kind, _ in built), sorted(kinds))
        definitions = Definitions()
        for key, d in built.items():
            with self.subTest(name, what=key):
                self.assertEqual(definitions.errors(d), [])
                if key[0] in ("DaemonSet", "ConfigMap"):
                    self.assertEqual(d["metadata"]["namespace"], "xsched")
        # kustomize puts a hash of the contents into each ConfigMap's name.
        (spec,) = (d["spec"]["template"]["spec"] for (kind, _), d in built.items() if kind == "DaemonSet")
        mounted = {v["name"]: v["configMap"]["name"] for v in spec["volumes"]}
        maps = {d["metadata"]["name"]: d["data"] for (kind, _), d in built.items() if kind == "ConfigMap"}
        self.assertEqual(sorted(mounted.values()), sorted(maps))
        return maps[mounted["install"]], maps[mounted["classes"]]

    def files(self, directory):
        found = {}
        for path in glob.glob(f"{ROOT}/{directory}/*"):
            if os.path.isfile(path) and not path.endswith(".yaml"):
                with open(path, encoding="utf-8") as f:
                    found[os.path.basename(path)] = f.read()
        return found

    def test_base(self):
        install, classes = self.check("base", ["Namespace", "ConfigMap", "ConfigMap", "DaemonSet"])
        self.assertEqual((install, classes), (self.files("base"), self.files("base/classes")))

    def test_priority_class(self):
        """Like the base, with its own containers.conf and an admission policy."""
        policy = ["MutatingAdmissionPolicy", "MutatingAdmissionPolicyBinding"]
        install, classes = self.check("priority-class", ["Namespace", "ConfigMap", "ConfigMap", "DaemonSet", *policy])
        self.assertEqual(classes, self.files("base/classes"))
        self.assertEqual(install, {**self.files("base"), **self.files("priority-class")})
        self.assertIn("RaisingAnnotations=priority-class", install["containers.conf"])

    def test_own(self):
        """A site's kustomization, as the manual shows it, sets the image. An incomplete base cannot be built."""
        with tempfile.TemporaryDirectory() as directory:
            shutil.copytree(ROOT, f"{directory}/kubernetes")
            os.mkdir(f"{directory}/site")
            image = {"name": "xsched-packages", "newName": "registry.example.com/xsched", "newTag": "1.0"}
            with open(f"{directory}/site/kustomization.yaml", "w", encoding="utf-8") as f:
                yaml.safe_dump({"resources": ["../kubernetes/base"], "images": [image]}, f)
            done = self.run_builder(f"{directory}/site")
            self.assertEqual(done.returncode, 0, done.stderr)
            images = re.findall("image: (.*)", done.stdout)
            self.assertEqual(images, ["registry.example.com/xsched:1.0"] * 2)
            os.unlink(f"{directory}/kubernetes/base/install.sh")
            self.assertNotEqual(self.run_builder(f"{directory}/site").returncode, 0)


if __name__ == "__main__":
    BUILDER = find_builder()
    unittest.main()
