"""Launches fit their kernels: arguments, dtypes, extents, devices, and which arguments may share bytes."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import combinations
from math import gcd
from operator import itemgetter

from wrapper_ir import ir
from wrapper_ir.analysis.alignment import Pointer, analyse_alignment
from wrapper_ir.expr import Expr, Float, Int, Sym, SymKind, add, print_expr, sub, substitute
from wrapper_ir.verifier.facts import Check, FunctionFacts, Handlers, sizes_of
from wrapper_ir.verifier.inequalities import terms_of
from wrapper_ir.verifier.obligations import Claim, Size, as_size
from wrapper_ir.verifier.proofs import shown


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
        fits = True
        for param, arg in zip(params, args):
            if param.kind is ir.ParamKind.SCALAR:
                fits = self.scalar(position, param, arg) and fits
                continue
            type = arg.type if isinstance(arg, ir.Value) else None
            if not isinstance(type, ir.TensorType):
                self.report("WIR084", f"{param.name} is a pointer, and needs a tensor", position)
                fits = False
                continue
            if type.dtype is not param.dtype:
                self.report(
                    "WIR085", f"{param.name} is {param.dtype.value}*, given {type.dtype.value}", position
                )
            if device is None:
                device = type.device
            elif type.device is not device and type.device != device:
                self.report("WIR090", f"{param.name} is on {type.device}, others on {device}", position)
        if device is not None and isinstance(kernel, ir.CppKernel) and device.type != "cpu":
            self.report("WIR090", f"@{op.kernel} runs on the host, its tensors are on {device}", position)
        if fits:
            self.sharing(position, op, params)
            for pointer in self.pointers.get(position, ()):
                self.aligned(position, op.kernel, pointer)
            self.extents(position, op, kernel)

    def scalar(self, position: int, param: ir.KernelParam, arg: object) -> bool:
        if isinstance(arg, ir.Value) and ir.is_scalar(arg):
            kind = arg.type.kind
        elif isinstance(arg, Expr):
            kind = arg.kind
        else:
            self.report("WIR084", f"{param.name} is a number", position)
            return False
        floating = param.dtype.is_floating
        if (kind is SymKind.FLOAT) != floating and not (floating and isinstance(arg, Int | Float)):
            self.report("WIR086", f"{param.name} is {param.dtype.value}, given a {kind}", position)
        elif param.divisible > 1 and not floating:
            self.multiple(position, param, arg)
        return True

    def multiple(self, position: int, param: ir.KernelParam, arg: object) -> None:
        """A number is the multiple that it is taken to be."""

        def message() -> str:
            shown_arg = print_expr(arg) if isinstance(arg, Expr) else "a value, which no check can look at"
            return f"{param.name} is a multiple of {param.divisible}, given {shown_arg}"

        if isinstance(arg, Expr) and arg.kind is SymKind.INT:
            self.facts.require_multiple(param.divisible, as_size(arg), "WIR202", message, position)
        else:
            self.report("WIR202", message(), position)

    def aligned(self, position: int, kernel: str, pointer: Pointer) -> None:
        """An address is the multiple that it is taken to be, as far as can be told; what cannot is checked in
        a run (`passes.alignment_checks`). An empty tensor is anywhere."""
        divisor, value = pointer.param.divisible, pointer.value

        def message() -> str:
            place = f" {shown(pointer.offset)} bytes after %{pointer.base.name}, which is"
            place = "" if pointer.base is value else place
            return f"@{kernel} takes %{value.name} to be at a multiple of {divisor}, it is{place} {pointer.known}"

        if pointer.known.modulus % divisor:
            address = pointer.address
            if address.rest % gcd(address.modulus, divisor):
                self.facts.require(Claim((), sizes_of(value)), "WIR202", message, position)
            return
        byte = as_size(pointer.offset + pointer.known.rest)
        self.facts.require_multiple(divisor, byte, "WIR202", message, position, sizes_of(value))

    def sharing(self, position: int, op: ir.Launch, params: tuple[ir.KernelParam, ...]) -> None:
        """Pairs of arguments over one storage where the kernel writes through one of them."""
        sharing: dict[ir.Value, list[int]] = {}
        for i, arg in enumerate(op.args):
            if isinstance(arg, ir.Value):
                for root in self.roots_at(arg, position):
                    sharing.setdefault(root, []).append(i)
        for root, places in sharing.items():
            for j, i in self.meeting(root, op, places):
                self.pair(position, op, (params[j], params[i]), (j, i))

    def meeting(self, root: ir.Value, op: ir.Launch, places: list[int]) -> Iterable[tuple[int, int]]:
        """Pairs of arguments over one storage, but for those that constants tell apart."""
        if len(places) < 3:
            return combinations(places, 2)
        constant: list[tuple[int, int, int]] = []
        others: set[int] = set()
        for i in places:
            value = op.args[i]
            assert isinstance(value, ir.Value)  # by `sharing`
            (base, start), extent = self.facts.place(value), self.facts.types(value.type).extent
            if base == root and isinstance(start, int) and isinstance(extent, int):
                constant.append((start, start + extent, i))
            else:
                others.add(i)
        constant.sort()
        found = {(j, i) for i in others for j in places if j != i}
        for at, (_, end, i) in enumerate(constant):
            for after in range(at + 1, len(constant)):
                if constant[after][0] >= end:
                    break
                found.add((constant[after][2], i))
        return sorted({(min(pair), max(pair)) for pair in found}, key=itemgetter(1, 0))

    def pair(
        self, position: int, op: ir.Launch, params: tuple[ir.KernelParam, ir.KernelParam], at: tuple[int, int]
    ) -> None:
        a, b = params
        if not (a.access.writes or b.access.writes) or b.name in a.may_overlap or a.name in b.may_overlap:
            return
        x, y = op.args[at[0]], op.args[at[1]]
        assert isinstance(x, ir.Value)  # by `sharing`
        assert isinstance(y, ir.Value)
        message = f"{a.name} (%{x.name}) and {b.name} (%{y.name}) share bytes"
        if b.name not in a.may_alias and a.name not in b.may_alias:
            self.facts.require_apart(x, y, "WIR087", lambda: message, position)
        elif x is not y:
            message += ", but do not start at the same one"
            self.facts.require_apart(x, y, "WIR210", lambda: message, position, or_same_start=True)

    def extents(self, position: int, op: ir.Launch, kernel: ir.KernelDef) -> None:
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
            arg = op.args[i]
            assert isinstance(arg, ir.Value)  # by `launch`
            self.extent(position, op.kernel, arg, extent)

    def extent(self, position: int, kernel: str, arg: ir.Value, extent: Expr) -> None:
        """A kernel touches nothing where the extent is not positive, and nothing of an empty tensor, which
        has no address: where the extent is not that of the tensor's layout, it says that it is not positive
        there."""
        root, start = self.facts.place(arg)
        capacity = self.facts.capacity(root)
        need = as_size(extent)
        empty = sizes_of(arg)
        if start.__class__ is int and need.__class__ is int and capacity.__class__ is int:
            if 0 <= need <= capacity - start and (not empty or need == 0):
                return
        elif need is capacity and root is arg:
            return
        type = arg.type
        assert isinstance(type, ir.TensorType)  # by `launch`
        stated = self.facts.within(root, start, need)
        if ir.is_layout_extent(extent, type):
            claim = Claim(stated, empty)
        else:
            left = capacity - start  # none of it is not positive either where it holds what is needed
            there = tuple((1, n) for n in empty if not (self.is_none_at(need, n) or self.is_none_at(left, n)))
            claim = Claim((((need, 0),), *((*inside, *there) for inside in stated)))
        self.facts.require(
            claim,
            "WIR089",
            lambda: (
                f"@{kernel} may touch {shown(need)} bytes of %{arg.name}, which starts at {shown(start)} of {shown(capacity)}"
            ),
            position,
        )

    def is_none_at(self, extent: Size, size: Expr) -> bool:
        """Whether an extent surely is not positive where a size is 0: what the size's terms are equal to
        there is put in their place."""
        if isinstance(extent, int):
            return extent <= 0
        for monomial, scale in terms_of(size).items():
            if len(monomial) == 1 and scale in (1, -1):
                (atom,) = monomial
                there = sub(atom, size) if scale == 1 else add(atom, size)
                key = atom.name if isinstance(atom, Sym) else atom
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
