"""Checks launches against their kernels: arguments, dtypes, extents, devices, and arguments that share
bytes."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from itertools import combinations
from math import gcd
from operator import itemgetter

from wrapper_ir import ir
from wrapper_ir.analysis.alignment import Pointer, analyse_alignment
from wrapper_ir.expr import Expr, SymKind, add, print_expr, sub, substitute
from wrapper_ir.verifier.facts import Check, FunctionFacts, Handlers, sizes_of
from wrapper_ir.verifier.inequalities import terms_of
from wrapper_ir.verifier.obligations import Claim, Size, as_numbers, as_size
from wrapper_ir.verifier.proofs import shown

_Tensors = dict[int, ir.Value[ir.TensorType]]
"""The tensor arguments of a launch, by position."""


class Kernels(Check):
    """WIR039, WIR082 to WIR090, WIR202."""

    def __init__(self, facts: FunctionFacts) -> None:
        super().__init__(facts)
        self.kernels = facts.analyses.kernels
        self.access = facts.analyses.kernel_access
        self.roots_at = facts.aliasing.roots_at
        self.pointers = facts.analyses.get(analyse_alignment).of(facts.function)

    def handlers(self) -> Handlers:
        return {ir.Launch: self.launch, ir.DebugValue: self.debug}

    def debug(self, position: int, op: ir.DebugValue) -> None:
        if op.phase.is_launch != bool(op.callee):
            self.report(
                "WIR082", "shown values are before or after the launch of what is named, or neither", position
            )

    def launch(self, position: int, op: ir.Launch) -> None:
        kernel = self.kernels.get(op.kernel)
        if kernel is None:
            self.report("WIR082", f"there is no kernel @{op.kernel}", position)
            return
        params, args = kernel.params, op.args
        if len(params) != len(args):
            self.report("WIR083", f"@{op.kernel} has {len(params)} parameters, given {len(args)}", position)
            return
        device: ir.Device | None = None
        fits, tensors = True, _Tensors()
        for i, (param, arg) in enumerate(zip(params, args)):
            if param.kind is ir.ParamKind.SCALAR:
                fits = self.scalar(position, param, arg) and fits
                continue
            if not ir.is_tensor(arg):
                self.report("WIR084", f"{param.name} is a pointer, and needs a tensor", position)
                fits = False
                continue
            tensors[i] = arg
            type = arg.type
            if type.dtype is not param.dtype:
                message = f"{param.name} is {param.dtype.value}*, given {type.dtype.value}"
                self.report("WIR085", message, position)
            if device is None:
                device = type.device
            elif type.device is not device and type.device != device:
                self.report("WIR090", f"{param.name} is on {type.device}, others on {device}", position)
        if device is not None and kernel.on_host and device.type != "cpu":
            self.report("WIR090", f"@{op.kernel} runs on the host, its tensors are on {device}", position)
        if fits:
            self.sharing(position, params, tensors)
            for pointer in self.pointers.get(position, ()):
                self.aligned(position, op.kernel, pointer)
            self.extents(position, op, kernel, tensors)

    def scalar(self, position: int, param: ir.KernelParam, arg: object) -> bool:
        is_constant = False
        match arg:
            case Expr(kind=kind):
                is_constant = arg.constant is not None and kind is not SymKind.BOOL
            case ir.Value(type=ir.ScalarType(kind)):
                pass
            case _:
                self.report("WIR084", f"{param.name} is a number", position)
                return False
        floating = param.dtype.is_floating
        if (kind is SymKind.FLOAT) != floating and not (floating and is_constant):
            self.report("WIR086", f"{param.name} is {param.dtype.value}, given a {kind}", position)
        elif param.divisible > 1 and not floating:
            self.multiple(position, param, arg)
        return True

    def multiple(self, position: int, param: ir.KernelParam, arg: object) -> None:
        """Requires that a number is the multiple that the kernel assumes."""

        def message(text: str) -> str:
            return f"{param.name} is a multiple of {param.divisible}, given {text}"

        match arg:
            case Expr(kind=SymKind.INT):
                why = partial(message, print_expr(arg))
                self.facts.require_multiple(param.divisible, as_size(arg), "WIR202", why, position)
            case Expr():
                self.report("WIR202", message(print_expr(arg)), position)
            case _:
                self.report("WIR202", message("a value, which no check can look at"), position)

    def aligned(self, position: int, kernel: str, pointer: Pointer) -> None:
        """Requires that an address is the multiple that the kernel assumes, unless the tensor is empty. An
        address that the analysis does not know is checked at run time (`alignment_checks`)."""
        divisor, value = pointer.param.divisible, pointer.value

        def message() -> str:
            place = f" {shown(pointer.offset)} bytes after %{pointer.base.name}, which is"
            place = "" if pointer.base is value else place
            rule = f"at a multiple of {divisor}"
            return f"@{kernel} takes %{value.name} to be {rule}, it is{place} {pointer.known}"

        if pointer.known.modulus % divisor:
            address = pointer.address
            if address.rest % gcd(address.modulus, divisor):
                self.facts.require(Claim((), sizes_of(value)), "WIR202", message, position)
            return
        byte = as_size(pointer.offset + pointer.known.rest)
        self.facts.require_multiple(divisor, byte, "WIR202", message, position, sizes_of(value))

    def sharing(self, position: int, params: tuple[ir.KernelParam, ...], tensors: _Tensors) -> None:
        """Checks pairs of arguments over one storage."""
        sharing: dict[ir.Value, list[int]] = {}
        for i, tensor in tensors.items():
            for root in self.roots_at(tensor, position):
                sharing.setdefault(root, []).append(i)
        for root, places in sharing.items():
            for j, i in self.meeting(root, tensors, places):
                self.pair(position, (params[j], params[i]), (tensors[j], tensors[i]))

    def meeting(self, root: ir.Value, tensors: _Tensors, places: list[int]) -> Iterable[tuple[int, int]]:
        """Pairs of arguments over one storage, except those at constant offsets that do not overlap."""
        if len(places) < 3:
            return combinations(places, 2)
        constant: list[tuple[int, int, int]] = []
        others: set[int] = set()
        for i in places:
            value = tensors[i]
            (base, start), extent = self.facts.place(value), self.facts.types(value.type).extent
            numbers = as_numbers(start, extent) if base == root else None
            if numbers is not None:
                constant.append((numbers[0], sum(numbers), i))
            else:
                others.add(i)
        constant.sort()
        pairs = {(j, i) for i in others for j in places if j != i}
        for at, (_, end, i) in enumerate(constant):
            for after in range(at + 1, len(constant)):
                if constant[after][0] >= end:
                    break
                pairs.add((constant[after][2], i))
        return sorted({(min(pair), max(pair)) for pair in pairs}, key=itemgetter(1, 0))

    def pair(
        self, position: int, params: tuple[ir.KernelParam, ir.KernelParam], args: tuple[ir.Value, ir.Value]
    ) -> None:
        (a, b), (x, y) = params, args
        if not (a.access.writes or b.access.writes) or b.name in a.may_overlap or a.name in b.may_overlap:
            return
        message = f"{a.name} (%{x.name}) and {b.name} (%{y.name}) share bytes"
        if b.name not in a.may_alias and a.name not in b.may_alias:
            self.facts.require_apart(x, y, "WIR087", lambda: message, position)
        elif x is not y:
            message += ", but do not start at the same one"
            self.facts.require_apart(x, y, "WIR210", lambda: message, position, or_same_start=True)

    def extents(self, position: int, op: ir.Launch, kernel: ir.KernelDef, tensors: _Tensors) -> None:
        if not _takes_grid(kernel, len(op.grid)):
            self.report("WIR088", f"@{op.kernel} takes no grid of {len(op.grid)} numbers", position)
        if not op.extents:
            return
        pointers = [i for i, p in enumerate(kernel.params) if p.kind.takes_tensor]
        if len(pointers) != len(op.extents):
            self.report("WIR088", f"{len(pointers)} pointers, but {len(op.extents)} extents", position)
            return
        numbers = tuple(arg for arg in op.args if not isinstance(arg, ir.Value))
        if self.facts.launched.setdefault((op.kernel, numbers), op.extents) != op.extents:
            self.report(
                "WIR039", f"another launch of @{op.kernel} with the same numbers has other extents", position
            )
        for i, extent in zip(pointers, op.extents):
            self.extent(position, op.kernel, tensors[i], extent)

    def extent(self, position: int, kernel: str, arg: ir.Value[ir.TensorType], extent: Expr) -> None:
        """Requires that the extent of an access is inside of its storage.

        A kernel accesses nothing if the extent is not positive, nor if the tensor is empty and so has no
        address. An extent other than that of the layout must not be positive for an empty tensor.
        """
        root, start = self.facts.place(arg)
        capacity = self.facts.capacity(root)
        need = as_size(extent)
        empty = sizes_of(arg)
        if start.__class__ is int and need.__class__ is int and capacity.__class__ is int:
            if 0 <= need <= capacity - start and (not empty or need == 0):
                return
        elif need is capacity and root is arg:
            return
        stated = self.facts.within(root, start, need)
        if ir.is_layout_extent(extent, arg.type):
            claim = Claim(stated, empty)
        else:
            rest = capacity - start  # the extent fits in it, so it is not positive either if this is not
            nonempty = tuple(
                (1, n) for n in empty if not (self.is_none_at(need, n) or self.is_none_at(rest, n))
            )
            claim = Claim((((need, 0),), *((*inside, *nonempty) for inside in stated)))
        self.facts.require(
            claim,
            "WIR089",
            lambda: (
                f"@{kernel} may touch {shown(need)} bytes of %{arg.name}, "
                f"which starts at {shown(start)} of {shown(capacity)}"
            ),
            position,
        )

    def is_none_at(self, extent: Size, size: Expr) -> bool:
        """Returns whether an extent is known not to be positive if a size is 0. Solves `size == 0` for one of
        its terms, and substitutes that in the extent."""
        if isinstance(extent, int):
            return extent <= 0
        for monomial, scale in terms_of(size).items():
            if len(monomial) == 1 and scale in (1, -1):
                (atom,) = monomial
                there = sub(atom, size) if scale == 1 else add(atom, size)
                key = atom.symbol or atom
                if self.facts.proofs.proves(substitute(extent, {key: there}), 0):
                    return True
        return False


def _takes_grid(kernel: ir.KernelDef, numbers: int) -> bool:
    match kernel:
        case ir.CppKernel() | ir.OperatorKernel():
            return numbers == 0
        case ir.TritonKernel() | ir.MultiKernel():
            return numbers == len(kernel.grid_params)
        case ir.ForeignKernel():
            return numbers <= ir.MAX_GRID
