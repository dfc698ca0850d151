# SPDX-License-Identifier: LGPL-2.1-or-later
"""A stand-in for PyTorch: as much of it as python/examples/pytorch-serve.py uses. A model says when it computes.

`at` is called with "infer" or "train", in the thread that computes."""

import threading
import types

_mode = threading.local()


def at(what):
    pass


class Tensor:
    def __init__(self, *shape):
        self.shape = shape

    def __sub__(self, other):
        return self

    def cpu(self):
        return self

    def square(self):
        return self

    def mean(self):
        return Tensor()

    def backward(self):
        assert not _is_inferring(), "no gradients in inference mode"

    def item(self):
        return 0.5


def _is_inferring():
    return getattr(_mode, "on", False)


class inference_mode:
    def __enter__(self):
        _mode.on = True

    def __exit__(self, *_):
        _mode.on = False


def randn(*shape, device):
    return Tensor(*shape)


def zeros(shape):
    return Tensor(*shape)


class Module:
    def to(self, device):
        return self

    def parameters(self):
        return []


class Linear(Module):
    def __init__(self, n_in, n_out):
        self.n_in, self.n_out = n_in, n_out

    def __call__(self, x):
        assert x.shape[-1] == self.n_in
        at("infer" if _is_inferring() else "train")
        return Tensor(*x.shape[:-1], self.n_out)


class SGD:
    def __init__(self, parameters, lr):
        pass

    def zero_grad(self):
        pass

    def step(self):
        pass


cuda = types.SimpleNamespace(is_available=lambda: False)
nn = types.SimpleNamespace(Module=Module, Linear=Linear)
optim = types.SimpleNamespace(SGD=SGD)
