"""Completes Triton's interpreter builder with missing methods and types that numpy lacks."""

from __future__ import annotations

from typing import Any

import numpy as np

from triton_runtime.interp import floats, libdevice

# Any: Triton's interpreter has no types


class Completed:
    """Replacements for methods of the interpreter's builder. `install` patches them; the caller restores the
    originals.
    """

    def __init__(self, interpreter: Any, builder: Any) -> None:
        import triton.language as tl

        self._interpreter, self._builder, self._tl = interpreter, builder, tl
        self._handle = interpreter.TensorHandle
        self._own = {
            name: getattr(builder, name)
            for name in (
                "cast_impl",
                "create_fp_to_fp",
                "binary_op",
                "unary_op",
                "create_dot",
                "create_atomic_rmw",
            )
        }

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

    def numbers(self, x: Any) -> Any:
        """`x` in a numpy type; float32 for types stored as bits."""
        name = x.dtype.scalar.name
        if name not in floats.FORMATS:
            return x
        return self._handle(floats.decode(name, x.data), self._tl.float32)

    def of_type(self, x: Any, type_: Any) -> Any:
        """Converts numpy numbers to elements of a type."""
        if type_.name in floats.FORMATS:
            return self._handle(floats.encode(type_.name, x.data), type_)
        return self._own["cast_impl"](x, type_)

    def cast(self, src: Any, dst_type: Any) -> Any:
        """Converts to the nearest number."""
        return self.of_type(self.numbers(src), dst_type.scalar)

    def convert(self, src: Any, dst_type: Any, rounding_mode: Any) -> Any:
        """Converts between floats with the requested rounding."""
        nearest = rounding_mode in (None, self._interpreter._ir.ROUNDING_MODE.RTNE)
        return (
            self.cast(src, dst_type)
            if nearest
            else self._own["create_fp_to_fp"](src, dst_type, rounding_mode)
        )

    def binary(self, lhs: Any, rhs: Any, op: Any) -> Any:
        """Computes arithmetic and comparisons."""
        kind = lhs.dtype.scalar
        result = self._own["binary_op"](self.numbers(lhs), self.numbers(rhs), op)
        # a comparison, whose result would have its operands' type
        if result.data.dtype == bool:
            return self._handle(result.data, self._tl.int1)
        return self.of_type(result, kind) if kind.name in floats.FORMATS else result

    def unary(self, arg: Any, op: Any) -> Any:
        """Computes functions of one number."""
        kind, result = arg.dtype.scalar, self._own["unary_op"](self.numbers(arg), op)
        return self.of_type(result, kind) if kind.name in floats.FORMATS else result

    def dot(self, a: Any, b: Any, d: Any, *rest: Any) -> Any:
        """Computes matmuls."""
        return self._own["create_dot"](self.numbers(a), self.numbers(b), d, *rest)

    def atomic(self, op: Any, ptr: Any, val: Any, mask: Any, *rest: Any) -> Any:
        """Performs atomic updates.

        Sums of types stored as bits are sequential, because several may add to one address. No other code
        runs meanwhile.
        """
        kind = val.dtype.scalar
        # Triton's version assumes contiguous arrays, which broadcast ones are not
        ptr, val, mask = (self._handle(np.ascontiguousarray(x.data), x.dtype) for x in (ptr, val, mask))
        if kind.name not in floats.FORMATS or op != self._interpreter._ir.ATOMIC_OP.FADD:
            return self._own["create_atomic_rmw"](op, ptr, val, mask, *rest)
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
        self, _library: str, _path: str, symbol: str, args: list[Any], result: Any, _pure: bool
    ) -> Any:
        """Calls device functions by their symbols."""
        function = libdevice.find(symbol)
        if function is None:
            raise NotImplementedError(f"the interpreter has no version of device function {symbol}")
        data = np.asarray(function(*(a.data for a in args)))
        return self._handle(data.astype(self._interpreter._get_np_dtype(result.scalar)), result.scalar)

    def bfloat16(self, value: float) -> Any:
        """Creates a constant."""
        return self._handle(floats.encode("bf16", np.array([value], dtype=np.float32)), self._tl.bfloat16)
