# SPDX-License-Identifier: LGPL-2.1-or-later
"""Checks of arguments for C: ctypes would cut a number to the C type and a text at its first zero byte, and would take
a text for an address."""

from __future__ import annotations

import operator
from typing import Any


def integer(name: str, value: Any, low: int = -(1 << 63), high: int = (1 << 63) - 1) -> int:
    try:
        number = operator.index(value)
    except TypeError:
        raise TypeError(f"{name} must be an integer, not {type(value).__name__}") from None
    if not low <= number <= high:
        raise ValueError(f"{name}={number} is out of range")
    return number


def int32(name: str, value: Any) -> int:
    return integer(name, value, -(1 << 31), (1 << 31) - 1)


def text(name: str, value: Any) -> bytes:
    if not isinstance(value, str):
        raise TypeError(f"{name} must be a str, not {type(value).__name__}")
    if "\0" in value:
        raise ValueError(f"{name} has a zero byte")
    return value.encode()
