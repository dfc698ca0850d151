# SPDX-License-Identifier: LGPL-2.1-or-later
"""A root for containers: the host's system without xsched and without libsystemd, like an image."""

import os

from inside import run


def make_image(image, usr, uid=0):
    """Makes the root `image`, which belongs to `uid`, and its /usr at {usr}/usr, which is to be mounted."""
    os.makedirs(usr)
    run("mount", "-t", "tmpfs", "tmpfs", usr)
    for name in ("upper", "work", "usr"):
        os.mkdir(f"{usr}/{name}")
    options = f"lowerdir=/usr,upperdir={usr}/upper,workdir={usr}/work"
    run("mount", "-t", "overlay", "-o", options, "overlay", f"{usr}/usr")
    gone = "lib/*/xsched lib/*/libxsched* lib/*/libsystemd.so* libexec/xsched* bin/xsched*"
    run("sh", "-c", f"cd {usr}/usr && rm -r {gone}")
    for name in ("etc", "usr", "root", "tmp", "var", "run", "dev", "proc", "sys", "opt"):
        os.makedirs(f"{image}/{name}")
    for name in ("bin", "sbin", "lib", "lib64"):
        os.symlink(f"usr/{name}", f"{image}/{name}")
    with open(f"{image}/etc/os-release", "w", encoding="ascii") as f:
        f.write("ID=box\n")
    found = [path for path in ("/etc/OpenCL", "/etc/ld.so.cache") if os.path.exists(path)]
    run("cp", "-r", *found, f"{image}/etc")
    run("chown", "-R", f"{uid}:{uid}", image)
