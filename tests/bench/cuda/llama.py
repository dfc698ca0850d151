# SPDX-License-Identifier: LGPL-2.1-or-later
"""Runs llama.cpp's own programs, unchanged, with a model of random weights: counts their kernels by CUPTI, and compares
what they generate

The programs, llama-simple and llama-bench, are in a directory that the caller names, with the libraries that they need.
"""

import itertools
import json
import os
import shutil
import subprocess
import tempfile

from gguf_model import write_model
from holds import Holder, environment

HERE = os.path.dirname(os.path.realpath(__file__))
PROMPT = [f"w{i}" for i in range(40)]
COUNTED = 300  # tokens
HELD = 6000
NO_SERVICE = {"XSCHED_BUS_ADDRESS": "unix:path=/nonexistent"}
# In the model's weights of 16 bits; in weights of 8 bits, which have kernels of their own; and whether llama.cpp makes
# CUDA graphs of its kernels, as it does unless it is told not to.
MODELS = {"16 bits": False, "8 bits": True}
GRAPHS = {"graphs": {}, "no graphs": {"GGML_CUDA_DISABLE_GRAPHS": "1"}}


def places():
    """Returns directories in which NVIDIA's headers and libraries may be, beside where the compiler looks."""
    tops = [os.path.dirname(os.path.dirname(os.path.realpath(shutil.which("nvcc") or "/usr/local/cuda/bin/nvcc")))]
    tops += [os.path.join(tops[0], more) for more in ("targets/x86_64-linux", "extras/CUPTI")]
    try:
        import nvidia

        tops += [os.path.join(at, "cu13") for at in nvidia.__path__]
    except ImportError:
        pass
    return tops


def build_counter(directory):
    """Compiles the library that counts kernels. Raises RuntimeError if CUPTI is not there."""
    library, words = os.path.join(directory, "count-kernels.so"), []
    for top in places():
        words.append(f"-I{top}/include")
        for name in ("lib64", "lib"):
            words += [f"-L{top}/{name}", f"-Wl,-rpath,{top}/{name}"]
    source = os.path.join(HERE, "count-kernels.c")
    command = ["cc", "-std=gnu17", "-O1", "-shared", "-fPIC", "-o", library, source, *words, "-l:libcupti.so.13"]
    made = subprocess.run(command, stderr=subprocess.PIPE, text=True, check=False)
    if made.returncode:
        raise RuntimeError(made.stderr.strip()[-300:])
    return library


class Llama:
    """The programs of one directory, and models and a counter for them."""

    def __init__(self, programs, layer):
        self.programs, self.layer = os.path.realpath(programs), os.path.realpath(layer)
        self.at = tempfile.TemporaryDirectory(prefix="llama-")  # pylint: disable=consider-using-with
        self.counter = build_counter(self.at.name)
        self.models = {}

    def close(self):
        self.at.cleanup()

    def program(self, name):
        return os.path.join(self.programs, name)

    def version(self):
        """Returns llama.cpp's version, which its library's file is named for."""
        return os.path.realpath(self.program("libllama.so")).partition(".so.")[2]

    def model(self, quantize=False, **size):
        path = os.path.join(self.at.name, f"{quantize}-{'-'.join(map(str, size.values()))}.gguf")
        if path not in self.models:
            write_model(path, quantize=quantize, **size)
            self.models[path] = path
        return path

    def simple(self, model, tokens):
        return [self.program("llama-simple"), "-m", model, "-n", str(tokens), *PROMPT]

    def generate(self, model, tokens, env):
        """Returns what it generates."""
        r = subprocess.run(
            self.simple(model, tokens), env=env, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False
        )
        if r.returncode:
            raise RuntimeError(f"llama-simple: status {r.returncode}: {r.stderr.strip()[-300:]}")
        return r.stdout

    def count(self, model, how):
        """Returns what it generates under the layer, and how many kernels CUPTI and the layer have seen."""
        path = os.path.join(self.at.name, "counts")
        env = environment("gate", self.layer, CUDA_INJECTION64_PATH=self.counter, COUNT_KERNELS=path, **NO_SERVICE)
        said = self.generate(model, COUNTED, env | how)
        if not os.path.exists(path):
            raise RuntimeError("CUPTI has counted nothing")
        with open(path, encoding="utf-8") as f:
            counts = json.load(f)
        os.unlink(path)
        return said, counts

    def phases(self):
        """Yields (phase, what was counted, whether nothing was missed)."""
        for (weights, quantize), (name, how) in itertools.product(MODELS.items(), GRAPHS.items()):
            model = self.model(quantize)
            plain = self.generate(model, COUNTED, environment("native", "") | how)
            said, n = self.count(model, how)
            cupti, layer = n["cupti"], n["layer"]
            good = cupti["kernels"] == layer["kernels"] > 0 and cupti["graphs"] == layer["graphs"]
            good &= (cupti["graphs"] > COUNTED / 2) == (not how) and cupti["dropped"] == 0
            good &= len(set(said.split())) > COUNTED / 4 and said == plain
            n["same tokens"] = said == plain
            yield f"llama.cpp, {weights}, {name}", n, good

    def held(self, name, tokens=HELD):
        """Returns what it generates while it is held at random moments, and how often each level was seen."""
        p = subprocess.Popen(
            self.simple(self.model(context=2 * HELD), tokens),
            env=environment(name, self.layer),
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        # The prompt is printed when the model is on the device.
        said = p.stdout.read(len("<s>"))
        holder = Holder(p.pid) if name != "native" else None
        said += p.stdout.read()
        levels = holder.end() if holder else {}
        status = p.wait()
        if status:
            raise RuntimeError(f"llama-simple: status {status}")
        return said, levels
