#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""What a real driver has answered, against the stand-in: test-recorded.py FAKE-NVIDIACTL RECORDING...

A recording has the calls of a PyTorch program and of root, who stopped it from outside, on a GPU
(tests/bench/cuda/nvrm-foreign.py, nvrm_trace.py). Each call is made again to fake-rm.c, with the numbers that it gives
to clients. Every answer has to be the recorded one: the status, what was found, and whether the program went on.
"""

import ctypes
import json
import os
import struct
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "../bench/cuda"))
from nvrm_trace import DISABLE, GROUP, is_channel, whole_list

NR_FREE, NR_CONTROL, NR_ALLOC = 0x29, 0x2A, 0x2B
CLIENT, DEVICE = 0x41, 0x80
GET_PCI_INFO, GET_GPU_ID, HANDLE_INFO, CHILD_HANDLE = 0x21B, 0x20800142, 0xD02, 0xD05
OF_THE_MACHINE = (GET_PCI_INFO, GET_GPU_ID)  # what they answer is not compared


class Replay:
    def __init__(self, rm):
        self.rm = rm
        self.files, self.clients, self.work = {}, {}, None
        self.groups = set()

    def file(self, number):
        if number not in self.files:
            self.files[number] = self.rm.fake_rm_open()
        return self.files[number]

    def done(self):
        for file in self.files.values():
            self.rm.fake_rm_close(file)

    def client(self, number):
        """The stand-in's number of a client. One that was not seen to be made stays as it is."""
        return self.clients.get(number, number)

    def numbers(self, data, command):
        """The parameters, with the stand-in's numbers of clients."""
        words = list(struct.unpack(f"={len(data) // 4}I", data[: len(data) // 4 * 4]))
        if command in (HANDLE_INFO, CHILD_HANDLE):
            words = [self.client(w) for w in words]
        return struct.pack(f"={len(words)}I", *words) + data[len(words) * 4 :]

    def call(self, call, nr, head):
        argument = ctypes.create_string_buffer(head, len(head))
        result = self.rm.fake_rm_call(self.file(call["file"]), nr, ctypes.c_size_t(len(head)), argument)
        assert result == 0, result
        return argument.raw

    def alloc(self, call):
        parameters = ctypes.create_string_buffer(bytes.fromhex(call.get("in", "")) + bytes(64))
        names = [self.client(call["client"]), self.client(call["parent"]), call["object"], call["class"]]
        out = self.call(call, NR_ALLOC, struct.pack("=IIIIQII", *names, ctypes.addressof(parameters), 0, 0))
        made, status = struct.unpack_from("=I", out, 8)[0], struct.unpack_from("=I", out, 28)[0]
        if call["class"] == CLIENT:
            self.clients[call["made"]] = made
        elif made != call["made"]:
            return status, f"made {made:#x}, and not {call['made']:#x}"
        if call["class"] == GROUP:
            self.groups.add(call["made"])
        # The program works by the first channel of its first group.
        if is_channel(call["class"]) and self.work is None:
            self.work = (self.client(call["client"]), call["made"])
        return status, None

    def free(self, call):
        names = [self.client(call["client"]), 0, self.client(call["object"]), 0]
        return struct.unpack_from("=I", self.call(call, NR_FREE, struct.pack("=IIII", *names)), 12)[0], None

    def control(self, call):
        command = call["command"]
        if "list" in call:
            given = whole_list({**call, "list": [[self.client(c), o] for c, o in call["list"]]})
        else:
            given = self.numbers(bytes.fromhex(call["in"]), command)
        parameters = ctypes.create_string_buffer(given, max(len(given), 1))
        names = [self.client(call["client"]), self.client(call["object"]), command, 0]
        head = struct.pack("=IIIIQII", *names, ctypes.addressof(parameters), call["size"], 0)
        status = struct.unpack_from("=I", self.call(call, NR_CONTROL, head), 28)[0]
        wanted = self.numbers(bytes.fromhex(call["out"]), command) if "out" in call else given
        if command not in OF_THE_MACHINE and parameters.raw[: len(given)] != wanted:
            return status, f"answered {parameters.raw.hex()}, and not {wanted.hex()}"
        return status, None

    def seen(self, call):
        runs = bool(self.rm.fake_rm_runs(*self.work))
        return None, None if runs == call["runs"] else f"the work {'goes on' if runs else 'stands still'}"


class Recorded(unittest.TestCase):
    def test_answers(self):
        rm = ctypes.CDLL(FAKE)
        rm.fake_rm_runs.restype = ctypes.c_bool
        for path in RECORDINGS:
            with open(path, encoding="utf-8") as f:
                calls = [json.loads(line) for line in f]
            self.assertGreater(sum(c.get("command") == DISABLE for c in calls), 50)
            self.assertEqual({c["runs"] for c in calls if c["call"] == "seen"}, {True, False})
            replay, wrong = Replay(rm), []
            for number, call in enumerate(calls, 1):
                status, other = getattr(replay, call["call"])(call)
                if status != call.get("status"):
                    other = f"status {status:#x}, and not {call['status']:#x}"
                if other:
                    wrong.append(f"{os.path.basename(path)}:{number}: {json.dumps(call)[:160]}: {other}")
            replay.done()
            self.assertEqual(wrong, [], "\n" + "\n".join(wrong))


if __name__ == "__main__":
    FAKE, *RECORDINGS = sys.argv[1:]
    unittest.main(argv=sys.argv[:1])
