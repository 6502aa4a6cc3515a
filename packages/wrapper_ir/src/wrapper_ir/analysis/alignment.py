"""Infers the alignment of tensors' addresses, for kernels that rely on aligned pointers.

An address is known modulo a number (Granger, "Static analysis of arithmetical congruences", 1989). Types give
the alignment of storages, views add offsets, and aligned copies and assertions guarantee their own alignment.
Facts about a function's parameters and results hold for all of its calls. Nothing is known about tensors from
a caller or a library.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import gcd

from wrapper_ir import ir
from wrapper_ir.analysis.aliasing import returned_values
from wrapper_ir.analysis.memo import Analyses
from wrapper_ir.expr import Expr, Int, add


@dataclass(frozen=True, slots=True)
class Congruence:
    """Numbers that are congruent to `rest` modulo `modulus`. A modulus of 1 is any number, one of 0 is `rest`
    only."""

    modulus: int = 1
    rest: int = 0

    def __str__(self) -> str:
        after = f"{self.rest} bytes after " if self.rest else "at "
        return "anywhere" if self.modulus == 1 else f"{after}a multiple of {self.modulus}"

    def plus(self, other: Congruence) -> Congruence:
        """The sums of a number of this set and one of the other."""
        return _congruence(gcd(self.modulus, other.modulus), self.rest + other.rest)

    def join(self, other: Congruence) -> Congruence:
        """The union of both sets, as the smallest congruence that contains it."""
        return _congruence(gcd(self.modulus, other.modulus, self.rest - other.rest), self.rest)

    def meet(self, other: Congruence) -> Congruence:
        """The intersection of both sets, approximated by the one with the larger modulus."""
        return other if other.modulus > self.modulus else self


def _congruence(modulus: int, rest: int) -> Congruence:
    return Congruence(modulus, rest % modulus if modulus else rest)


ANYWHERE = Congruence()
_Fact = Congruence | None
"""None: no call has reached the value yet (the bottom of the lattice)."""


@dataclass(frozen=True, slots=True)
class Pointer:
    """An argument of a launch whose address the kernel assumes to be a multiple of `param.divisible`.

    It starts `offset` bytes after the start of `base`, whose address is in `known` when the launch runs.
    """

    param: ir.KernelParam
    value: ir.Value[ir.TensorType]
    base: ir.Value
    offset: Expr
    known: Congruence

    @property
    def address(self) -> Congruence:
        """The congruence of the address itself."""
        return self.known.plus(_congruence(*ir.remainder(self.offset)))


@dataclass(frozen=True, slots=True)
class Alignment:
    """The result of the analysis: by function and position of a launch, the pointers that its kernel relies
    on."""

    pointers: Mapping[str, Mapping[int, tuple[Pointer, ...]]] = field(default_factory=dict)

    def of(self, function: ir.Function) -> Mapping[int, tuple[Pointer, ...]]:
        """The pointers of one function."""
        return self.pointers.get(function.name, {})


_Relied = Mapping[str, tuple[tuple[int, ir.KernelParam], ...]]


def relied_pointers(analyses: Analyses) -> _Relied:
    """For each kernel, the positions of the pointers whose addresses it assumes to be multiples of a
    number."""
    by_kernel = {
        name: tuple((i, p) for i, p in enumerate(k.params) if p.kind.takes_tensor and p.divisible > 1)
        for name, k in analyses.kernels.items()
    }
    return {name: params for name, params in by_kernel.items() if params}


def constant_alignment(analyses: Analyses) -> int:
    """The required alignment of constants' storages in bytes: the most that any kernel relies on, at most
    `DEFAULT_ALIGNMENT`."""
    divisors = [p.divisible for params in analyses.get(relied_pointers).values() for _, p in params]
    return max((gcd(ir.DEFAULT_ALIGNMENT, n) for n in divisors), default=1)


def analyse_alignment(analyses: Analyses) -> Alignment:
    """Runs the analysis over all functions to a fixed point; returns at once if no kernel relies on
    alignment."""
    relied = analyses.get(relied_pointers)
    if not relied:
        return Alignment()
    constants = {c.value: _of_constant(c) for c in analyses.program.constants}
    state = _Calls(analyses, relied, constants=constants)
    while state.round():
        pass
    return Alignment(state.pointers)


@dataclass(slots=True)
class _Calls:
    """Facts about the functions' parameters and results; they become weaker from round to round."""

    analyses: Analyses
    relied: _Relied
    params: dict[ir.Value, _Fact] = field(default_factory=dict)
    results: dict[str, tuple[_Fact, ...]] = field(default_factory=dict)
    pointers: dict[str, Mapping[int, tuple[Pointer, ...]]] = field(default_factory=dict)
    constants: dict[ir.Value, Congruence] = field(default_factory=dict)
    changed: bool = False

    def round(self) -> bool:
        """Visits all functions; returns whether a fact changed that another function depends on."""
        self.changed = False
        main = self.analyses.program.main
        for function in self.analyses.program.functions:
            flow = _Flow(function, self)
            if function is main:
                flow.known.update((p.value, _argument_of_main(p.value)) for p in function.params)
            for position, op in enumerate(function.body):
                flow.step(position, op)
            self.pointers[function.name] = flow.pointers
            self.returned(function, flow)
        return self.changed

    def returned(self, function: ir.Function, flow: _Flow) -> None:
        values = returned_values(function)
        before = self.results.get(function.name, (None,) * len(values))
        after = tuple(_joined(old, flow.address(value)) for old, value in zip(before, values, strict=True))
        self.results[function.name] = after
        self.changed |= after != before

    def passed(self, function: ir.Function, arguments: Iterable[_Fact]) -> None:
        """Joins the facts about a call's arguments into those about the parameters."""
        for param, fact in zip(function.params, arguments, strict=False):
            before = self.params.get(param.value)
            after = self.params[param.value] = _joined(before, fact)
            self.changed |= after != before


def _joined(a: _Fact, b: _Fact) -> _Fact:
    if a is None or b is None:
        return b if a is None else a
    return a.join(b)


class _Flow:
    """One walk over one function. `places` are the bases and byte offsets of views. `known` are the facts
    about bases, so that a fact learned through one view holds for all views of its base."""

    def __init__(self, function: ir.Function, calls: _Calls) -> None:
        self.calls = calls
        self.analyses = calls.analyses
        self.aliasing = calls.analyses.aliasing(function)
        self.places: dict[ir.Value, tuple[ir.Value, Expr]] = {}
        self.known: dict[ir.Value, _Fact] = {p.value: calls.params.get(p.value) for p in function.params}
        self.pointers: dict[int, tuple[Pointer, ...]] = {}

    def place(self, value: ir.Value) -> tuple[ir.Value, Expr]:
        return self.places.get(value, (value, _ZERO))

    def base(self, value: ir.Value) -> _Fact:
        """The fact about a value that is not a view."""
        if value in self.known:
            return self.known[value]
        if ir.is_storage(value):
            return Congruence(value.type.alignment)
        return self.calls.constants.get(value, ANYWHERE)

    def address(self, value: ir.Arg) -> _Fact:
        if not isinstance(value, ir.Value):
            return ANYWHERE
        base, offset = self.place(value)
        fact = self.base(base)
        return fact if fact is None else fact.plus(_congruence(*ir.remainder(offset)))

    def step(self, position: int, op: ir.Op) -> None:
        match op:
            case ir.View():
                base, offset = self.place(op.source)
                self.places[op.result] = base, add(offset, op.offset)
            case ir.Slot():
                self.slot(op)
            case ir.Launch():
                self.launch(position, op)
            case ir.AssertLayout() if op.alignment:
                for tensor in op.tensors:
                    self.learn(tensor, op.alignment)
            case ir.EnsureAligned():
                self.places[op.result] = self.aligned(op)
            case ir.CallSubgraph() | ir.Switch():
                self.call(op)
            case ir.WhileLoop():
                self.loop(op)
            case ir.ResizeStorage() | ir.SetStorage():
                self.forget(position, op)
            case _:
                for result, source in self.aliasing.effects[position].aliases:
                    if ir.is_tensor(result) and ir.is_tensor(source):
                        self.places[result] = self.place(source)

    def slot(self, op: ir.Slot) -> None:
        """The address of the pool tells more than the slot's alignment, unless it does not imply that
        alignment."""
        if op.result.type.alignment == ir.slot_alignment(op.pool.type, op.offset):
            base, offset = self.place(op.pool)
            self.places[op.result] = base, add(offset, op.offset)

    def launch(self, position: int, op: ir.Launch) -> None:
        pointers = []
        for i, param in self.calls.relied.get(op.kernel, ()):
            arg = op.args[i] if i < len(op.args) else None
            if ir.is_tensor(arg):
                base, offset = self.place(arg)
                pointers.append(Pointer(param, arg, base, offset, self.base(base) or ANYWHERE))
        if pointers:
            self.pointers[position] = tuple(pointers)

    def learn(self, value: ir.Value, alignment: int) -> None:
        """Notes that `value` starts at a multiple of `alignment` bytes from here on, as a fact about its base
        if the offset allows."""
        base, offset = self.place(value)
        modulus, rest = ir.remainder(offset)
        fact = self.base(base)
        if fact is None:
            return
        if not modulus % alignment:
            self.known[base] = fact.meet(_congruence(alignment, -rest))
        else:
            self.places[value] = value, _ZERO
            self.known[value] = Congruence(alignment)

    def aligned(self, op: ir.EnsureAligned) -> tuple[ir.Value, Expr]:
        """The place of the source if it is known to be aligned, else of the copy."""
        fact = self.address(op.source)
        if fact is None or not (fact.modulus % op.alignment or fact.rest % op.alignment):
            return self.place(op.source)
        self.known[op.result] = Congruence(op.alignment)
        return op.result, _ZERO

    def call(self, op: ir.CallSubgraph | ir.Switch) -> None:
        names = ir.callees(op)
        self.passes(names, [self.address(arg) for arg in ir.call_args(op)])
        for number, value in enumerate(op.results):
            if ir.is_tensor(value):
                self.known[value] = self.joined(names, number) if names else ANYWHERE

    def loop(self, op: ir.WhileLoop) -> None:
        """A loop that makes no trip returns the carried arguments or copies of them."""
        names = ir.callees(op)
        self.passes(names, [self.address(arg) for arg in ir.call_args(op)])
        self.passes(names, self.calls.results.get(op.body_fn, ()))  # of one trip, for the next
        for number, value in enumerate(op.results):
            if ir.is_tensor(value) and op.stacked:
                self.known[value] = ANYWHERE
            elif ir.is_tensor(value):
                copied = _joined(self.address(op.carried[number]), Congruence(ir.DEFAULT_ALIGNMENT))
                self.known[value] = _joined(copied, self.joined((op.body_fn,), number))

    def passes(self, names: Iterable[str], arguments: Sequence[_Fact]) -> None:
        """Notes the arguments of functions."""
        for name in names:
            self.calls.passed(self.analyses.functions[name], arguments)

    def joined(self, names: Iterable[str], number: int) -> _Fact:
        """The join of the functions' results with this number."""
        fact: _Fact = None
        for name in names:
            results = self.calls.results.get(name, ())
            fact = _joined(fact, results[number] if number < len(results) else None)
        return fact

    def forget(self, position: int, op: ir.ResizeStorage | ir.SetStorage) -> None:
        """Discards facts about tensors whose storage is replaced. A storage that the program allocates keeps
        its alignment when resized, because the same allocator provides the new bytes."""
        changed = set(self.aliasing.roots_at(op.target, position))
        for value, roots in self.aliasing.roots.items():
            base, _ = self.place(value)
            is_stable = isinstance(op, ir.ResizeStorage) and ir.is_storage(base)
            if (
                ir.is_tensor(value)
                and not is_stable
                and changed & {*roots, *self.aliasing.roots_at(value, position)}
            ):
                self.places[value] = value, _ZERO
                self.known[value] = ANYWHERE


_ZERO = Int(0)


def _argument_of_main(value: ir.Value) -> Congruence:
    return Congruence(value.type.alignment) if ir.is_storage(value) else ANYWHERE


def _of_constant(constant: ir.Constant) -> Congruence:
    """The address of a constant: engines align the storages of constants (`constant_alignment`)."""
    return _congruence(ir.DEFAULT_ALIGNMENT, constant.offset)


def moves_storage(function: ir.Function, analyses: Analyses) -> bool:
    """Returns whether an op of the function may change the address of a tensor."""
    effects = analyses.aliasing(function).effects
    return any(ir.EffectClass.STORAGE_CHANGE in e.classes for e in effects)
