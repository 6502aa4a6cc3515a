"""Completes Triton's interpreter builder with missing methods and types that numpy lacks."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from triton_runtime.interp import floats, libdevice
from triton_runtime.interp.objects import Array, Builder, ElementType, Handle


class Completed:
    """Replacements for methods of the interpreter's builder. `install` patches them; the caller restores the
    originals.
    """

    def __init__(self, builder: Builder) -> None:
        import triton.language as tl
        from triton.runtime import interpreter

        self._interpreter, self._builder, self._tl = interpreter, builder, tl
        self._handle: Callable[[Array, ElementType], Handle] = interpreter.TensorHandle
        self._cast, self._convert = builder.cast_impl, builder.create_fp_to_fp
        self._binary, self._unary = builder.binary_op, builder.unary_op
        self._dot, self._atomic = builder.create_dot, builder.create_atomic_rmw

    def install(self) -> None:
        """Replaces the methods of this builder only."""
        self._builder.cast_impl = self.cast
        self._builder.create_fp_to_fp = self.convert
        self._builder.binary_op = self.binary
        self._builder.unary_op = self.unary
        self._builder.create_dot = self.dot
        self._builder.create_atomic_rmw = self.atomic
        self._builder.create_extern_elementwise = self.extern
        self._builder.get_bf16 = self.bfloat16

    def numbers(self, x: Handle) -> Handle:
        """`x` in a numpy type; float32 for types stored as bits."""
        name = x.dtype.scalar.name
        if name not in floats.FORMATS:
            return x
        return self._handle(floats.decode(name, x.data), self._tl.float32)

    def of_type(self, x: Handle, type_: ElementType) -> Handle:
        """Converts numpy numbers to elements of a type."""
        if type_.name in floats.FORMATS:
            return self._handle(floats.encode(type_.name, x.data), type_)
        return self._cast(x, type_)

    def cast(self, src: Handle, dst_type: ElementType) -> Handle:
        """Converts to the nearest number."""
        return self.of_type(self.numbers(src), dst_type.scalar)

    def convert(self, src: Handle, dst_type: ElementType, rounding_mode: object) -> Handle:
        """Converts between floats with the requested rounding."""
        nearest = rounding_mode in (None, self._interpreter._ir.ROUNDING_MODE.RTNE)
        return self.cast(src, dst_type) if nearest else self._convert(src, dst_type, rounding_mode)

    def binary(self, lhs: Handle, rhs: Handle, op: object) -> Handle:
        """Computes arithmetic and comparisons."""
        kind = lhs.dtype.scalar
        result = self._binary(self.numbers(lhs), self.numbers(rhs), op)
        # a comparison, whose result would have its operands' type
        if result.data.dtype == bool:
            return self._handle(result.data, self._tl.int1)
        return self.of_type(result, kind) if kind.name in floats.FORMATS else result

    def unary(self, arg: Handle, op: object) -> Handle:
        """Computes functions of one number."""
        kind, result = arg.dtype.scalar, self._unary(self.numbers(arg), op)
        return self.of_type(result, kind) if kind.name in floats.FORMATS else result

    def dot(self, a: Handle, b: Handle, d: Handle, *rest: object) -> Handle:
        """Computes matmuls."""
        return self._dot(self.numbers(a), self.numbers(b), d, *rest)

    def atomic(self, op: object, ptr: Handle, val: Handle, mask: Handle, *rest: object) -> Handle:
        """Performs atomic updates.

        Sums of types stored as bits are sequential, because several may add to one address. No other code
        runs meanwhile.
        """
        kind = val.dtype.scalar
        # Triton's version assumes contiguous arrays, which broadcast ones are not
        ptr, val, mask = (self._handle(np.ascontiguousarray(x.data), x.dtype) for x in (ptr, val, mask))
        if kind.name not in floats.FORMATS or op != self._interpreter._ir.ATOMIC_OP.FADD:
            return self._atomic(op, ptr, val, mask, *rest)
        places, active = ptr.data.reshape(-1), mask.data.reshape(-1)
        before = np.zeros(places.shape, dtype=val.data.dtype)
        # the module behind the builder's own loads and stores
        memory = self._interpreter._interpreter
        for i, number in enumerate(self.numbers(val).data.reshape(-1)):
            here = slice(i, i + 1)
            before[here] = memory.load(places[here], active[here], before[here], before.dtype)
            total = floats.encode(kind.name, floats.decode(kind.name, before[here]) + number)
            memory.store(places[here], total, active[here])
        return self._handle(before.reshape(val.data.shape), kind)

    def extern(
        self, _library: str, _path: str, symbol: str, args: list[Handle], result: ElementType, _pure: bool
    ) -> Handle:
        """Calls device functions by their symbols."""
        function = libdevice.find(symbol)
        if function is None:
            raise NotImplementedError(f"the interpreter has no version of device function {symbol}")
        data = np.asarray(function(*(a.data for a in args)))
        return self._handle(data.astype(self._interpreter._get_np_dtype(result.scalar)), result.scalar)

    def bfloat16(self, value: float) -> Handle:
        """Creates a constant."""
        return self._handle(floats.encode("bf16", np.array([value], dtype=np.float32)), self._tl.bfloat16)
