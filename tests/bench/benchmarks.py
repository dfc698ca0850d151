#!/usr/bin/python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Runs the benchmarks and writes BENCHMARKS.md: benchmarks.py [OPTION...] [NAME...]

Each benchmark's figures, with machine, settings and command, are kept as one JSON file under tests/bench/results/, and
BENCHMARKS.md is rendered from all files there. So figures of a machine that is not at hand (a GPU) stay until they are
measured again. Without NAME, all benchmarks are run; --list prints their names.

  --build=DIR      the build directory (build beside this source tree)
  --results=DIR    where the JSON files are (tests/bench/results)
  --output=FILE    the document (BENCHMARKS.md); --output= for none
  --render         run nothing, only write the document
  --quick          short runs, for trying this script; do not keep their figures
  --low=N,...      batch jobs of the two-tenants benchmark (1,3 on a CPU, 1,3,7 on a GPU)
  --mix=NAME,...   subsets of the mix benchmark: 300, 900, long, more, few (few); the others stay as they were.
                   300:5 measures those pairs of 300 that have a kernel of 5 us. mix-paced is the same on the paced
                   device (tests/opencl/paced-device.h)
  --mix-option=OPTION
                   passed on to bench-mix.py, as --limit=S; may be repeated
  --mix-again=NAME only those mixes of the subsets that the result NAME (mix-nvidia-h200) has farther off than 3 %
  --gpus=N         divide the mixes among so many of NVIDIA's GPUs, which are measured at once
  --demo=OPTION    passed on to xsched-demo; may be repeated
  --cuda=OPTION    passed on to bench-cuda.py; may be repeated
  --examples=DIR   XSched's own examples, compiled by nvcc: see bench-examples.py
  --llama=DIR,...  llama.cpp's own programs, built with CUDA: see bench-llama.py
  --tag=NAME       keep the results under this name, beside those of other settings
  --list           print the names of the benchmarks
  --help           print this help

Measure on a machine that does nothing else. For a machine without a source tree, run tools/bundle here, and there

  xsched-bundle/run xsched-bundle/tests/bench/benchmarks.py --results=DIR --output= demo

then copy DIR's files to tests/bench/results/ and run this script with --render.
"""

import datetime
import json
import os
import platform
import re
import subprocess
import sys
import tempfile
import textwrap

import cuda_table
import fleet_table
import mix_parts
import study_table
from document import INTRODUCTION, SECTIONS
from mix_table import merged, misses, write_plots

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
COLUMNS = 120


class Failure(Exception):
    pass


class Options:
    def __init__(self, arguments):
        self.build = os.path.join(ROOT, "build")
        self.results = os.path.join(HERE, "results")
        self.output = os.path.join(ROOT, "BENCHMARKS.md")
        self.render = self.quick = self.list = False
        self.low = None
        self.mix, self.mix_words, self.mix_again, self.gpus = ["few"], [], "", 0
        self.demo, self.cuda = [], []
        self.examples, self.llama = "", []
        self.tag = ""
        self.environment = {}  # of the benchmark, recorded with its command
        self.names = []
        for argument in arguments:
            key, _, value = argument.partition("=")
            if key == "--help":
                print(__doc__.strip())
                sys.exit(0)
            elif key in ("--build", "--results", "--output", "--examples"):
                setattr(self, key[2:], os.path.abspath(value) if value else "")
            elif key in ("--render", "--quick", "--list"):
                setattr(self, key[2:], True)
            elif key == "--low":
                self.low = [int(n) for n in value.split(",")]
            elif key == "--mix":
                self.mix = value.split(",")
            elif key == "--mix-option":
                self.mix_words.append(value)
            elif key == "--mix-again":
                self.mix_again = value
            elif key == "--gpus":
                self.gpus = int(value)
            elif key == "--demo":
                self.demo.append(value)
            elif key == "--llama":
                self.llama = [os.path.abspath(directory) for directory in value.split(",")]
            elif key == "--cuda":
                self.cuda.append(value)
            elif key == "--tag":
                self.tag = value
            elif key.startswith("-"):
                raise Failure(f"unknown option {argument}; --help lists them")
            else:
                self.names.append(argument)


# --- running ---------------------------------------------------------------------------------------------------


def read_file(path):
    try:
        with open(path, encoding="utf-8", errors="replace") as f:
            return f.read()
    except OSError:
        return ""


def machine():
    cpu = re.search(r"^model name\s*:\s*(.+)$", read_file("/proc/cpuinfo"), re.M)
    distribution = re.search(r'^PRETTY_NAME="?([^"\n]*)', read_file("/etc/os-release"), re.M)
    return {
        "cpu": cpu.group(1) if cpu else platform.machine(),
        "cpus": len(os.sched_getaffinity(0)),
        "kernel": re.match(r"\d+(\.\d+)*", platform.release()).group(),
        "system": distribution.group(1) if distribution else platform.system(),
        "load": os.getloadavg()[0],
    }


def source_version():
    bundled = read_file(os.path.join(ROOT, "VERSION")).strip()
    if bundled:
        return bundled
    try:
        version, changed = (
            subprocess.run(["git", "-C", ROOT, *words], capture_output=True, text=True, check=False).stdout.strip()
            for words in (
                ["describe", "--always"],
                # This script's own output does not change what it measures.
                ["status", "--porcelain", "--untracked-files=no", ":!BENCHMARKS.md", ":!tests/bench/results"],
            )
        )
        return version + ("-dirty" if changed else "")
    except OSError:
        return ""


def run(command):
    """Returns a command's standard output. Its standard error is ours."""
    print("+", " ".join(shown(command)), file=sys.stderr, flush=True)
    r = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    if r.returncode:
        raise Failure(f"{' '.join(shown(command))} failed with status {r.returncode}")
    return r.stdout


def shown(command):
    """Returns the command as a reader can type it in the source tree."""
    return [word.replace(ROOT + "/", "") for word in command]


def in_session(options, program, *arguments):
    session = os.path.join(options.build, "tools", "xsched-session")
    config = os.path.join(HERE, "bench.conf")
    exe = os.path.join(options.build, "tests", "bench", program)
    return [session, "--shim=none", f"--config={config}", "--", exe, *arguments]


def keep(options, name, command, data):
    os.makedirs(options.results, exist_ok=True)
    path = os.path.join(options.results, name + ".json")
    record = {
        "name": name,
        "date": datetime.date.today().isoformat(),
        "source": source_version(),
        "machine": machine(),
        "command": " ".join([*(f"{k}={v}" for k, v in options.environment.items()), *shown(command)]),
        "data": data,
    }
    with open(path + ".new", "w", encoding="utf-8") as f:
        json.dump(record, f, indent=1)
        f.write("\n")
    os.replace(path + ".new", path)


def run_decision(options):
    command = in_session(options, "bench-decision", "--json", f"--rounds={100 if options.quick else 3000}")
    keep(options, "decision", command, json.loads(run(command)))


def run_load(options):
    seconds = f"--seconds={1 if options.quick else 10}"
    many = "--clients=50" if options.quick else "--clients=1000"
    rows = []
    for policy in ("tree", "hpf", "cfs"):
        for arguments in (["--clients=2"], [many], [many, "--spread"]):
            command = in_session(options, "bench-load", "--json", seconds, *arguments)
            command.insert(1, f"--policy={policy}")
            rows.append(json.loads(run(command)) | {"policy": policy})
    keep(options, "load", command, rows)


def run_idle(options):
    command = in_session(options, "bench-idle", "--json", f"--seconds={1 if options.quick else 10}")
    keep(options, "idle", command, json.loads(run(command)))


def run_control(options):
    environment = {
        "XSCHEDD": os.path.join(options.build, "service", "xschedd"),
        "TEST_CLIENT": os.path.join(options.build, "tests", "lib", "test-client"),
    }
    command = ["/usr/bin/python3", os.path.join(HERE, "bench-control.py"), *(["--quick"] if options.quick else [])]
    os.environ.update(environment)
    keep(options, "control", command, json.loads(run(command)))


def run_accounting(options):
    words = [
        f"{HERE}/bench-accounting.py",
        f"{options.build}/tools/xschedctl",
        f"{options.build}/tests/lib/test-client",
    ]
    command = [
        f"{options.build}/tools/xsched-session",
        "--shim=none",
        f"--config={HERE}/bench.conf",
        "--",
        "/usr/bin/python3",
        *words,
    ]
    keep(options, "accounting", command, run(command))


def run_attack(options):
    os.environ.update(
        XSCHEDD=f"{options.build}/service/xschedd", TEST_CLIENT="", ATTACKER=f"{options.build}/tests/lib/attacker"
    )
    command = ["/usr/bin/python3", os.path.join(HERE, "bench-attack.py"), *(["--quick"] if options.quick else [])]
    keep(options, "attack", command, json.loads(run(command)))


def run_preempt(options):
    player = os.path.join(options.build, "tests", "kfdsim", "xsched-demo-amd-sim")
    if not os.path.exists(player):
        print("without the HSA runtime there is no simulated GPU: preempt is left out", file=sys.stderr)
        return
    os.environ.update(
        XSCHEDD=os.path.join(options.build, "service", "xschedd"),
        PLAYER=player,
        TEST_CLIENT="",
        YARDSTICK=os.path.join(options.build, "tests", "bench", "bench-wake"),
    )
    command = ["/usr/bin/python3", os.path.join(HERE, "bench-preempt.py"), *(["--quick"] if options.quick else [])]
    keep(options, "preempt", command, json.loads(run(command)))


# By tag: the settings and the environment of the same tenants. They run with all levels; with only a bound on each
# queue's launches in flight, as XSched's level 1, also with a smaller window; with level 3; and with a threshold of 1.
AMD_SIM = {
    "": ([], {}),
    "level-1": (["--set=Preemption=1", "--set=Threshold=16", "--set=Budget=0"], {}),
    "level-1-16-8": (["--set=Preemption=1", "--set=Threshold=16", "--set=Budget=0"], {"XSCHED_DEMO_WINDOW": "16/8"}),
    "level-3": (["--set=Preemption=3", "--set=Threshold=16", "--set=Budget=0"], {}),
    "threshold-1": (["--set=Threshold=1"], {}),
}


def run_amd_sim(options):
    if not os.path.exists(os.path.join(options.build, "tests", "kfdsim", "xsched-demo-amd-sim")):
        print("without the HSA runtime there is no simulated GPU: amd-sim is left out", file=sys.stderr)
        return
    kept = options.demo, options.tag, options.low
    for tag, (settings, environment) in AMD_SIM.items():
        options.demo, options.tag, options.low = ["--device=amd-sim", *kept[0], *settings], tag, kept[2] or [1]
        options.environment = environment
        os.environ.update(environment)
        run_demo(options)
        for name in environment:
            del os.environ[name]
    options.demo, options.tag, options.low = kept
    options.environment = {}


def slug(text):
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")[:40]


def run_demo(options):
    demo = os.path.join(options.build, "tools", "demo", "xsched-demo")
    rows, low = [], options.low or [1, 3]
    for i in range(8):
        if i >= len(low):
            break
        command = [demo, "--json", f"--low={low[i]}", *(["--duration=2"] if options.quick else []), *options.demo]
        result = json.loads(run(command))
        for phase in result["phases"]:
            del phase["latency"]["samples_us"]
        rows.append(result)
        if result["gpu"] and not options.low and 7 not in low:
            low.append(7)
    simulated = result["device"].startswith("simulated")
    name = "demo-" + ("amd-sim" if simulated else slug(result["device"]) if result["gpu"] else "cpu")
    keep(options, name + (f"-{slug(options.tag)}" if options.tag else ""), command, rows)


def run_apart(name, *command):
    """Runs a benchmark in a session of its own, so that it as a whole can go before the machine's other work. Returns
    the command, its data, and the name for this device."""
    command = ["setsid", "--wait", *command]
    data = json.loads(run(command))
    return command, data, named(name, data)


def named(name, data):
    return f"{name}-" + (slug(data["device"]) if data["gpu"] else "cpu")


def run_mix(options):
    program = [f"{HERE}/bench-mix.py", *(["--quick"] if options.quick else []), *options.mix_words]
    if options.mix_again:
        names = mix_parts.names_again(os.path.join(options.results, options.mix_again + ".json"), options.mix)
        if not names:
            print("no mix is farther off than 3 %: mix is left out", file=sys.stderr)
            return
        with tempfile.NamedTemporaryFile("w", encoding="utf-8") as f:
            f.write("\n".join(names))
            f.flush()
            run_mixes(options, [*program, f"--only={f.name}"])
    else:
        run_mixes(options, program)


def run_mixes(options, program):
    session = [f"{options.build}/tools/xsched-session", f"--config={HERE}/bench.conf", "--", "python3"]
    words = [f"{options.build}/tests/opencl/mix-tenant", *options.mix]
    if options.gpus:
        commands = [
            ["setsid", "--wait", *session, *program, f"--part={i}/{options.gpus}", *words] for i in range(options.gpus)
        ]
        print("+", options.gpus, "times, with a --part each:", *shown(commands[0]), file=sys.stderr, flush=True)
        command, parts = commands[0], mix_parts.run(commands)
        if not parts:
            raise Failure("each part failed")
        data = mix_parts.joined(parts, len(parts) == options.gpus)
        name = named("mix", data)
    else:
        command, data, name = run_apart("mix", *session, *program, *words)
    for subset in data["subsets"]:
        subset["measured"] = f"{datetime.date.today().isoformat()} at {source_version()}"
    missed = misses(data)
    keep(options, name, command, merged(os.path.join(options.results, name + ".json"), data))
    if missed:
        raise Failure("farther off than their bound:\n" + "\n".join(missed))


def run_mix_paced(options):
    with tempfile.TemporaryDirectory() as directory:
        paced = f"{options.build}/tests/opencl/libpaced-opencl.so"
        os.environ.update(OCL_ICD_VENDORS=paced, PACED_DEVICE=f"{directory}/device")
        try:
            run_mix(options)
        finally:
            del os.environ["OCL_ICD_VENDORS"], os.environ["PACED_DEVICE"]


def run_bound(options):
    words = [*(["--quick"] if options.quick else []), f"{options.build}/tools/demo/xsched-demo"]
    command, data, name = run_apart("bound", "python3", f"{HERE}/bound.py", *words)
    keep(options, name, command, data)


def run_mean(options):
    programs = [f"{options.build}/tests/opencl/{name}" for name in ("timed", "mix-tenant")]
    words = [*(["--quick"] if options.quick else []), *programs]
    session = [f"{options.build}/tools/xsched-session", f"--config={HERE}/bench.conf", "--"]
    command, data, name = run_apart("mean", *session, "python3", f"{HERE}/bench-mean.py", *words)
    keep(options, name, command, data)


def run_stamps(options):
    command, data, name = run_apart("stamps", f"{options.build}/tests/bench/bench-stamps")
    keep(options, name, command, data)


def run_cuda(options):
    words = ["python3", f"{HERE}/bench-cuda.py", f"--layer={options.build}/shim/libxsched-cuda.so"]
    words += [*(["--seconds=1"] if options.quick else []), *options.cuda]
    session = [f"{options.build}/tools/xsched-session", f"--config={HERE}/bench.conf", "--"]
    command, data, name = run_apart("cuda", *session, *words)
    keep(options, name + (f"-{slug(options.tag)}" if options.tag else ""), command, data)


def run_examples(options):
    if not options.examples:
        print("without --examples= there is nothing to run: examples is left out", file=sys.stderr)
        return
    words = ["python3", f"{HERE}/bench-examples.py", f"--layer={options.build}/shim/libxsched-cuda.so"]
    words += [*(["--seconds=1"] if options.quick else []), options.examples]
    session = [f"{options.build}/tools/xsched-session", "--policy=hpf", "--shim=none", "--"]
    command, data, name = run_apart("examples", *session, *words)
    keep(options, name, command, data)


def run_llama(options):
    if not options.llama:
        print("without --llama= there is nothing to run: llama is left out", file=sys.stderr)
        return
    words = ["python3", f"{HERE}/bench-llama.py", f"--layer={options.build}/shim/libxsched-cuda.so"]
    words += [*(["--seconds=1"] if options.quick else []), *options.llama]
    session = [f"{options.build}/tools/xsched-session", f"--config={HERE}/bench.conf", "--shim=none", "--"]
    command, data, name = run_apart("llama", *session, *words)
    keep(options, name, command, data)


def run_cuda_launch(options):
    if not os.path.exists("/dev/nvidiactl"):
        print("there is no GPU of NVIDIA's: cuda-launch is left out", file=sys.stderr)
        return
    session = [f"{options.build}/tools/xsched-session", f"--config={HERE}/bench.conf", "--shim=none", "--"]
    words = [
        "/usr/bin/python3",
        f"{HERE}/bench-cuda-launch.py",
        *(["--processes=2", "--rounds=1"] if options.quick else []),
    ]
    command = [
        *session,
        *words,
        f"{options.build}/tests/bench/cuda-launches",
        f"{options.build}/shim/libxsched-cuda.so",
    ]
    text = run(command)
    keep(options, f"launch-cuda-{slug(text.splitlines()[0])}", command, text)


def run_study(options):
    words = [*(["--quick"] if options.quick else []), f"{options.build}/tools/demo/xsched-demo"]
    command, data, name = run_apart("study", "python3", f"{HERE}/study.py", *words)
    keep(options, name, command, data)


def run_orderings(options):
    command = [os.path.join(options.build, "tests", "bench", "bench-orderings")]
    keep(options, "orderings", command, json.loads(run(command)))


def run_fleet(options):
    exe = os.path.join(options.build, "tools", "fleet-sim")
    command = [exe, "--json", "--check", *(["--hosts=8", "--length=40s"] if options.quick else ["--length=10min"])]
    keep(options, "fleet", command, json.loads(run(command)))


def run_hosts(options):
    os.environ.update(XSCHEDD=f"{options.build}/service/xschedd", TEST_CLIENT=f"{options.build}/tests/lib/test-client")
    words = ["--hosts=8", "--events=6", "--rounds=2", "--load=1"] if options.quick else []
    command = ["/usr/bin/python3", os.path.join(HERE, "bench-hosts.py"), *words]
    keep(options, "hosts", command, json.loads(run(command)))


def run_text(program, *arguments, session=False):
    """Returns the runner of a benchmark that prints text for people, which is kept as it is. Arguments in capitals
    become paths; a layer that was not built is left out."""

    def runner(options):
        exe = os.path.join(options.build, "tests", "bench", program)
        if not os.path.exists(exe):
            print(f"{os.path.relpath(exe)} was not built: left out", file=sys.stderr)
            return
        paths = {
            "LAYER": "shim/libxsched-opencl.so",
            "KFD-LAYER": "shim/libxsched-kfd.so",
            "CUDA-LAYER": "shim/libxsched-cuda.so",
            "KFDSIM": "tests/kfdsim/libkfdsim.so",
        }
        words = [os.path.join(options.build, paths[word]) if word in paths else word for word in arguments]
        words = [word for word in words if "libxsched-" not in word or os.path.exists(word)]
        command = in_session(options, program, *words) if session else [exe, *words]
        keep(options, program.replace("bench-", ""), command, run(command))

    return runner


BENCHMARKS = {
    "demo": run_demo,
    "mix": run_mix,
    "mix-paced": run_mix_paced,
    "bound": run_bound,
    "study": run_study,
    "mean": run_mean,
    "stamps": run_stamps,
    "cuda": run_cuda,
    "examples": run_examples,
    "llama": run_llama,
    "cuda-launch": run_cuda_launch,
    "launch": run_text("bench-launch", "LAYER", session=True),
    "launch-path": run_text("bench-launch-path", "LAYER"),
    "launch-path-cuda": run_text("bench-launch-path-cuda"),
    "doorbell": run_text("bench-doorbell", "KFD-LAYER", "KFDSIM"),
    "gate": run_text("bench-gate"),
    "exec": run_text("bench-exec", "LAYER", "CUDA-LAYER", "KFD-LAYER"),
    "amd-sim": run_amd_sim,
    "preempt": run_preempt,
    "decision": run_decision,
    "load": run_load,
    "edge": run_text("bench-edge"),
    "cycle": run_text("bench-cycle"),
    "idle": run_idle,
    "control": run_control,
    "accounting": run_accounting,
    "attack": run_attack,
    "policy": run_text("bench-policy"),
    "orderings": run_orderings,
    "fleet": run_fleet,
    "hosts": run_hosts,
}


# --- the document ---


def records(options):
    found = []
    if os.path.isdir(options.results):
        for name in sorted(os.listdir(options.results)):
            if name.endswith(".json"):
                with open(os.path.join(options.results, name), encoding="utf-8") as f:
                    found.append(json.load(f))
    # GPUs come first: they matter most.
    return sorted(
        found, key=lambda r: (r["name"].startswith("demo-cpu"), r["name"].startswith("demo-amd-sim"), r["name"])
    )


def wrapped(text):
    """Wraps the text at 120 columns, except for tables, headings, pictures and commands."""
    lines = []
    for line in text.split("\n"):
        indent = "  " if line.startswith("- ") else ""
        is_prose = len(line) > COLUMNS and not line.startswith(("|", "#", "!", "    "))
        lines += (
            textwrap.wrap(line, COLUMNS, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)
            if is_prose
            else [line]
        )
    return "\n".join(lines)


def render(options):
    text = INTRODUCTION
    found = records(options)
    write_plots(options.results, found)
    fleet_table.write_plots(options.results, found)
    study_table.write_plots(options.results, found)
    cuda_table.write_plots(options.results, found)
    for title, note, patterns, renderer in SECTIONS:
        parts = [renderer(r) for pattern in patterns for r in found if re.fullmatch(pattern, r["name"])]
        if parts:
            text += f"\n## {title}\n\n" + "\n".join([note, *parts] if note else parts)
    with open(options.output, "w", encoding="utf-8") as f:
        f.write(wrapped(text))
    print(f"wrote {options.output}", file=sys.stderr)


def main():
    options = Options(sys.argv[1:])
    if options.list:
        print("\n".join(BENCHMARKS))
        return
    unknown = [name for name in options.names if name not in BENCHMARKS]
    if unknown:
        raise Failure(f"unknown benchmark {unknown[0]}; --list shows the names")
    if not options.render:
        for name in options.names or BENCHMARKS:
            BENCHMARKS[name](options)
    if options.output:
        render(options)


if __name__ == "__main__":
    try:
        main()
    except Failure as e:
        sys.exit(f"benchmarks.py: {e}")
    except KeyboardInterrupt:
        sys.exit(130)
