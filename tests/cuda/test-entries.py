#!/usr/bin/python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""The CUDA layer knows each function of NVIDIA's header that gives a device work or waits for it: test-entries.py
CUDA_H ENTRIES_H

WORK matches the names of such functions; NO_WORK excludes those that only look like it.
"""

import re
import sys

WORK = re.compile(
    r"Launch|Async$|^cuMemcpy|^cuMemset|^cuStream(Wait|Write|Batch)|Synchronize|(Event|Record)$|EventQuery"
)
NO_WORK = re.compile(
    r"^cu\w*Node\w*$"  # builds or queries a graph
    r"|^cuDevice(Un)?[Rr]egisterAsync\w*$"  # notifications
    r"|^cuD3D|^cuGL|^cuVDPAU|^cuEGL|^cuGraphics"
    r"|^cuIpc(Get|Open)\w*$|^cuEvent(Create|Destroy)$|^cuGraph\w*Event$|^cuLaunchAttribute"
    r"|^cuMemset\w*Node|^cuFuncSet|^cuMulticast|^cuStreamGet|^cuCtx(Get|Set)"
)


def main():
    with open(sys.argv[1], encoding="utf-8", errors="replace") as f:
        text = f.read()
    with open(sys.argv[2], encoding="utf-8") as f:
        known = set(re.findall(r"^(?:HOOKED|COUNTED|HELPER)\((\w+)\)$", f.read(), re.M))
    declared = set(re.findall(r"CUresult\s+CUDAAPI\s+(cu\w+)\(", text))
    # The header maps a function to the versioned name that the library has for it.
    mapped = dict(re.findall(r"#define\s+(cu\w+)\s+(?:__CUDA_API_PT[DS]S?Z?\()?(cu\w+)\)?", text))
    wanted = {mapped.get(n, n) for n in declared if WORK.search(n) and not NO_WORK.search(n)}
    missing = sorted(wanted - known)
    print(f"{len(declared)} functions, {len(wanted)} of work; unknown: {' '.join(missing) or 'none'}")
    return 1 if missing or len(wanted) < 60 else 0


sys.exit(main())
