#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Checks a Promela model exhaustively, and checks that its deliberate errors are found.

    run-models.py SPIN CC MODEL safety                   no assertion fails in any state; then each mutant has to fail
    run-models.py SPIN CC MODEL liveness NAME=MUTANT...  each named LTL formula holds under weak fairness, and does not
                                                         with that mutant

The mutants are the model's own: lines "#define NAME number /* what is wrong */" before its `byte mutant`.
"""

import os
import re
import subprocess
import sys
import tempfile


def fail(text):
    print(f"FAIL: {text}")
    sys.exit(1)


def mutants(text):
    head = text[: text.index("byte mutant")]
    return [(m[1], int(m[2])) for m in re.finditer(r"^#define (\w+)\s+(\d+) +/\*", head, re.M)]


def build(spin, cc, model, where, spin_flags, cc_flags):
    subprocess.run([spin, *spin_flags, "-a", model], cwd=where, check=True, stdout=subprocess.DEVNULL)
    subprocess.run([*cc, "-O2", "-w", *cc_flags, "-o", "pan", "pan.c"], cwd=where, check=True)


def run(where, args, mutant=0):
    env = {**os.environ, "MUTANT": str(mutant)}
    env.pop("MALLOC_PERTURB_", None)  # from meson; malloc() would fill every table with a pattern
    out = subprocess.run(
        ["./pan", "-E", "-m3000000", *args],
        cwd=where,
        env=env,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ).stdout
    errors = re.search(r"errors: (\d+)", out)
    if not errors or "max search depth too small" in out or ("Search not completed" in out and errors[1] == "0"):
        fail(f"the search did not complete:\n{out}")
    states = re.search(r"([\d.e+]+) states, stored", out)
    reason = re.search(r"^pan:1: (.*) \(at depth", out, re.M)
    return int(errors[1]), states[1] if states else "?", reason[1] if reason else ""


def main():
    spin, cc, model, kind, *formulas = sys.argv[1:]
    cc = cc.split()
    model = os.path.abspath(model)
    name = os.path.splitext(os.path.basename(model))[0]
    text = open(model, encoding="utf-8").read()
    known = mutants(text)
    if not known:
        fail(f"{model} has no mutants")

    with tempfile.TemporaryDirectory(prefix="xsched-model-") as where:
        if kind == "safety":
            variants = [[], ["-DCROWD"]] if "CROWD" in text else [[]]
            for flags in reversed(variants):
                build(spin, cc, model, where, flags, ["-DSAFETY", "-DNOREDUCE"])
                errors, states, reason = run(where, [])
                print(f"{' '.join([name, *flags])}: {states} states, {errors} errors {reason}", flush=True)
                if errors:
                    fail(reason)
            for mutant, number in known:
                errors, states, reason = run(where, [], number)
                print(f"{name} with {mutant}: {states} states, {reason or 'nothing found'}", flush=True)
                if not errors:
                    fail(f"the model does not find the error {mutant}")
        else:
            build(spin, cc, model, where, ["-DLIVENESS"], ["-DNFAIR=3", "-DNOREDUCE"])
            for f, mutant in (f.split("=") for f in formulas):
                errors, states, reason = run(where, ["-a", "-f", "-N", f])
                print(f"{name}: {f}: {states} states, {errors} errors {reason}", flush=True)
                if errors:
                    fail(f"{f}: {reason}")
                errors, states, reason = run(where, ["-a", "-f", "-A", "-N", f], dict(known)[mutant])  # no assertions
                print(f"{name} with {mutant}: {f}: {states} states, {reason or 'nothing found'}", flush=True)
                if not errors:
                    fail(f"{f} does not find the error {mutant}")


if __name__ == "__main__":
    main()
