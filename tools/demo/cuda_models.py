# SPDX-License-Identifier: LGPL-2.1-or-later
"""Ordinary models of PyTorch, and the layer's counts of launches if it is loaded."""

import ctypes

import torch
from torch import nn

LAUNCHES = ("cuLaunchKernel", "cuLaunchKernelEx", "cuLaunchCooperativeKernel")
LAUNCHES += tuple(f"{name}_ptsz" for name in LAUNCHES)


class Block(nn.Module):
    def __init__(self, n_in, n, stride, bottleneck):
        super().__init__()
        n_out = n * 4 if bottleneck else n
        convolve = lambda a, b, k, s=1: nn.Sequential(nn.Conv2d(a, b, k, s, k // 2, bias=False), nn.BatchNorm2d(b))
        if bottleneck:
            self.body = nn.Sequential(
                convolve(n_in, n, 1), nn.ReLU(), convolve(n, n, 3, stride), nn.ReLU(), convolve(n, n_out, 1)
            )
        else:
            self.body = nn.Sequential(convolve(n_in, n, 3, stride), nn.ReLU(), convolve(n, n, 3))
        self.short = nn.Identity() if stride == 1 and n_in == n_out else convolve(n_in, n_out, 1, stride)

    def forward(self, x):
        return torch.relu(self.body(x) + self.short(x))


def resnet(counts, bottleneck):
    n_in, layers = 64, [nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(), nn.MaxPool2d(3, 2, 1)]
    for i, count in enumerate(counts):
        for k in range(count):
            layers.append(Block(n_in, 64 << i, 2 if i > 0 and k == 0 else 1, bottleneck))
            n_in = (64 << i) * (4 if bottleneck else 1)
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(n_in, 1000)).cuda()


def resnet18():
    return resnet((2, 2, 2, 2), False)


def resnet50():
    return resnet((3, 4, 6, 3), True)


def layer_count():
    """Returns the layer's function that counts calls by name, or None without the layer."""
    try:
        f = ctypes.CDLL(None).xsched_cuda_count
    except AttributeError:
        return None
    f.restype = ctypes.c_uint64
    f.argtypes = [ctypes.c_char_p]
    return f


def launches_seen():
    count = layer_count()
    return sum(count(n.encode()) for n in LAUNCHES) if count else -1
