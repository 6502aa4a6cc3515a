"""Binds the arguments of a launch: the only place where a definition meets the signature of Triton's
compiler.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from triton_runtime.errors import KernelError
from wrapper_ir import ir
from wrapper_ir.expr import Expr, Number, evaluate

TRITON_TYPES: Mapping[ir.DType, str] = {
    ir.DType.F64: "fp64",
    ir.DType.F32: "fp32",
    ir.DType.F16: "fp16",
    ir.DType.BF16: "bf16",
    ir.DType.F8E4M3FN: "fp8e4nv",
    ir.DType.F8E5M2: "fp8e5",
    ir.DType.F8E4M3FNUZ: "fp8e4b8",
    ir.DType.F8E5M2FNUZ: "fp8e5b16",
    ir.DType.F8E8M0FNU: "u8",  # Triton lacks this type: kernels read its bytes
    ir.DType.F4E2M1FNX2: "u8",  # the same
    ir.DType.I64: "i64",
    ir.DType.I32: "i32",
    ir.DType.I16: "i16",
    ir.DType.I8: "i8",
    ir.DType.U64: "u64",
    ir.DType.U32: "u32",
    ir.DType.U16: "u16",
    ir.DType.U8: "u8",
    ir.DType.BOOL: "i1",
}
"""Names of element types in Triton's signatures; complex types have none."""

DIVISIBLE = 16
"""The only divisor that Triton's compiler uses."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BoundArgument:
    """An argument of the compiled kernel.

    `position` is its index among the arguments of a launch. `type` is its type in Triton's signature:
    `*fp32`, `i64`, `tensordesc<fp16[64, 64]>`. `divisible` means that the compiled code assumes a multiple of
    16. `block` has the sizes of a descriptor's blocks, in elements.
    """

    name: str
    position: int
    type: str
    kind: ir.ParamKind
    dtype: ir.DType
    divisible: bool
    block: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Binding:
    """A kernel's function with one config, as Triton's compiler sees it.

    `signature` has the type of every parameter of the function, in order; `constexpr` if its value is in
    `constants`. `arguments` are those of the compiled kernel, in order. `options` are the compiler's, by
    name.
    """

    signature: tuple[tuple[str, str], ...]
    constants: tuple[tuple[str, ir.ConstantValue], ...]
    arguments: tuple[BoundArgument, ...]
    options: tuple[tuple[str, ir.ConstantValue], ...]

    @property
    def divisible(self) -> tuple[int, ...]:
        """Positions in `signature` of parameters that are multiples of 16."""
        names = {a.name for a in self.arguments if a.divisible}
        return tuple(i for i, (name, _) in enumerate(self.signature) if name in names)


def bind(kernel: ir.TritonKernel, config: ir.TritonConfig) -> Binding:
    """Maps the arguments of a launch of `kernel` to its function's parameters, for one config.

    Raises KernelError TR102 if a parameter of the function has no value, or two; TR103 for a type that Triton
    lacks.
    """
    fixed = _fixed(kernel, config)
    places = {param.name: (i, param) for i, param in enumerate(kernel.params)}
    signature: list[tuple[str, str]] = []
    arguments: list[BoundArgument] = []
    for name in kernel.order:
        if name in fixed:
            signature.append((name, "constexpr"))
        elif name in places:
            argument = _argument(kernel, *places[name], fixed)
            signature.append((name, argument.type))
            arguments.append(argument)
        else:
            raise KernelError(
                "TR102", f"kernel '{kernel.name}': parameter '{name}' of '{kernel.entry}' has no value"
            )
    for name in (*places, *(name for name, _ in kernel.constants)):
        if name not in kernel.order:
            raise KernelError("TR102", f"kernel '{kernel.name}': '{kernel.entry}' has no parameter '{name}'")
    return Binding(
        signature=tuple(signature),
        constants=tuple((name, fixed[name]) for name in kernel.order if name in fixed),
        arguments=tuple(arguments),
        options=_options(kernel, config),
    )


def native_constant(value: ir.ConstantValue) -> object:
    """Converts a constant to the form of Triton's compiler."""
    from triton.language import str_to_ty

    if isinstance(value, tuple):
        return tuple(map(native_constant, value))
    return str_to_ty(TRITON_TYPES[value], None) if isinstance(value, ir.DType) else value


def _fixed(kernel: ir.TritonKernel, config: ir.TritonConfig) -> dict[str, ir.ConstantValue]:
    """Constants and meta-parameters by name, including those that only the grid uses."""
    fixed: dict[str, ir.ConstantValue] = {}
    names = {param.name for param in kernel.params}
    for name, value in (*kernel.constants, *config.meta):
        if name in fixed or name in names:
            raise KernelError("TR102", f"kernel '{kernel.name}': parameter '{name}' is given twice")
        fixed[name] = value
    return fixed


def _argument(
    kernel: ir.TritonKernel, position: int, param: ir.KernelParam, fixed: Mapping[str, ir.ConstantValue]
) -> BoundArgument:
    element = TRITON_TYPES.get(param.dtype)
    if element is None:
        raise KernelError(
            "TR103",
            f"kernel '{kernel.name}': parameter '{param.name}' is of {param.dtype.value}, which Triton "
            "does not have",
            "pass the real and imaginary parts as a tensor of real numbers (a view)",
        )
    block: tuple[int, ...] = ()
    match param.kind:
        case ir.ParamKind.POINTER:
            text = f"*{element}"
        case ir.ParamKind.SCALAR:
            text = element
        case ir.ParamKind.DESCRIPTOR:
            block = tuple(_size(kernel, param.name, size, fixed) for size in param.block)
            text = f"tensordesc<{element}{list(block)}>"
    return BoundArgument(
        name=param.name,
        position=position,
        type=text,
        kind=param.kind,
        dtype=param.dtype,
        # the address of a descriptor has its own rule, and Triton has no such attribute for it
        divisible=param.kind is not ir.ParamKind.DESCRIPTOR and param.divisible % DIVISIBLE == 0,
        block=block,
    )


def _size(kernel: ir.TritonKernel, name: str, size: Expr, fixed: Mapping[str, ir.ConstantValue]) -> int:
    numbers: dict[str, Number] = {k: v for k, v in fixed.items() if isinstance(v, int)}
    if missing := sorted(size.free_symbols - numbers.keys()):
        raise KernelError(
            "TR102",
            f"kernel '{kernel.name}': the blocks of '{name}' need {', '.join(missing)}, which the config "
            "does not define",
        )
    return int(evaluate(size, numbers))


def _options(kernel: ir.TritonKernel, config: ir.TritonConfig) -> tuple[tuple[str, ir.ConstantValue], ...]:
    """Options of the compiler; those of the config take precedence."""
    options = dict(kernel.options) | dict(config.options)
    options |= {"num_warps": config.num_warps, "num_stages": config.num_stages}
    if kernel.cooperative:
        options["launch_cooperative_grid"] = True
    return tuple(sorted(options.items()))
