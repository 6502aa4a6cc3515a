"""What depends on the version of Triton, and what all of its users in a process share."""

from __future__ import annotations

import threading

__all__ = ["LANGUAGE"]

LANGUAGE = threading.RLock()
"""Held by whoever compiles with, or interprets, `triton.language`: Triton's interpreter replaces functions of that module
while a kernel runs, so nothing else may look at them then."""
