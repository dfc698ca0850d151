# SPDX-License-Identifier: LGPL-2.1-or-later
"""The file-descriptor store of a test, which keeps the descriptors that the service sends to its manager."""

import array
import os
import socket
import threading
import time

from processes import DEADLINE


class Store:
    """The receiving end of NOTIFY_SOCKET, as systemd is one: keeps descriptors, and notes when the service is
    ready."""

    def __init__(self, directory, keep):
        self.keep, self.kept, self.state = keep, [], set()
        self.n_marks, self.marked = 0, None
        self.limit = int(os.environ.get("FDSTORE", 65536))
        self.lock = threading.Condition()
        self.path = os.path.join(directory, "notify")
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(self.path)
        os.chmod(self.path, 0o777)
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def _run(self):
        while True:
            try:
                data, aux, _, _ = self.socket.recvmsg(8192, socket.CMSG_SPACE(253 * 4), socket.MSG_CMSG_CLOEXEC)
            except OSError:
                return
            fds = array.array("i")
            for _, _, raw in aux:
                fds.frombytes(raw[: len(raw) // 4 * 4])
            if data == b"END":
                return
            if data.startswith(b"MARK="):
                with self.lock:
                    self.marked = data
                    self.lock.notify_all()
                continue
            self._take(dict(line.split("=", 1) for line in data.decode().splitlines() if "=" in line), list(fds))

    def _take(self, fields, fds):
        with self.lock:
            name = fields.get("FDNAME", "stored")
            if self.keep and fields.get("FDSTORE") == "1":
                room = self.limit - len(self.kept)  # more descriptors are silently dropped, as by systemd
                self.kept += [(name, fd) for fd in fds[:room]]
                fds = fds[room:]
            if fields.get("FDSTOREREMOVE") == "1":
                for pair in [p for p in self.kept if p[0] == name]:
                    self.kept.remove(pair)
                    os.close(pair[1])
            for key in ("READY", "STOPPING", "RELOADING"):
                if fields.get(key) == "1":
                    self.state.add(key)
            self.lock.notify_all()
        for fd in fds:
            os.close(fd)

    def wait_for(self, key, process):
        """READY=1 of this process, and not of the former one."""
        end = time.monotonic() + DEADLINE
        with self.lock:
            while key not in self.state:
                if process.ended():
                    raise AssertionError(f"xschedd ended with status {process.wait()} before {key}")
                if time.monotonic() > end:
                    raise AssertionError(f"xschedd never said {key}")
                self.lock.wait(0.2)
            self.state.discard(key)

    def settle(self):
        """Reads all messages sent so far. systemd, too, reads them before it handles a service's end."""
        self.n_marks += 1
        mark = f"MARK={self.n_marks}".encode()
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as s:
            s.sendto(mark, self.path)
        with self.lock:
            if not self.lock.wait_for(lambda: self.marked == mark, DEADLINE):
                raise AssertionError("the store does not read")

    def names(self):
        with self.lock:
            return [n for n, _ in self.kept]

    def has(self, client):
        """Waits for all of a client's kept descriptors, which the service may send after it answered the client."""
        number = client.rpartition("/")[2]
        roles = {n.partition("-")[2] for n in self.names() if n.partition("-")[0] == f"c{number}"}
        return roles >= {"page", "lifeline", "wake", "pidfd", "meta"}

    def end(self):
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as s:
            s.sendto(b"END", self.path)
        self.thread.join()
        self.socket.close()
        for _, fd in self.kept:
            os.close(fd)
