#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""make-entries.py OUTPUT COMPILER...: writes the functions of a loader, from CL/cl_icd.h as the compiler reads it

It writes two functions for each entry of the dispatch table, in assembler, because they use only their first argument.
The public one jumps to that entry of the first layer's table. The loader's own one, which ends the chain, jumps to that
entry of the table of its first argument, which is an object. Functions that have no object there, and those in which
the loader itself does something, are written by hand (loader.c).
"""

import re
import subprocess
import sys

STARTS = ["clGetPlatformIDs", "clGetExtensionFunctionAddress", "clCreateContext", "clCreateContextFromType"]
BY_HAND = [*STARTS, "clUnloadCompiler", "clWaitForEvents"]
REGISTERS = ["rdi", "rsi", "rdx", "rcx", "r8", "r9"]
INVALID = {
    "cl_platform_id": -32,
    "cl_device_id": -33,
    "cl_context": -34,
    "cl_command_queue": -36,
    "cl_mem": -38,
    "cl_sampler": -41,
    "cl_program": -44,
    "cl_kernel": -48,
    "cl_event": -58,
}

output, *compiler = sys.argv[1:]
HEADER = "#include <CL/cl.h>\n#include <CL/cl_icd.h>\n"
text = subprocess.run(
    [*compiler, "-E", "-P", "-DCL_TARGET_OPENCL_VERSION=300", "-x", "c", "-"],
    input=HEADER,
    stdout=subprocess.PIPE,
    text=True,
    check=True,
).stdout
TABLE = re.search(r"typedef struct _cl_icd_dispatch\s*\{(.*?)\}", text, re.S).group(1)
NAMES = re.findall(r"(\w+);", TABLE)
TYPE = r"typedef ([^;{}()]*)\(\s*\*cl_api_(\w+)\)\(([^;]*)\)"
TYPES = {name: (result.strip(), parameters) for result, name, parameters in re.findall(TYPE, text)}


def public(name, n):
    """Returns the public function. One that starts the loader first saves its arguments, which are six at most."""
    start = "".join(f"push %{r}; " for r in REGISTERS) + "sub $8, %rsp; call loader_start; add $8, %rsp; "
    start += "".join(f"pop %{r}; " for r in reversed(REGISTERS))
    go = f"{start if name in STARTS else ''}mov loader_first(%rip), %rax; jmp *{8 * n}(%rax)"
    return f".globl {name}\n.type {name}, @function\n{name}: {go}\n"


def main(name, n):
    result, parameters = TYPES.get(name, ("", ""))
    error = INVALID.get(parameters.replace("const ", "").split(" ")[0].split("*")[0].strip(), -30)
    place = parameters.count(",")
    says = ""
    if "(" not in parameters and "errcode_ret" in parameters and place < len(REGISTERS):
        says = f"test %{REGISTERS[place]}, %{REGISTERS[place]}; jz 2f; movl ${error}, (%{REGISTERS[place]})\n2: "
    value = error if result == "cl_int" else 0
    go = f"test %rdi, %rdi; jz 1f; mov (%rdi), %rax; jmp *{8 * n}(%rax)"
    return f"main_{name}: {go}\n1: {says}mov ${value}, %eax; cltq; ret\n"


with open(output, "w", encoding="ascii") as f:
    print('.section .note.GNU-stack,"",@progbits\n.text', file=f)
    for number, function in enumerate(NAMES):
        print(public(function, number) + ("" if function in BY_HAND else main(function, number)), end="", file=f)
    print("ended: mov $-59, %eax; ret", file=f)
    print('.section .data.rel.ro,"aw"\n.balign 8', file=f)
    print(".hidden loader_main, loader_ended, loader_first, loader_start", file=f)
    print(".globl loader_main\nloader_main:", file=f)
    for function in NAMES:
        print(f".hidden main_{function}" if function in BY_HAND else "", file=f)
        print(f".quad main_{function}", file=f)
    print(".globl loader_ended\nloader_ended:" + "\n.quad ended" * len(NAMES), file=f)
