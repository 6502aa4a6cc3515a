"""What a program implies about the addresses of tensors, for kernels that rely on aligned pointers.

An address is known modulo a number (Granger, "Static analysis of arithmetical congruences", 1989): storages are aligned as
their types say, views add offsets, aligned copies and assertions say what they make sure of. A function's parameters and
results are what all of its calls have in common. Nothing is known about tensors from a caller or a library.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from math import gcd

from wrapper_ir import ir
from wrapper_ir.analysis.memo import Analyses
from wrapper_ir.expr import Expr, Int, add


@dataclass(frozen=True, slots=True)
class Congruence:
    """Numbers that are `rest` more than a multiple of `modulus`: of 1, any number; of 0, `rest` itself."""

    modulus: int = 1
    rest: int = 0

    def __str__(self) -> str:
        after = f"{self.rest} bytes after " if self.rest else "at "
        return "anywhere" if self.modulus == 1 else f"{after}a multiple of {self.modulus}"

    def plus(self, other: Congruence) -> Congruence:
        """Sums of these and other numbers."""
        return _congruence(gcd(self.modulus, other.modulus), self.rest + other.rest)

    def join(self, other: Congruence) -> Congruence:
        """Both these and other numbers."""
        return _congruence(gcd(self.modulus, other.modulus, self.rest - other.rest), self.rest)

    def meet(self, other: Congruence) -> Congruence:
        """Numbers that are in both, approximated by the larger modulus."""
        return other if other.modulus > self.modulus else self


def _congruence(modulus: int, rest: int) -> Congruence:
    return Congruence(modulus, rest % modulus if modulus else rest)


ANYWHERE = Congruence()
_Known = Congruence | None
"""None is what no call has reached yet: anything may be said of it."""


@dataclass(frozen=True, slots=True)
class Pointer:
    """An argument of a launch that its kernel takes to be a multiple of `param.divisible`: it is `offset` bytes after where
    `base` begins, of which `known` holds when the launch runs."""

    param: ir.KernelParam
    value: ir.Value[ir.TensorType]
    base: ir.Value
    offset: Expr
    known: Congruence

    @property
    def address(self) -> Congruence:
        """What is known of the address itself."""
        return self.known.plus(_congruence(*ir.remainder(self.offset)))


@dataclass(frozen=True, slots=True)
class Alignment:
    """The result of the analysis: by function and position of a launch, the pointers that its kernel relies on."""

    pointers: Mapping[str, Mapping[int, tuple[Pointer, ...]]] = field(default_factory=dict)

    def of(self, function: ir.Function) -> Mapping[int, tuple[Pointer, ...]]:
        """The pointers of one function."""
        return self.pointers.get(function.name, {})


_Relied = Mapping[str, tuple[tuple[int, ir.KernelParam], ...]]


def relied_pointers(analyses: Analyses) -> _Relied:
    """The positions of pointers that kernels take to be multiples of something, by kernel."""
    found = {
        name: tuple((i, p) for i, p in enumerate(k.params) if p.kind.takes_tensor and p.divisible > 1)
        for name, k in analyses.kernels.items()
    }
    return {name: params for name, params in found.items() if params}


def constant_alignment(analyses: Analyses) -> int:
    """What the storages of constants have to be aligned to, in bytes: what any kernel relies on, as far as constants are
    aligned at all."""
    divisors = [p.divisible for params in analyses.get(relied_pointers).values() for _, p in params]
    return max((gcd(ir.DEFAULT_ALIGNMENT, n) for n in divisors), default=1)


def analyse_alignment(analyses: Analyses) -> Alignment:
    """Runs the analysis, over functions until nothing changes; there is nothing to do where no kernel relies on anything."""
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
    """What is known of the functions' parameters and results; it becomes less from round to round."""

    analyses: Analyses
    relied: _Relied
    params: dict[ir.Value, _Known] = field(default_factory=dict)
    results: dict[str, tuple[_Known, ...]] = field(default_factory=dict)
    pointers: dict[str, Mapping[int, tuple[Pointer, ...]]] = field(default_factory=dict)
    constants: dict[ir.Value, Congruence] = field(default_factory=dict)
    changed: bool = False

    def round(self) -> bool:
        """Goes over all functions; whether anything has changed that another one rests on."""
        self.changed = False
        main = self.analyses.program.main
        for function in self.analyses.program.functions:
            flow = _Flow(function, self)
            if function is main:
                flow.known.update((p.value, _given(p.value)) for p in function.params)
            for position, op in enumerate(function.body):
                flow.step(position, op)
            self.pointers[function.name] = flow.pointers
            self.returned(function, flow)
        return self.changed

    def returned(self, function: ir.Function, flow: _Flow) -> None:
        last = function.body[-1]
        values = last.values if isinstance(last, ir.Return) else ()
        before = self.results.get(function.name, (None,) * len(values))
        after = tuple(_joined(old, flow.address(value)) for old, value in zip(before, values, strict=True))
        self.results[function.name] = after
        self.changed |= after != before

    def passed(self, function: ir.Function, given: Iterable[_Known]) -> None:
        """A call gives a function arguments of which this is known."""
        for param, known in zip(function.params, given, strict=False):
            before = self.params.get(param.value)
            after = self.params[param.value] = _joined(before, known)
            self.changed |= after != before


def _joined(a: _Known, b: _Known) -> _Known:
    if a is None or b is None:
        return b if a is None else a
    return a.join(b)


class _Flow:
    """One walk over one function. `places` are views' bases and byte offsets; `known` is what is known of the bases, so that
    what is found out about one holds for every view of it."""

    def __init__(self, function: ir.Function, calls: _Calls) -> None:
        self.calls = calls
        self.analyses = calls.analyses
        self.aliasing = calls.analyses.aliasing(function)
        self.places: dict[ir.Value, tuple[ir.Value, Expr]] = {}
        self.known: dict[ir.Value, _Known] = {p.value: calls.params.get(p.value) for p in function.params}
        self.pointers: dict[int, tuple[Pointer, ...]] = {}

    def place(self, value: ir.Value) -> tuple[ir.Value, Expr]:
        return self.places.get(value, (value, _ZERO))

    def base(self, value: ir.Value) -> _Known:
        """What is known of a value that is not a view."""
        if value in self.known:
            return self.known[value]
        if ir.is_storage(value):
            return Congruence(value.type.alignment)
        return self.calls.constants.get(value, ANYWHERE)

    def address(self, value: ir.Arg) -> _Known:
        if not isinstance(value, ir.Value):
            return ANYWHERE
        base, offset = self.place(value)
        known = self.base(base)
        return known if known is None else known.plus(_congruence(*ir.remainder(offset)))

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
            case ir.CallSubgraph() | ir.Switch() | ir.WhileLoop():
                self.call(op)
            case ir.ResizeStorage() | ir.SetStorage():
                self.forget(position, op)
            case _:
                for result, source in self.aliasing.effects[position].aliases:
                    if ir.is_tensor(result) and ir.is_tensor(source):
                        self.places[result] = self.place(source)

    def slot(self, op: ir.Slot) -> None:
        """Where its pool begins says more than the slot's alignment, unless that is more than follows from it."""
        if op.result.type.alignment == ir.slot_alignment(op.pool.type, op.offset):
            base, offset = self.place(op.pool)
            self.places[op.result] = base, add(offset, op.offset)

    def launch(self, position: int, op: ir.Launch) -> None:
        found = []
        for i, param in self.calls.relied.get(op.kernel, ()):
            arg = op.args[i] if i < len(op.args) else None
            if ir.is_tensor(arg):
                base, offset = self.place(arg)
                found.append(Pointer(param, arg, base, offset, self.base(base) or ANYWHERE))
        if found:
            self.pointers[position] = tuple(found)

    def learn(self, value: ir.Value, alignment: int) -> None:
        """`value` begins at a multiple of `alignment` bytes from here on; so much is known of where its base does."""
        base, offset = self.place(value)
        modulus, rest = ir.remainder(offset)
        known = self.base(base)
        if known is None:
            return
        if not modulus % alignment:
            self.known[base] = known.meet(_congruence(alignment, -rest))
        else:
            self.places[value] = value, _ZERO
            self.known[value] = Congruence(alignment)

    def aligned(self, op: ir.EnsureAligned) -> tuple[ir.Value, Expr]:
        """The source itself, where that is known to be aligned."""
        known = self.address(op.source)
        if known is None or not (known.modulus % op.alignment or known.rest % op.alignment):
            return self.place(op.source)
        self.known[op.result] = Congruence(op.alignment)
        return op.result, _ZERO

    def call(self, op: ir.CallingOp) -> None:
        functions, names = self.analyses.functions, ir.callees(op)
        given = [self.address(arg) for arg in ir.call_args(op)]
        for name in names:
            self.calls.passed(functions[name], given)
        if isinstance(op, ir.WhileLoop):
            again = self.calls.results.get(op.body_fn, ())
            for name in names:  # the next trip gets what the last one returned
                self.calls.passed(functions[name], again)
            names = () if op.stacked else (op.body_fn,)
        for number, value in enumerate(op.results):
            if ir.is_tensor(value):
                self.known[value] = self.result(op, names, number)

    def result(self, op: ir.CallingOp, names: Iterable[str], number: int) -> _Known:
        """What all functions return there. A loop without a trip gives what it was given, or a copy."""
        returned = [self.calls.results.get(name, ()) for name in names]
        if not returned:
            return ANYWHERE
        found: _Known = None
        if isinstance(op, ir.WhileLoop):
            found = _joined(self.address(op.carried[number]), Congruence(ir.DEFAULT_ALIGNMENT))
        for one in returned:
            found = _joined(found, one[number] if number < len(one) else None)
        return found

    def forget(self, position: int, op: ir.ResizeStorage | ir.SetStorage) -> None:
        """Nothing is known of where tensors begin whose storage is another one from here on. A storage of the program's own
        stays aligned as it was, since the same allocator gives it its new bytes."""
        touched = set(self.aliasing.roots_at(op.target, position))
        for value, roots in self.aliasing.roots.items():
            base, _ = self.place(value)
            stays = isinstance(op, ir.ResizeStorage) and ir.is_storage(base)
            if (
                ir.is_tensor(value)
                and not stays
                and touched & {*roots, *self.aliasing.roots_at(value, position)}
            ):
                self.places[value] = value, _ZERO
                self.known[value] = ANYWHERE


_ZERO = Int(0)


def _given(value: ir.Value) -> Congruence:
    """What is known of an argument of `main`."""
    return Congruence(value.type.alignment) if ir.is_storage(value) else ANYWHERE


def _of_constant(constant: ir.Constant) -> Congruence:
    """Engines put the storages of constants at such addresses (`constant_alignment`)."""
    return _congruence(ir.DEFAULT_ALIGNMENT, constant.offset)


def moves_storage(function: ir.Function, analyses: Analyses) -> bool:
    """Whether tensors may begin elsewhere after some op of the function."""
    effects = analyses.aliasing(function).effects
    return any(ir.EffectClass.STORAGE_CHANGE in e.classes for e in effects)
