"""What depends on the version of Triton, and what all of its users in a process share."""

from __future__ import annotations

import sys
import threading

__all__ = ["LANGUAGE", "skip_compiler_hash"]

LANGUAGE = threading.RLock()
"""Held by whoever compiles with, or interprets, `triton.language`: Triton's interpreter replaces functions of that module
while a kernel runs, so nothing else may look at them then."""


def skip_compiler_hash() -> None:
    """Has Triton hash nothing of itself in this process. It reads some 440 MB for a key of its own cache, 0.4 s of processor time
    in each process; compiler processes have an empty one, and our key has Triton's version.

    Only for processes that compile and do nothing else.
    """
    from triton.compiler import compiler

    # where the function is defined depends on Triton's version, and so does where it is called
    for module in (compiler, sys.modules.get("triton.runtime.cache")):
        if module is not None and "triton_key" in vars(module):
            vars(module)["triton_key"] = _no_hash


def _no_hash() -> str:
    return "wrapper-ir"
