"""What depends on the version of Triton, and what all of its users in a process share."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import ModuleType

LANGUAGE = threading.RLock()
"""Held by whoever compiles with, or interprets, `triton.language`: Triton's interpreter replaces functions of that module
while a kernel runs, so nothing else may look at them then."""


def skip_compiler_hash() -> None:
    """Has Triton hash nothing of itself in this process. It reads some 440 MB for a key of its own cache, 0.4 s of processor time
    in each process; compiler processes have an empty one, and our key has Triton's version.

    Only for processes that compile and do nothing else.
    """
    for module in _hashing_modules():
        vars(module)["triton_key"] = _no_hash


@contextmanager
def no_compiler_hash() -> Iterator[None]:
    """While the context is active, Triton hashes nothing of itself for what this thread compiles; other threads get its own key. Held
    with `LANGUAGE`, so that one thread at a time is in here."""
    owner = threading.get_ident()
    before = {module.__name__: (module, vars(module)["triton_key"]) for module in _hashing_modules()}

    def key_for(own: Callable[[], str]) -> Callable[[], str]:
        return lambda: _no_hash() if threading.get_ident() == owner else own()

    try:
        for module, own in before.values():
            vars(module)["triton_key"] = key_for(own)
        yield
    finally:
        for module, own in before.values():
            vars(module)["triton_key"] = own


def _hashing_modules() -> list[ModuleType]:
    """The modules that name Triton's hash of itself: where it is defined depends on Triton's version, and so does where it is
    called."""
    from triton.compiler import compiler

    found = (compiler, sys.modules.get("triton.runtime.cache"))
    return [module for module in found if module is not None and "triton_key" in vars(module)]


def _no_hash() -> str:
    import triton

    # Triton puts what it compiles into its cache under this key, and reads its facts there again.
    return f"wrapper-ir {triton.__version__}"
