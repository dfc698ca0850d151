# SPDX-License-Identifier: LGPL-2.1-or-later
"""Makes pods and containers in containerd as kubelet does, over the Container Runtime Interface.

Debian has packages of neither kubelet nor a client, so the messages are built here. The numbers are those of fields in
k8s.io/cri-api/pkg/apis/runtime/v1/api.proto. Pods use the host's network, since there is no network plugin."""

import hashlib
import io
import json
import os
import tarfile

import grpc
from inside import run, write
from protobuf import message, text_map, text_of

SOCKET = "unix:///run/containerd/containerd.sock"
PAUSE, IMAGE = "docker.io/test/pause:1", "docker.io/test/image:1"
NODE = 2  # of the enumeration NamespaceMode
CONFIG = """\
version = 2
[plugins."io.containerd.nri.v1.nri"]
disable = false
[plugins."io.containerd.grpc.v1.cri"]
enable_cdi = true
cdi_spec_dirs = ["/etc/cdi", "/var/run/cdi"]
sandbox_image = "{pause}"
restrict_oom_score_adj = true
[plugins."io.containerd.grpc.v1.cri".containerd]
snapshotter = "native"
[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"
pod_annotations = ["xsched.org/*"]
container_annotations = ["xsched.org/*"]
[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
SystemdCgroup = {systemd}
BinaryName = "{runc}"
"""
# A host may have its controllers in cgroup v1, where the booted system, which has v2, cannot use them. containerd
# always sets CPU shares of a pod, so this wrapper removes them.
RUNC, WITHOUT_SHARES = (
    "/run/runc-without-shares",
    """\
#!/usr/bin/python3
import json, os, sys
if "--bundle" in sys.argv:
    path = sys.argv[sys.argv.index("--bundle") + 1] + "/config.json"
    with open(path, encoding="utf-8") as f:
        spec = json.load(f)
    spec["linux"].get("resources", {}).pop("cpu", None)
    with open(path, "w", encoding="utf-8") as f:
        json.dump(spec, f)
os.execvp("runc", ["runc", *sys.argv[1:]])
""",
)


def configure(driver):
    systemd = "true" if driver == "systemd" else "false"
    write("/etc/containerd/config.toml", CONFIG.format(pause=PAUSE, systemd=systemd, runc=RUNC))
    write(RUNC, WITHOUT_SHARES)
    os.chmod(RUNC, 0o755)
    run("systemctl", "restart", "containerd")


class Runtime:
    def __init__(self):
        self.channel = grpc.insecure_channel(SOCKET)

    def call(self, method, fields):
        name = f"/runtime.v1.RuntimeService/{method}"
        call = self.channel.unary_unary(name, request_serializer=message, response_deserializer=bytes)
        return call(fields, timeout=60, wait_for_ready=True)

    @staticmethod
    def sandbox(name, namespace, uid, parent, labels, annotations):
        """Returns a pod's configuration."""
        security = message({1: message({1: NODE})})
        return message(
            {
                1: message({1: name, 2: uid, 3: namespace}),
                6: text_map({"io.kubernetes.pod.name": name, "io.kubernetes.pod.namespace": namespace, **labels}),
                7: text_map(annotations),
                8: message({1: parent, 2: security}),
            }
        )

    def run_pod(self, config):
        return text_of(self.call("RunPodSandbox", {1: config}), 1)

    def run_container(self, pod, config, name, command, mounts, devices=(), env=None):
        container = message(
            {
                1: message({1: name}),
                2: message({1: IMAGE}),
                3: list(command),
                6: text_map(env or {}),
                7: [message({1: at, 2: path, 3: 1}) for path, at in mounts],
                17: [message({1: d}) for d in devices],
            }
        )
        made = text_of(self.call("CreateContainer", {1: pod, 2: container, 3: config}), 1)
        self.call("StartContainer", {1: made})
        return made

    def remove_pod(self, pod):
        self.call("StopPodSandbox", {1: pod})
        self.call("RemovePodSandbox", {1: pod})


# --- images ---


def import_image(name, tree, command):
    """Makes an image from a directory, for CRI."""
    layer = io.BytesIO()
    with tarfile.open(fileobj=layer, mode="w") as t:
        t.add(tree, arcname=".")
    layer = layer.getvalue()
    config = {
        "architecture": "amd64",
        "os": "linux",
        "config": {"Entrypoint": command},
        "rootfs": {"type": "layers", "diff_ids": ["sha256:" + hashlib.sha256(layer).hexdigest()]},
    }
    manifest = [{"Config": "config.json", "RepoTags": [name], "Layers": ["layer.tar"]}]
    with tarfile.open("/run/image.tar", mode="w") as t:
        for file, data in (
            ("config.json", json.dumps(config).encode()),
            ("layer.tar", layer),
            ("manifest.json", json.dumps(manifest).encode()),
        ):
            info = tarfile.TarInfo(file)
            info.size = len(data)
            t.addfile(info, io.BytesIO(data))
    # CRI unpacks the image where necessary.
    run("ctr", "-n", "k8s.io", "images", "import", "--no-unpack", "/run/image.tar")
    os.unlink("/run/image.tar")


def import_images(tree):
    """Makes an image from `tree` for containers, and one that only sleeps for pods."""
    pause = "/run/pause"
    for path in run("sh", "-c", "ldd /usr/bin/sleep | grep -o '/[^ ]*'").split() + ["/usr/bin/sleep"]:
        os.makedirs(pause + os.path.dirname(path), exist_ok=True)
        run("cp", "-L", path, pause + path)
    import_image(PAUSE, pause, ["/usr/bin/sleep", "infinity"])
    import_image(IMAGE, tree, ["/usr/bin/sleep", "infinity"])
