#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Current metrics of devices: by rocm_smi_lib (a test double under its name), by sysfs (a directory), and when neither
works."""

import json
import os
import subprocess
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "../lib"))
import dbus
from harness import *

DEVICE_ID = "pci:0000:65:00.0"
OTHER_ID = "pci:0001:02:00.0"
SYSFS = {
    "gpu_busy_percent": "12",
    "mem_info_vram_total": "1000",
    "mem_info_vram_used": "10",
    "hwmon/hwmon0/temp1_input": "40000",
    "hwmon/hwmon0/power1_average": "50000000",
}
OF_SYSFS = {"Utilisation": 12, "VRAMTotal": 1000, "VRAMUsed": 10, "Temperature": 40.0, "Power": 50.0}
OF_NVML = {"Utilisation": 83, "VRAMTotal": 141 << 30, "VRAMUsed": 41 << 30, "Temperature": 47.0, "Power": 312.456}
OF_LIBRARY = {"Utilisation": 37, "VRAMTotal": 64 << 30, "VRAMUsed": 5 << 30, "Temperature": 61.5, "Power": 212.5}
STANDARD = "org.freedesktop.DBus.Error."

# The program that the service starts in place of xsched-metrics, and which starts that in turn. A test can stop it
# before that, and let it go on.
SCRIPT = """#!/bin/sh
echo $$ >>{d}/started
[ ! -p {d}/gate ] || read -r _ <{d}/gate
FAKE_ROCM_SMI=$(cat {d}/mode) FAKE_NVML=$(cat {d}/mode) LD_LIBRARY_PATH=$(cat {d}/path) \
METRICS_ROOT={d}/root exec {program} "$@"
"""


class Metrics(Case):
    def setUp(self):
        self.scratch = tempfile.mkdtemp(prefix="xsched-metrics-")
        self.addCleanup(shutil.rmtree, self.scratch)
        self.put("script", SCRIPT.format(d=self.scratch, program=os.environ["XSCHED_METRICS_PROGRAM"]))
        os.chmod(f"{self.scratch}/script", 0o755)
        self.put("started", "")
        # Files that are no libraries end the search: this machine may have the real one.
        for version in (1, 5, 6, 7):
            self.put(f"none/librocm_smi64.so.{version}", "")
        self.put("none/libnvidia-ml.so.1", "")
        self.use(path=f"{self.scratch}/none")
        os.environ["XSCHED_METRICS"] = f"{self.scratch}/script"
        super().setUp()
        self.client = self.raw()
        self.client.queue(DEVICE_ID)

    def put(self, name, text):
        os.makedirs(os.path.dirname(f"{self.scratch}/{name}"), exist_ok=True)
        with open(f"{self.scratch}/{name}", "w", encoding="utf-8") as f:
            f.write(text)

    def use(self, mode="", path=None):
        """The library is the default."""
        self.put("mode", mode)
        self.put("path", os.environ["FAKE_ROCM_SMI_DIR"] if path is None else path)

    def sysfs(self, device="0000:65:00.0"):
        for name, text in SYSFS.items():
            self.put(f"root/sys/bus/pci/devices/{device}/{name}", text + "\n")

    def device(self, id_=DEVICE_ID):
        return next(d[5] for d in self.call("ListDevices") if d[0] == id_)

    def measure(self, id_=DEVICE_ID, flags=0):
        return self.c.call(NAME, self.device(id_), DEVICE, "Measure", "t", flags)[0]

    def metrics(self):
        return self.get("Metrics", self.device(), DEVICE)

    def started(self):
        with open(f"{self.scratch}/started", encoding="utf-8") as f:
            return [int(line) for line in f]

    def check(self, got, source, values):
        self.assertEqual(got["Source"], source)
        self.assertEqual({k: v for k, v in got.items() if k not in ("Source", "MeasuredUSec")}, values)
        self.assertLessEqual(got["MeasuredUSec"], now_ns() // 1000)

    def test_nothing_by_itself(self):
        self.assertEqual(self.metrics(), {})
        self.c.call(NAME, PATH, "org.freedesktop.DBus.ObjectManager", "GetManagedObjects")
        self.assertEqual(self.started(), [])

    def test_the_library(self):
        self.sysfs()
        self.use()
        m = self.measure()
        self.check(m, "rocm-smi (librocm_smi64.so.1)", OF_LIBRARY)
        self.assertEqual(self.metrics(), m)

    def test_the_other_device(self):
        self.client.queue(OTHER_ID)
        self.use()
        self.assertEqual(self.measure(OTHER_ID)["Utilisation"], 38)

    def test_a_partition(self):
        """KFD has the partition's number in the bits of the function, where the bus has no such function."""
        for device in ("pci:0000:65:00.5", "pci:0000:65:00.6"):
            self.client.queue(device)
        self.sysfs()
        self.use()
        self.assertEqual(self.measure("pci:0000:65:00.5")["Utilisation"], 39)
        self.check(self.measure("pci:0000:65:00.6"), "sysfs; rocm-smi: does not know this device", OF_SYSFS)

    def test_no_library(self):
        self.sysfs()
        self.check(self.measure(), "sysfs; rocm-smi: not found", OF_SYSFS)

    def test_no_library_and_no_sysfs(self):
        self.check(self.measure(), "sysfs; rocm-smi: not found", {})

    def test_another_library_of_that_name(self):
        self.sysfs()
        os.makedirs(f"{self.scratch}/other")
        os.symlink(os.environ["LIBXSCHED"], f"{self.scratch}/other/librocm_smi64.so.1")
        self.use(path=f"{self.scratch}/other")
        self.check(self.measure(), "sysfs; rocm-smi: of another kind than known", OF_SYSFS)

    def test_the_library_fails(self):
        self.sysfs()
        self.use(mode="init")
        self.check(self.measure(), "sysfs; rocm-smi: failed", OF_SYSFS)

    def test_the_library_knows_nothing(self):
        self.sysfs()
        self.use(mode="nothing")
        self.check(self.measure(), "rocm-smi (librocm_smi64.so.1)", OF_SYSFS)

    def test_the_library_does_not_know_the_device(self):
        self.client.queue("pci:0000:99:00.0")
        self.sysfs("0000:99:00.0")
        self.use()
        self.check(self.measure("pci:0000:99:00.0"), "sysfs; rocm-smi: does not know this device", OF_SYSFS)

    def test_the_library_prints(self):
        self.use(mode="noise")
        self.check(self.measure(), "rocm-smi (librocm_smi64.so.1)", OF_LIBRARY)
        self.assertNotIn("Exception", self.service.messages())

    def test_the_library_crashes(self):
        self.use(mode="crash")
        self.assert_error(STANDARD + "IOError", self.measure)
        self.assertEqual(self.metrics(), {})
        self.use()
        self.check(self.measure(), "rocm-smi (librocm_smi64.so.1)", OF_LIBRARY)

    def test_the_library_hangs(self):
        """The service goes on meanwhile, and the child is ended."""
        self.use(mode="hang")
        serial = self.c.send(NAME, self.device(), DEVICE, "Measure", "t", 0)
        until(self.started)
        self.assertEqual(self.get("NClients"), 1)
        self.assert_error(STANDARD + "Timeout", self.c.reply, serial)
        until(lambda: not os.path.exists(f"/proc/{self.started()[0]}"))

    def use_nvml(self, mode="", vendor="0x10de"):
        """NVIDIA's library, and none of AMD's."""
        self.use(mode=mode, path=f"{os.environ['FAKE_NVML_DIR']}:{self.scratch}/none")
        if vendor:
            self.put("root/sys/bus/pci/devices/0000:65:00.0/vendor", vendor + "\n")

    def test_nvml(self):
        self.use_nvml()
        self.check(self.measure(), "nvml (libnvidia-ml.so.1)", OF_NVML)

    def test_nvml_of_a_device_whose_maker_is_not_known(self):
        self.use_nvml(vendor=None)
        self.check(self.measure(), "nvml (libnvidia-ml.so.1)", OF_NVML)

    def test_nvml_is_not_asked_of_others(self):
        self.use_nvml(vendor="0x1002")
        self.check(self.measure(), "sysfs; rocm-smi: not found", {})

    def test_rocm_smi_is_not_asked_of_nvidia(self):
        self.use_nvml()
        self.use(path=f"{os.environ['FAKE_ROCM_SMI_DIR']}:{self.scratch}/none")
        self.check(self.measure(), "sysfs; nvml: not found", {})

    def test_nvml_fails(self):
        self.use_nvml("init")
        self.check(self.measure(), "sysfs; nvml: failed", {})

    def test_nvml_knows_nothing(self):
        self.use_nvml("nothing")
        self.check(self.measure(), "nvml (libnvidia-ml.so.1)", {})

    def test_nvml_does_not_know_the_device(self):
        self.client.queue("pci:0000:99:00.0")
        self.put("root/sys/bus/pci/devices/0000:99:00.0/vendor", "0x10de\n")
        self.use_nvml()
        self.check(self.measure("pci:0000:99:00.0"), "sysfs; nvml: does not know this device", {})

    def test_another_library_by_the_name_of_nvml(self):
        os.makedirs(f"{self.scratch}/other")
        os.symlink(os.environ["LIBXSCHED"], f"{self.scratch}/other/libnvidia-ml.so.1")
        self.use_nvml()
        self.use(path=f"{self.scratch}/other:{self.scratch}/none")
        self.check(self.measure(), "sysfs; nvml: of another kind than known", {})

    def test_several_ask_at_once(self):
        self.use()
        os.mkfifo(f"{self.scratch}/gate")
        connections = [self.connect() for _ in range(3)]
        asked = [c.send(NAME, self.device(), DEVICE, "Measure", "t", 0) for c in connections]
        until(self.started)
        self.assertEqual(self.get("NClients"), 1)  # the three callers before it were noticed
        with open(f"{self.scratch}/gate", "w", encoding="utf-8") as gate:
            gate.write("go\n")
        answers = [c.reply(s)[0] for c, s in zip(connections, asked)]
        self.assertEqual([a["Utilisation"] for a in answers], [37] * 3)
        self.assertEqual(len({a["MeasuredUSec"] for a in answers}), 1)
        self.assertEqual(len(self.started()), 1)

    def test_the_service_ends_meanwhile(self):
        self.use(mode="hang")
        self.c.send(NAME, self.device(), DEVICE, "Measure", "t", 0)
        until(self.started)
        self.service.stop()
        until(lambda: not os.path.exists(f"/proc/{self.started()[0]}"))

    def test_no_program(self):
        os.unlink(f"{self.scratch}/script")
        self.assert_error(STANDARD + "FileNotFound", self.measure)
        self.assertEqual(self.get("NClients"), 1)

    def test_what_cannot_be_measured(self):
        self.client.queue("opencl:pocl:cpu:0")
        self.assert_error(STANDARD + "NotSupported", self.measure, "opencl:pocl:cpu:0")
        self.assert_error(INVALID_ARGS, self.measure, flags=1)
        self.assertEqual(self.started(), [])

    def ctl(self, *args):
        return subprocess.run(
            [os.environ["XSCHEDCTL"], f"--bus-address={self.bus.address}", *args],
            capture_output=True,
            text=True,
            check=True,
        ).stdout

    def test_xschedctl(self):
        """Metrics are asked for AMD GPUs, and for others only when the device is named."""
        self.use()
        self.assertNotIn("UTIL%", self.ctl("list-devices"))
        self.assertEqual(self.started(), [])
        self.assertRegex(self.ctl("show", f"device:{DEVICE_ID}"), r"(?m)^Metrics=Utilisation=37 .*Source=rocm-smi")
        self.ctl("show", f"device:{DEVICE_ID}", "-p", "Id")
        self.assertEqual(len(self.started()), 1)

        self.client.queue(OTHER_ID, Backend=("s", "kfd"))
        text = self.ctl("list-devices", "--full")
        self.assertRegex(text, r"UTIL% +VRAM +TEMP +POWER\n")
        self.assertRegex(text, r"(?m)^pci:0001:02:00.0 .* 38 +5G +61.5 +212.5$")
        devices = {d["device"]: d for d in json.loads(self.ctl("list-devices", "--json=short"))}
        other = devices[OTHER_ID]
        self.assertEqual(
            [
                other[k]
                for k in (
                    "utilisation_percent",
                    "vram_used_bytes",
                    "vram_total_bytes",
                    "temperature_celsius",
                    "power_watts",
                    "metrics_source",
                )
            ],
            [38, 5 << 30, 64 << 30, 61.5, 212.5, "rocm-smi (librocm_smi64.so.1)"],
        )
        self.assertIn("   Metrics: rocm-smi (librocm_smi64.so.1)\n", self.ctl("status"))

    def test_xschedctl_when_nothing_is_known(self):
        self.client.queue(OTHER_ID, Backend=("s", "kfd"))
        self.assertIn("   Metrics: sysfs; rocm-smi: not found\n", self.ctl("status"))
        self.assertNotIn("UTIL%", self.ctl("list-devices"))


if __name__ == "__main__":
    main()
