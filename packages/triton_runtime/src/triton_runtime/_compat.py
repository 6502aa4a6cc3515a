"""Code that depends on the version of Triton, and state that all of its users in a process share."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import ModuleType

LANGUAGE = threading.RLock()
"""Held while code compiles with, or interprets, `triton.language`.

Triton's interpreter replaces functions of that module while a kernel runs, so no other thread may read them
then.
"""


def skip_compiler_hash() -> None:
    """Disables Triton's hash of itself in this process.

    Triton reads some 440 MB for a key of its cache, 0.4 s of processor time in each process. Compiler
    processes have an empty cache, and our key has Triton's version. Only for processes that do nothing but
    compile.
    """
    for module in _hashing_modules():
        vars(module)["triton_key"] = _no_hash


@contextmanager
def no_compiler_hash() -> Iterator[None]:
    """Disables Triton's hash of itself for compilations of this thread; other threads still get Triton's key.

    Must be used with `LANGUAGE` held, so that only one thread at a time is inside.
    """
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
    """Modules that refer to Triton's hash of itself. Its definition and its callers depend on the version."""
    from triton.compiler import compiler

    modules = (compiler, sys.modules.get("triton.runtime.cache"))
    return [module for module in modules if module is not None and "triton_key" in vars(module)]


def _no_hash() -> str:
    import triton

    # Triton stores its results in its cache under this key, and reads their metadata back.
    return f"wrapper-ir {triton.__version__}"
