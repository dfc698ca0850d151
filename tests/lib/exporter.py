# SPDX-License-Identifier: LGPL-2.1-or-later
"""xsched-exporter with a real service, for the tests of its metrics and of its scrapers."""

import os
import shutil
import socket
import subprocess
import tempfile

from harness import *
from scraper import scrape

EXPORTER, QUICK = os.environ["XSCHED_EXPORTER"], os.environ["XSCHED_EXPORTER_QUICK"]  # waits less: quick-build.h
DEVICE_ID, OTHER_ID = "pci:0000:01:00.0", "opencl:pocl:cpu:0"
CONNECTIONS_MAX = 32  # HTTP_CONNECTIONS_MAX
ASKING = 0.25  # HTTP_ASKING_NS, in seconds
FRESH_NS = 1_000_000_000  # COLLECT_FRESH_NS
MEASURED = (
    "source=test\\nutilisation=37\\ntemperature_mc=61500\\nvram_total=64000\\nvram_used=5000\\npower_uw=212500000\\n"
)


class ExporterCase(Case):
    config = "[Scheduler]\nStarveAfter=1h\n"
    exporter_options = ()
    exporter_build = QUICK

    def setUp(self):
        scratch = tempfile.mkdtemp(prefix="xsched-exporter-")
        self.addCleanup(shutil.rmtree, scratch)
        self.measures(f"printf '{MEASURED}'", scratch)
        super().setUp()
        self.listener = self.listen()
        self.addCleanup(self.listener.close)
        self.port = self.listener.getsockname()[1]
        self.exporter = None
        self.start()

    def listen(self):
        return socket.create_server(("127.0.0.1", 0), backlog=1024)

    def measures(self, text, scratch=None):
        """The program that the service starts to measure a device."""
        self.program_path = f"{scratch}/measure" if scratch else self.program_path
        with open(self.program_path + ".new", "w", encoding="utf-8") as f:
            f.write(f"#!/bin/sh\n{text}\n")
        os.chmod(self.program_path + ".new", 0o755)
        os.rename(self.program_path + ".new", self.program_path)
        os.environ["XSCHED_METRICS"] = self.program_path

    def start(self, *options):
        command = [self.exporter_build, f"--bus-address={self.bus.address}", *self.exporter_options, *options]
        self.exporter = Process(command, fds=[self.listener.fileno()], names=["http"])
        self.addCleanup(self.exporter.end)

    def tearDown(self):
        self.assertFalse(self.exporter.ended() and self.exporter.wait() != 0, "the exporter failed")
        super().tearDown()

    def scrape(self, accept=None):
        return scrape(self.port, accept)

    def fresh(self):
        """An answer to a query made after now; the exporter queries the service at limited intervals."""

        def stamp(metrics):
            return metrics.value("xsched_exporter_collect_seconds"), metrics.value("xsched_wakeups_total")

        def newer():
            metrics = self.scrape()
            return metrics if stamp(metrics) != before else None

        before = stamp(self.scrape())
        return until(newer, "a new answer", nap=0.02)

    def promtool(self, text):
        done = subprocess.run(
            [os.environ["PROMTOOL"], "check", "metrics"], input=text, capture_output=True, text=True, check=False
        )
        self.assertEqual((done.returncode, done.stdout + done.stderr), (0, ""))

    def load(self):
        """A high client with work on both devices, and a low client that waits for it on one."""
        high, slot = self.tenant("high", Priority=10)
        other = high.queue(OTHER_ID)
        low, low_slot = self.tenant("low")
        for s in (slot, low_slot, other):
            s.edge(1)
        until(lambda: low_slot.held, "it waits")
        return high, slot, low, low_slot
