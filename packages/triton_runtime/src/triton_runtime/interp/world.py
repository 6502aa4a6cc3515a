"""`triton.language` that computes: for the time of a launch its functions work on numpy arrays instead of making code.

Everything that is replaced is put back exactly, also after errors. While it is, `LANGUAGE` is held, so that no other
thread of the process compiles or interprets.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import numpy as np

from triton_runtime._compat import LANGUAGE
from triton_runtime.interp import combine, libdevice
from triton_runtime.interp.rewrite import Rewriter

__all__ = ["interpreting"]

# Any: Triton's interpreter has no types


@contextmanager
def interpreting(rewriter: Rewriter) -> Iterator[None]:
    """Functions of Triton can be called, with tensors of the interpreter, until the end of the block."""
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
            _replace_language(tl)
            _replace_builder(interpreter, builder)
            _replace_device_functions(interpreter, cuda, generic)
            JITFunction.__call__ = lambda self, *args, **kwargs: rewriter(self)(*args, **kwargs)
            yield
        finally:
            for thing, names in before:
                _put_back(thing, names)


def _put_back(thing: Any, names: dict[str, Any]) -> None:
    now = dict(vars(thing))
    for name in now.keys() - names.keys():
        delattr(thing, name)
    for name, value in names.items():
        if now.get(name, thing) is not value:
            setattr(thing, name, value)


def _replace_language(tl: Any) -> None:
    for module in (tl, tl.core):
        module.reduce = combine.reduce
        module.associative_scan = combine.scan
    # A scalar is an array of one element, which numpy no longer takes for a number everywhere.
    tl.tensor.__index__ = lambda self: int(self.handle.data.reshape(-1)[0])


def _replace_device_functions(interpreter: Any, cuda: Any, generic: Any) -> None:
    """Names of libdevice stand for CUDA's functions, which say by type what symbol they mean."""
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


def _with_semantic(function: Callable[..., Any], semantic: Any) -> Callable[..., Any]:
    def call(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **{**kwargs, "_semantic": semantic})

    return call


def _replace_builder(interpreter: Any, builder: Any) -> None:
    """What Triton's own builder leaves out, or computes on the bits of a type that numpy does not have."""
    handle, numpy_type = interpreter.TensorHandle, interpreter._get_np_dtype
    import triton.language as tl

    own_cast, own_binary, own_unary = builder.cast_impl, builder.binary_op, builder.unary_op

    def cast(src: Any, dst_type: Any) -> Any:
        given, wanted = src.dtype.scalar, dst_type.scalar
        if tl.bfloat16 not in (given, wanted) or given == wanted:
            return own_cast(src, dst_type)
        # through float32, the one type that bfloat16 is converted to and from
        single = src if given == tl.float32 else own_cast(src, tl.float32)
        return single if wanted == tl.float32 else own_cast(single, dst_type)

    def binary(lhs: Any, rhs: Any, op: Any) -> Any:
        if lhs.dtype.scalar != tl.bfloat16 or rhs.dtype.scalar != tl.bfloat16:
            return own_binary(lhs, rhs, op)
        result = own_binary(own_cast(lhs, tl.float32), own_cast(rhs, tl.float32), op)
        return own_cast(result, tl.bfloat16) if result.data.dtype == np.float32 else result

    def unary(arg: Any, op: Any) -> Any:
        if arg.dtype.scalar != tl.bfloat16:
            return own_unary(arg, op)
        return own_cast(own_unary(own_cast(arg, tl.float32), op), tl.bfloat16)

    def extern(_library: str, _path: str, symbol: str, args: list[Any], result: Any, _pure: bool) -> Any:
        function = libdevice.find(symbol)
        if function is None:
            raise NotImplementedError(f"the interpreter has no version of device function {symbol}")
        return handle(
            np.asarray(function(*(a.data for a in args))).astype(numpy_type(result.scalar)), result.scalar
        )

    builder.cast_impl = cast
    builder.binary_op = binary
    builder.unary_op = unary
    builder.create_extern_elementwise = extern
