# SPDX-License-Identifier: LGPL-2.1-or-later
"""Files whose close never ends: they are of a file system in a process (FUSE), as every user may have one, which does
not answer the request of a process that closes a file."""

import ctypes
import errno
import os
import struct
import tempfile

LOOKUP, FORGET, GETATTR, OPEN, RELEASE, FLUSH, INIT, INTERRUPT, BATCH_FORGET = 1, 2, 3, 14, 18, 25, 26, 36, 42
MNT_DETACH = 2
ROOT, FILE = 1, 2

libc = ctypes.CDLL(None, use_errno=True)


def attributes(node):
    mode = 0o40755 if node == ROOT else 0o100666
    return struct.pack("=6Q10I", node, 0, 0, 0, 0, 0, 0, 0, 0, mode, 1, 0, 0, 0, 4096, 0)


def serve(fd, patient):
    """Answers all requests but that of `patient` when it closes a file."""
    while True:
        try:
            request = os.read(fd, 1 << 17)
        except OSError as e:
            if e.errno in (errno.EINTR, errno.ENOENT):
                continue
            return
        _, what, unique, node, _, _, pid, _ = struct.unpack_from("=IIQQIIII", request)
        error, answer = 0, b""
        if what in (FORGET, BATCH_FORGET, INTERRUPT):
            continue
        if what == FLUSH and os.path.exists(f"/proc/{patient}/task/{pid}"):
            continue
        if what == INIT:
            answer = struct.pack("=4I2H2I2H7I", 7, 31, 65536, 0, 0, 0, 65536, 1, 0, 0, *[0] * 7)
        elif what == LOOKUP:
            answer = struct.pack("=4Q2I", FILE, 0, 1000, 1000, 0, 0) + attributes(FILE)
        elif what == GETATTR:
            answer = struct.pack("=Q2I", 1000, 0, 0) + attributes(node)
        elif what == OPEN:
            answer = struct.pack("=Q2I", 1, 0, 0)
        elif what not in (RELEASE, FLUSH):
            error = -errno.ENOSYS
        try:
            os.write(fd, struct.pack("=IiQ", 16 + len(answer), error, unique) + answer)
        except OSError as e:
            # Who asked was interrupted and waits no more, or the file system was unmounted.
            if e.errno != errno.ENOENT:
                return


class Hanging:
    """Only root can mount it here; the mount is the user's, as by fusermount."""

    def __init__(self, uid, patient):
        """`patient`: the process that waits for ever when it closes `fd`."""
        self.directory = tempfile.mkdtemp(prefix="xsched-hanging-")
        device = os.open("/dev/fuse", os.O_RDWR | os.O_CLOEXEC)
        options = f"fd={device},rootmode=40000,user_id={uid},group_id={uid},allow_other".encode()
        if libc.mount(b"hanging", self.directory.encode(), b"fuse", 0, options) < 0:
            e = ctypes.get_errno()
            os.close(device)
            os.rmdir(self.directory)
            raise OSError(e, "a file system of FUSE cannot be mounted")
        self.server = os.fork()
        if self.server == 0:
            # Whatever happens there: the tests go on in one process only.
            try:
                serve(device, patient)
            finally:
                os._exit(0)
        os.close(device)
        self.fd = os.open(os.path.join(self.directory, "file"), os.O_RDONLY | os.O_CLOEXEC)

    def end(self):
        """Ends all waits: the file system ends with its process."""
        libc.umount2(self.directory.encode(), MNT_DETACH)
        os.close(self.fd)
        os.kill(self.server, 9)
        os.waitpid(self.server, 0)
        os.rmdir(self.directory)
