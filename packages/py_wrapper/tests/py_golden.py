"""Emitted text without the version of its emitter."""

from __future__ import annotations

import re


def without_version(text: str) -> str:
    return re.sub(r"Emitted by py_wrapper \S+\.", "Emitted by py_wrapper.", text)
