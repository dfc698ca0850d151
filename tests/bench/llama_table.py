# SPDX-License-Identifier: LGPL-2.1-or-later
"""The section of BENCHMARKS.md about llama.cpp, from what bench-llama.py measured."""


def rows_of_counts(data):
    for name, n in data["counts"].items():
        cupti, layer = n["cupti"], n["layer"]
        yield [
            name.replace("llama.cpp, ", ""),
            cupti["kernels"],
            layer["kernels"],
            layer["with attributes"],
            cupti["graphs"],
            layer["graphs"],
            cupti["kernels in graphs"],
            "yes" if n["same tokens"] else "NO",
        ]


def render_llama(record, table):
    data = record["data"]
    held, cost, shares, beside = (data[key] for key in ("held", "cost", "shares", "beside"))
    head = ["", "kernels, CUPTI", "layer", "of them Ex", "graphs, CUPTI", "layer", "kernels in them", "same tokens"]
    text = (
        f"{data['device']}, driver {data['driver']}: llama.cpp {data['version']}, unchanged, with a model of "
        "random weights, all of it on the GPU. llama-simple generates 300 tokens, with and without the layer. Its "
        "kernels outside of graphs and its launches of graphs, as CUPTI and as the layer count them; "
        "*Ex* are launches with attributes.\n\n"
    )
    text += table(head, list(rows_of_counts(data))) + "\n"
    text += (
        f"The first {held['tokens']} tokens of a model were the same natively, under {held['gate']['holds']} holds at "
        f"the gate, and under {held['stop']['holds']} holds that stopped its kernels.\n\n"
    )
    alone = ", ".join(f"{100 * r['stop'] / r['native']:.1f} % ({test})" for test, r in cost.items())
    asked = ", ".join(f"{100 * s['share']:.1f} % ({test})" for test, s in shares.items())
    both = ", ".join(f"{100 * sum(s['rates']) / cost[t]['native']:.0f} % ({t})" for t, s in shares.items())
    text += (
        f"llama-bench alone, with the layer and the service, does {alone} of what it does without. Of two at 300:100 "
        f"the first gets {asked}, which should be 75 %, and both together do {both} of what one alone does natively. "
        "ResNet-18 as a CUDA graph, 40 times a second, beside a llama-bench that processes prompts of 4096 tokens:\n\n"
    )
    rows = []
    for way, r in beside.items():
        whole = cost["prompts"]["native"]
        rows.append(
            ["native" if way == "native" else "at priority 200, kernels stopped"]
            + [f"{r[where][key]:.2f}" for where in ("alone", "beside") for key in ("p50", "p99")]
            + [f"{100 * r['rate'] / whole:.0f} %"]
        )
    head = ["", "alone, p50 ms", "p99 ms", "beside, p50 ms", "p99 ms", "prompts, of one alone"]
    return text + table(head, rows) + "\n"
