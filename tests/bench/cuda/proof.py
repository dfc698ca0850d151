#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Proves that the CUDA layer sees every launch, on a real GPU with PyTorch: fails if it has counted more or fewer than
torch.profiler (CUPTI) in any phase of tenant.py, or than CUPTI in llama.cpp's own programs.

proof.py [--layer=FILE] [--llama=DIR]...

Each DIR contains llama-simple, as llama.cpp's own build makes it with CUDA, and its libraries: one for a CUDA runtime
that is linked statically, another for one that is not.
"""

import argparse
import json
import os
import subprocess
import sys

HERE = os.path.dirname(os.path.realpath(__file__))


def prove_llama(directory, layer):
    """Returns how many phases of the programs in this directory differ."""
    from llama import Llama  # needs numpy

    llama, missed = Llama(directory, layer), 0
    try:
        for name, n, good in llama.phases():
            missed += not good
            print(f"{name} ({directory}): {n} {'' if good else 'MISSED'}", flush=True)
    finally:
        llama.close()
    return missed


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--layer", default=os.path.join(HERE, "../../../build/shim/libxsched-cuda.so"))
    p.add_argument("--llama", action="append", default=[])
    options = p.parse_args()
    env = {**os.environ, "LD_PRELOAD": options.layer, "XSCHED_BUS_ADDRESS": "unix:path=/nonexistent"}
    out = subprocess.run(
        [sys.executable, os.path.join(HERE, "tenant.py"), "proof"],
        env=env,
        text=True,
        check=True,
        stdout=subprocess.PIPE,
    ).stdout
    missed = 0
    for name, n in json.loads(out.splitlines()[-1]).items():
        if name == "graph":
            good = n == {"launches": 10}
        elif "left out" in n:
            print(f"{name}: left out: {n['left out']}")
            continue
        else:
            good = n["profiler"] == n["layer"] > 0
        missed += not good
        print(f"{name}: {n} {'' if good else 'MISSED'}", flush=True)
    missed += sum(prove_llama(directory, options.layer) for directory in options.llama)
    print("every launch was seen" if missed == 0 else f"{missed} PHASES DIFFER")
    return 1 if missed else 0


sys.exit(main())
