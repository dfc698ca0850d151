#!/usr/bin/python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""libxsched in a process, with the real xschedd on a bus of the test's own: held, then the service stops, dies and comes back.

The environment names the programs: XSCHEDD, TEST_CLIENT.
"""

import os
import signal
import subprocess
import tempfile
import threading
import time
import unittest

CONFIG = """<!DOCTYPE busconfig PUBLIC "-//freedesktop//DTD D-Bus Bus Configuration 1.0//EN"
 "http://www.freedesktop.org/standards/dbus/1.0/busconfig.dtd">
<busconfig><type>session</type><listen>unix:path={}/bus</listen><policy context="default"><allow send_destination="*"/>
<allow receive_sender="*"/><allow own="*"/></policy></busconfig>
"""
NAME = "org.xsched.Scheduler"
PATH = "/org/xsched/Scheduler"
DEADLINE = 30


def until(condition):
    """The condition's value as soon as it is true."""
    end = time.monotonic() + DEADLINE
    while not (value := condition()):
        if time.monotonic() > end:
            raise AssertionError("never became true")
        time.sleep(0.01)
    return value


class Client:
    """A test-client: one process with one queue."""

    def __init__(self, address):
        environment = dict(os.environ, XSCHED_BUS_ADDRESS=address)
        self.process = subprocess.Popen(
            [os.environ["TEST_CLIENT"], "test:0", "1"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment,
        )
        assert self.answer() == "ready"

    def answer(self):
        return self.process.stdout.readline().strip()

    def send(self, line):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    def ask(self, line):
        self.send(line)
        return self.answer()

    def ask_later(self, line):
        """Returns a list that gets the answer when there is one."""
        answers = []
        self.send(line)
        threading.Thread(target=lambda: answers.append(self.answer()), daemon=True).start()
        return answers

    def counters(self):
        names = ("state", "queues", "launches", "tracked", "waited")
        return dict(zip(names, map(int, self.ask("counters").split())))

    def close(self):
        self.process.kill()
        self.process.wait()
        self.process.stdin.close()
        self.process.stdout.close()


class ShimTest(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        config = os.path.join(directory.name, "bus.conf")
        with open(config, "w", encoding="utf-8") as f:
            f.write(CONFIG.format(directory.name))
        self.address = f"unix:path={directory.name}/bus"
        bus = self.start("dbus-daemon", "--nofork", f"--config-file={config}")
        until(lambda: os.path.exists(f"{directory.name}/bus") or bus.poll())
        self.service = None
        self.start_service()
        self.client = Client(self.address)
        self.addCleanup(self.client.close)

    def start(self, *command):
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        return process

    def start_service(self):
        self.service = self.start(os.environ["XSCHEDD"], f"--bus-address={self.address}")
        until(lambda: self.call(PATH, NAME, "ListClients") is not None)

    def call(self, path, interface, method, *arguments):
        """What busctl prints, None when the call failed."""
        command = ["busctl", f"--address={self.address}", "call", NAME, path, interface, method, *arguments]
        result = subprocess.run(command, capture_output=True, text=True, check=False)
        return result.stdout.strip() if result.returncode == 0 else None

    def client_path(self):
        return until(lambda: self.call(PATH, NAME, "GetClientByPID", "u", str(self.client.process.pid))).split('"')[1]

    def hold(self):
        """Suspends the client, and has it wait at its gate. Returns its answer to come."""
        path = self.client_path()
        self.assertIsNotNone(self.call(path, NAME + ".Client", "Suspend"))
        answers = self.client.ask_later("begin 0")
        queue = until(lambda: self.call(PATH, NAME, "ListQueues")).split('"')[-2]
        state = [f"--address={self.address}", "get-property", NAME, queue, NAME + ".Queue", "Backlog"]
        until(lambda: subprocess.run(["busctl", *state], capture_output=True, text=True, check=False).stdout == "u 1\n")
        self.assertEqual(answers, [])
        return answers

    def test_hold_and_resume(self):
        self.assertEqual(self.client.ask("begin 0"), "untracked")
        answers = self.hold()
        self.assertIsNotNone(self.call(self.client_path(), NAME + ".Client", "Resume"))
        self.assertEqual(until(lambda: answers), ["tracked"])
        self.assertEqual(self.client.ask("complete 0"), "completed")
        self.assertEqual(self.client.counters()["waited"], 1)

    def test_stopped_service(self):
        answers = self.hold()
        self.service.send_signal(signal.SIGSTOP)
        self.assertEqual(until(lambda: answers), ["tracked"])
        self.assertEqual(self.client.ask("begin 0"), "tracked")  # does not wait again
        self.service.send_signal(signal.SIGCONT)
        self.assertEqual(self.client.counters()["state"], 2)

    def test_killed_service(self):
        answers = self.hold()
        self.service.kill()
        self.service.wait()
        self.assertEqual(until(lambda: answers), ["tracked"])
        until(lambda: self.client.counters()["state"] == 3)
        self.assertEqual(self.client.ask("begin 0"), "untracked")

        # The next one knows nothing of the suspension, and gets the process with all that it has counted.
        self.start_service()
        until(lambda: self.client.counters()["state"] == 2 and self.client.counters()["queues"] == 1)
        answers = self.hold()
        self.assertIsNotNone(self.call(self.client_path(), NAME + ".Client", "Resume"))
        until(lambda: answers)
        self.assertEqual(self.client.counters()["launches"], 3)

    def test_killed_client(self):
        answers = self.hold()
        self.client.process.kill()
        until(lambda: self.call(PATH, NAME, "ListClients") == "a(tuusso) 0")
        self.assertNotIn("tracked", answers)


if __name__ == "__main__":
    unittest.main()
