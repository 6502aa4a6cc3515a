"""Patches `triton.language` during a launch, so that its functions compute on numpy arrays.

All patches are undone exactly, also after errors. `LANGUAGE` is held meanwhile, so that no other thread of
the process compiles or interprets.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import SimpleNamespace

import numpy as np

from triton_runtime._compat import LANGUAGE
from triton_runtime.interp import combine
from triton_runtime.interp.builder import Completed
from triton_runtime.interp.rewrite import Rewriter


@contextmanager
def interpreting(rewriter: Rewriter) -> Iterator[None]:
    """Context in which functions of Triton can be called with the interpreter's tensors."""
    # its table of builtins is built on import and must contain the originals, not the interpreter's
    import triton.compiler.code_generator  # noqa: F401
    import triton.language as tl
    from triton.language.extra import libdevice as generic
    from triton.language.extra.cuda import libdevice as cuda
    from triton.runtime import interpreter
    from triton.runtime.jit import JITFunction

    builder = interpreter.interpreter_builder
    touched = (
        tl,
        tl.core,
        tl.math,
        tl.tensor,
        tl.dtype,
        tl.core.tensor_descriptor_base,
        generic,
        cuda,
        builder,
    )
    with LANGUAGE, np.errstate(all="ignore"):
        before = [(thing, dict(vars(thing))) for thing in (*touched, JITFunction)]
        try:
            interpreter._patch_lang(SimpleNamespace(__globals__={"tl": tl, "core": tl.core}))
            _replace_language()
            Completed(builder).install()
            _replace_device_functions()
            JITFunction.__call__ = lambda self, *args, **kwargs: rewriter(self)(*args, **kwargs)
            yield
        finally:
            for thing, names in before:
                _put_back(thing, names)


def _put_back(thing: object, names: dict[str, object]) -> None:
    now = dict(vars(thing))
    for name in now.keys() - names.keys():
        delattr(thing, name)
    for name, value in names.items():
        if now.get(name, thing) is not value:
            setattr(thing, name, value)


def _replace_language() -> None:
    import triton.language as tl

    for module in (tl, tl.core):
        module.reduce = combine.reduce
        module.associative_scan = combine.scan
    # a scalar is an array of one element, which numpy no longer accepts as a number everywhere
    tl.tensor.__index__ = lambda self: int(self.handle.data.reshape(-1)[0])


def _replace_device_functions() -> None:
    """Maps names of libdevice to CUDA's functions, which select a symbol by type."""
    from triton.language.extra import libdevice as generic
    from triton.language.extra.cuda import libdevice as cuda
    from triton.runtime import interpreter

    semantic = interpreter.interpreter_semantic
    for name, function in list(vars(cuda).items()):
        if (
            callable(function)
            and not name.startswith("_")
            and getattr(function, "__module__", "") == cuda.__name__
        ):
            bound = _with_semantic(function, semantic)
            setattr(cuda, name, bound)
            if hasattr(generic, name):
                setattr(generic, name, bound)


def _with_semantic(function: Callable[..., object], semantic: object) -> Callable[..., object]:
    def call(*args: object, **kwargs: object) -> object:
        return function(*args, **{**kwargs, "_semantic": semantic})

    return call
