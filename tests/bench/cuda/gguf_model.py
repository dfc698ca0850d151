# SPDX-License-Identifier: LGPL-2.1-or-later
"""Writes a small language model of random weights as a file of the format GGUF, for programs that use llama.cpp

Nothing it generates makes sense. Its weights follow from the seed, so each program that reads it, and is right,
generates the same.
"""

import struct

import numpy

ALIGNMENT = 32
U32, F32, STRING, ARRAY, I32 = 4, 6, 8, 9, 5  # types of values
TYPE_F32, TYPE_F16, TYPE_Q8_0 = 0, 1, 8  # of weights
NORMAL, UNKNOWN, CONTROL, BYTE = 1, 2, 3, 6  # kinds of tokens
HEAD = 64  # numbers in a head of the attention
BLOCK = 32  # numbers of Q8_0 that share a scale


def text(s):
    return struct.pack("<Q", len(s.encode())) + s.encode()


def value(kind, v):
    if kind == STRING:
        return text(v)
    return struct.pack({U32: "<I", I32: "<i", F32: "<f"}[kind], v)


def entry(key, kind, v):
    if not isinstance(v, list):
        return text(key) + struct.pack("<I", kind) + value(kind, v)
    return text(key) + struct.pack("<IIQ", ARRAY, kind, len(v)) + b"".join(value(kind, x) for x in v)


def quantized(weights):
    """Returns the numbers as Q8_0: blocks of a scale in 16 bits and 32 numbers in 8 bits each."""
    blocks = weights.reshape(-1, BLOCK)
    scale = (numpy.abs(blocks).max(axis=1, keepdims=True) / 127).astype(numpy.float16)
    divisor = numpy.maximum(scale.astype(numpy.float32), 1e-8)
    numbers = numpy.clip(numpy.round(blocks / divisor), -127, 127).astype(numpy.int8)
    return numpy.hstack([scale.view(numpy.int8), numbers]).tobytes()


def vocabulary(size):
    """Returns texts and kinds of tokens: one for what is unknown, begin and end, each byte, and words."""
    special = [("<unk>", UNKNOWN), ("<s>", CONTROL), ("</s>", CONTROL)]
    tokens = special + [(f"<0x{i:02X}>", BYTE) for i in range(256)]
    tokens += [(f"\u2581w{i}", NORMAL) for i in range(size - len(tokens))]
    return tokens


class Model:
    def __init__(self, layers, width, words, context, kind):
        self.layers, self.width, self.words, self.context, self.kind = layers, width, words, context, kind
        self.random = numpy.random.Generator(numpy.random.PCG64(7))
        self.tensors = []  # (name, shape, type, bytes)

    def add(self, name, rows, columns, scale):
        weights = self.random.standard_normal((rows, columns), dtype=numpy.float32) * scale
        if name == "output.weight":
            weights[: 3 + 256] = 0  # the model says words only, and does not end
        data = quantized(weights) if self.kind == TYPE_Q8_0 else weights.astype(numpy.float16).tobytes()
        self.tensors.append((name, (columns, rows), self.kind, data))

    def add_norm(self, name):
        self.tensors.append((name, (self.width,), TYPE_F32, numpy.ones(self.width, numpy.float32).tobytes()))

    def add_all(self):
        n, hidden = self.width, self.width * 2
        self.add("token_embd.weight", self.words, n, 1)
        self.add_norm("output_norm.weight")
        self.add("output.weight", self.words, n, 1)
        for i in range(self.layers):
            self.add_norm(f"blk.{i}.attn_norm.weight")
            self.add_norm(f"blk.{i}.ffn_norm.weight")
            for name in ("attn_q", "attn_k", "attn_v", "attn_output"):
                self.add(f"blk.{i}.{name}.weight", n, n, 2 / n**0.5)
            for name in ("ffn_gate", "ffn_up"):
                self.add(f"blk.{i}.{name}.weight", hidden, n, 2 / n**0.5)
            self.add(f"blk.{i}.ffn_down.weight", n, hidden, 2 / hidden**0.5)

    def entries(self):
        tokens = vocabulary(self.words)
        return [
            entry("general.architecture", STRING, "llama"),
            entry("general.name", STRING, "random"),
            entry("llama.context_length", U32, self.context),
            entry("llama.embedding_length", U32, self.width),
            entry("llama.block_count", U32, self.layers),
            entry("llama.feed_forward_length", U32, self.width * 2),
            entry("llama.attention.head_count", U32, self.width // HEAD),
            entry("llama.attention.head_count_kv", U32, self.width // HEAD),
            entry("llama.attention.layer_norm_rms_epsilon", F32, 1e-5),
            entry("llama.rope.dimension_count", U32, HEAD),
            entry("llama.vocab_size", U32, self.words),
            entry("tokenizer.ggml.model", STRING, "llama"),
            entry("tokenizer.ggml.tokens", STRING, [t for t, _ in tokens]),
            entry("tokenizer.ggml.scores", F32, [-float(i) for i in range(len(tokens))]),
            entry("tokenizer.ggml.token_type", I32, [k for _, k in tokens]),
            entry("tokenizer.ggml.bos_token_id", U32, 1),
            entry("tokenizer.ggml.eos_token_id", U32, 2),
            entry("tokenizer.ggml.unknown_token_id", U32, 0),
        ]


def padded(data):
    return data + b"\0" * (-len(data) % ALIGNMENT)


def write_model(path, layers=4, width=512, words=4096, context=4096, quantize=False):
    model = Model(layers, width, words, context, TYPE_Q8_0 if quantize else TYPE_F16)
    model.add_all()
    entries, at = model.entries(), 0
    head = struct.pack("<4sIQQ", b"GGUF", 3, len(model.tensors), len(entries)) + b"".join(entries)
    for name, shape, kind, data in model.tensors:
        head += text(name) + struct.pack("<I", len(shape)) + b"".join(struct.pack("<Q", n) for n in shape)
        head += struct.pack("<IQ", kind, at)
        at += len(padded(data))
    with open(path, "wb") as f:
        f.write(padded(head))
        for *_, data in model.tensors:
            f.write(padded(data))
