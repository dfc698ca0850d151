#!/usr/bin/python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""The manifests below kubernetes/ are as Kubernetes defines them, and name what there is: test-kubernetes.py DIRECTORY

definitions.json has Kubernetes' own definitions, as far as they are referred to. What they do not know is a mistake, as
for kubectl --validate=strict."""

import copy
import glob
import json
import os
import subprocess
import sys
import unittest

import jsonschema
import yaml

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = sys.argv.pop(1)
KUSTOMIZATIONS = ("base", "priority-class")
KEYS = {"apiVersion", "kind", "namespace", "resources", "configMapGenerator"}


def strict(definitions):
    for d in definitions.values():
        if "properties" in d:
            d["additionalProperties"] = False
        if d.get("format") == "int-or-string":
            d["type"] = ["string", "integer"]
    return definitions


def load(path):
    with open(path, encoding="utf-8") as f:
        return list(yaml.safe_load_all(f))


class Manifests(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        with open(os.path.join(HERE, "kubernetes", "definitions.json"), encoding="utf-8") as f:
            cls.definitions = strict(json.load(f)["definitions"])
        cls.kinds = {
            (g["group"], g["version"], g["kind"]): name
            for name, d in cls.definitions.items()
            for g in d.get("x-kubernetes-group-version-kind", [])
        }
        cls.documents = [
            (path, d)
            for path in sorted(glob.glob(f"{ROOT}/**/*.yaml", recursive=True))
            for d in load(path)
            if os.path.basename(path) != "kustomization.yaml"
        ]

    def errors(self, document):
        group, _, version = document["apiVersion"].rpartition("/")
        name = self.kinds[group, version, document["kind"]]
        schema = {"$ref": f"#/definitions/{name}", "definitions": self.definitions}
        return [e.message for e in jsonschema.Draft4Validator(schema).iter_errors(document)]

    def test_definitions(self):
        self.assertGreaterEqual(len(self.documents), 4)
        for path, document in self.documents:
            with self.subTest(path, kind=document["kind"]):
                self.assertEqual(self.errors(document), [])

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
                self.assertEqual(len(self.errors(wrong)), 1)

    def test_kustomizations(self):
        """What they name is there, and all that is there is named."""
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
        """ConfigMaps that are mounted are made, selectors select."""
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

    def test_script(self):
        subprocess.run(["sh", "-n", f"{ROOT}/base/install.sh"], check=True)


if __name__ == "__main__":
    unittest.main()
