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
from triton_runtime.interp import combine, floats, libdevice
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
    own_cast, own_convert, own_dot = builder.cast_impl, builder.create_fp_to_fp, builder.create_dot
    own_binary, own_unary = builder.binary_op, builder.unary_op
    import triton.language as tl

    def numbers(x: Any) -> Any:
        """`x` as numpy's own numbers; float32 for types that are kept as bits."""
        name = x.dtype.scalar.name
        if name not in floats.FORMATS or x.data.dtype == bool:
            return x  # results of comparisons carry the type of what was compared
        return handle(floats.decode(name, x.data), tl.float32)

    def of_type(x: Any, wanted: Any) -> Any:
        if wanted.name in floats.FORMATS:
            return handle(floats.encode(wanted.name, x.data), wanted)
        return own_cast(x, wanted)

    def cast(src: Any, dst_type: Any) -> Any:
        return of_type(numbers(src), dst_type.scalar)

    def convert(src: Any, dst_type: Any, rounding_mode: Any) -> Any:
        nearest = rounding_mode in (None, interpreter._ir.ROUNDING_MODE.RTNE)
        return cast(src, dst_type) if nearest else own_convert(src, dst_type, rounding_mode)

    def binary(lhs: Any, rhs: Any, op: Any) -> Any:
        kind = lhs.dtype.scalar
        if kind.name not in floats.FORMATS:
            return own_binary(lhs, rhs, op)
        result = own_binary(numbers(lhs), numbers(rhs), op)
        return of_type(result, kind) if result.data.dtype == np.float32 else handle(result.data, kind)

    def unary(arg: Any, op: Any) -> Any:
        result = own_unary(numbers(arg), op)
        return of_type(result, arg.dtype.scalar) if arg.dtype.scalar.name in floats.FORMATS else result

    def bfloat16(value: float) -> Any:
        return handle(floats.encode("bf16", np.array([value], dtype=np.float32)), tl.bfloat16)

    def dot(a: Any, b: Any, d: Any, *rest: Any) -> Any:
        return own_dot(numbers(a), numbers(b), d, *rest)

    def extern(_library: str, _path: str, symbol: str, args: list[Any], result: Any, _pure: bool) -> Any:
        function = libdevice.find(symbol)
        if function is None:
            raise NotImplementedError(f"the interpreter has no version of device function {symbol}")
        return handle(
            np.asarray(function(*(a.data for a in args))).astype(numpy_type(result.scalar)), result.scalar
        )

    builder.cast_impl, builder.create_fp_to_fp, builder.create_dot = cast, convert, dot
    builder.binary_op, builder.unary_op = binary, unary
    builder.create_extern_elementwise, builder.get_bf16 = extern, bfloat16
