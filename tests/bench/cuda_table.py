# SPDX-License-Identifier: LGPL-2.1-or-later
"""The section of BENCHMARKS.md about CUDA, from what bench-cuda.py measured."""

BATCH = {
    "gemm": "layers of 8192 x 28672 in bfloat16, whose kernels take 5 to 7 ms",
    "resnet50": "ResNet-50 with batches of 128",
}


HOW = {
    "scheduled": "Kernels in flight are waited for (level 1).",
    "gate": "Gate: kernels in flight are waited for (level 1).",
    "stop": "Stop: channels are stopped where that is quicker (level 3).",
    "unexpected": "Unexpected: the same with Linger=0, so that nothing is done before the job has come.",
}


def render_cuda(record, table):
    d = record["data"]
    ways = [name for name in ("scheduled", "gate", "stop", "unexpected") if name in d]
    rows = []
    for how in ("eager", "graph"):
        for n in sorted({int(key.split()[-1]) for key in d["native"] if key.startswith(how)}):
            for name in ("native", *ways):
                if f"{how} beside {n}" not in d[name]:
                    continue
                r = d[name][f"{how} beside {n}"]
                alone = d["native"][f"{how} beside 0"]["p99"]
                rows.append(
                    [
                        f"{how} beside {n}, {name}",
                        *(f"{r[key]:.2f}" for key in ("p50", "p90", "p99")),
                        f"{r['p99'] / alone:.2f}x",
                        f"{100 * r['batch'] / d['native']['batch alone']:.0f} %" if n else "",
                    ]
                )
    alone = ", ".join(f"{100 * d[name]['batch alone'] / d['native']['batch alone']:.0f} %" for name in ways)
    return (
        f"### {d['device']}, PyTorch {d['torch']}\n\nResNet-18, one picture 40 times a second, eagerly and as a "
        f"CUDA graph, at priority 200, beside trainings of {BATCH[d['batch']]}; {d['seconds']:g} s each. Natively "
        f"there is no layer and no service. {' '.join(HOW[name] for name in ways)} A training with the device "
        f"for itself, under the layer: {alone} of native.\n\n"
        + table(["", "p50 ms", "p90 ms", "p99 ms", "p99 to alone", "batch, of one alone"], rows)
        + "\n"
    )
