# SPDX-License-Identifier: LGPL-2.1-or-later
"""Other ways to launch a kernel than PyTorch's own, for the proof that the layer sees each of them

Each function returns a function that launches. That one raises ImportError or RuntimeError if something it needs is not
installed.
"""

import ctypes
import os
import shutil
import subprocess
import tempfile

import torch

LAUNCHES = 20

# Adds one to a number.
PTX = b"""
.version 7.0
.target sm_70
.address_size 64
.visible .entry add_one(.param .u64 at) {
    .reg .u64 %a; .reg .u32 %v;
    ld.param.u64 %a, [at];
    ld.global.u32 %v, [%a];
    add.u32 %v, %v, 1;
    st.global.u32 [%a], %v;
    ret;
}
"""

STATIC = """
__global__ void add_one(int *at) { *at += 1; }
extern "C" int launch(int *at, int n) {
        for (int i = 0; i < n; i++)
                add_one<<<1, 1>>>(at);
        return cudaDeviceSynchronize();
}
"""


def check_count(number, wanted):
    if number.item() != wanted:
        raise AssertionError(f"the kernels counted to {number.item()}, and not to {wanted}")


def cuda_python():
    """Launches with NVIDIA's own bindings of the driver's interface."""
    state = {}

    def prepare():
        from cuda.bindings import driver

        def call(name, *arguments):
            status, *result = getattr(driver, name)(*arguments)
            if status != driver.CUresult.CUDA_SUCCESS:
                raise RuntimeError(f"{name}: {status}")
            return result[0] if result else None

        torch.zeros(1, device="cuda")  # makes PyTorch's context the current one
        state["module"] = call("cuModuleLoadData", PTX)
        state["kernel"] = call("cuModuleGetFunction", state["module"], b"add_one")
        state["call"] = call

    def launch():
        if not state:
            prepare()
        number = torch.zeros(1, dtype=torch.int32, device="cuda")
        torch.cuda.synchronize()
        arguments = ((number.data_ptr(),), (ctypes.c_void_p,))
        for _ in range(LAUNCHES):
            state["call"]("cuLaunchKernel", state["kernel"], 1, 1, 1, 1, 1, 1, 0, 0, arguments, 0)
        torch.cuda.synchronize()
        check_count(number.cpu(), LAUNCHES)

    return launch


def static_cudart():
    """Launches with a library that has a CUDA runtime of its own, linked statically, which is nvcc's default."""
    state = {}

    def build():
        if not shutil.which("nvcc"):
            raise ImportError("no nvcc")
        with tempfile.TemporaryDirectory() as at:
            source, library = os.path.join(at, "static.cu"), os.path.join(at, "static.so")
            with open(source, "w", encoding="utf-8") as f:
                f.write(STATIC)
            words = ["nvcc", "-arch=native", "--shared", "-Xcompiler", "-fPIC", "-cudart", "static"]
            subprocess.run([*words, "-o", library, source], check=True)
            state["library"] = ctypes.CDLL(library)

    def launch():
        if not state:
            build()
        number = torch.zeros(1, dtype=torch.int32, device="cuda")
        torch.cuda.synchronize()
        if state["library"].launch(ctypes.c_void_p(number.data_ptr()), LAUNCHES) != 0:
            raise RuntimeError("the launch failed")
        check_count(number.cpu(), LAUNCHES)

    return launch


def jax_jit():
    """Launches with JAX. Its command buffers are off: they are CUDA graphs, which count as one launch each."""
    state = {}

    def prepare():
        os.environ["XLA_PYTHON_CLIENT_PREALLOCATE"] = "false"
        os.environ["XLA_FLAGS"] = os.environ.get("XLA_FLAGS", "") + " --xla_gpu_enable_command_buffer="
        import jax

        if jax.default_backend() != "gpu":
            raise RuntimeError("JAX has no GPU here")
        state["f"] = jax.jit(lambda x: jax.numpy.tanh(x @ x).sum(axis=0) * 2)
        state["x"] = jax.numpy.ones((512, 512))

    def launch():
        if not state:
            prepare()
        for _ in range(LAUNCHES):
            state["f"](state["x"]).block_until_ready()

    return launch


def language_model():
    """Launches by generating text with a small GPT-2 of Hugging Face's transformers."""
    state = {}

    def launch():
        if not state:
            from transformers import GPT2Config, GPT2LMHeadModel

            config = GPT2Config(n_layer=4, n_head=8, n_embd=512, vocab_size=1000)
            state["model"] = GPT2LMHeadModel(config).eval().cuda()
            state["text"] = torch.ones(1, 8, dtype=torch.long, device="cuda")
        state["model"].generate(
            state["text"],
            attention_mask=torch.ones_like(state["text"]),
            max_new_tokens=LAUNCHES,
            do_sample=False,
            pad_token_id=0,
        )

    return launch


def all_reduce():
    """Launches with NCCL, from one process over all GPUs."""

    def launch():
        n = torch.cuda.device_count()
        if n < 2:
            raise RuntimeError("one GPU")
        numbers = [torch.ones(1 << 20, device=f"cuda:{i}") for i in range(n)]
        for _ in range(LAUNCHES):
            torch.cuda.nccl.all_reduce(numbers)
        for i in range(n):
            torch.cuda.synchronize(i)
        if numbers[0][0].item() != float(n) ** LAUNCHES:
            raise AssertionError("NCCL's sums are wrong")

    return launch
