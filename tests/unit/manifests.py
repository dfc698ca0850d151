# SPDX-License-Identifier: LGPL-2.1-or-later
"""Validates manifests by Kubernetes' own definitions of its objects.

kubernetes/definitions.json contains those that our manifests need. A field that they do not define is an error, as with
kubectl --validate=strict."""

import json
import os

import jsonschema
import yaml

HERE = os.path.dirname(os.path.abspath(__file__))


def load(path):
    with open(path, encoding="utf-8") as f:
        return list(yaml.safe_load_all(f))


def strict(definitions):
    for d in definitions.values():
        if "properties" in d:
            d["additionalProperties"] = False
        if d.get("format") == "int-or-string":
            d["type"] = ["string", "integer"]
    return definitions


class Definitions:
    def __init__(self):
        with open(os.path.join(HERE, "kubernetes", "definitions.json"), encoding="utf-8") as f:
            self.definitions = strict(json.load(f)["definitions"])
        self.kinds = {
            (g["group"], g["version"], g["kind"]): name
            for name, d in self.definitions.items()
            for g in d.get("x-kubernetes-group-version-kind", [])
        }

    def errors(self, document):
        group, _, version = document["apiVersion"].rpartition("/")
        name = self.kinds[group, version, document["kind"]]
        schema = {"$ref": f"#/definitions/{name}", "definitions": self.definitions}
        return [e.message for e in jsonschema.Draft4Validator(schema).iter_errors(document)]
