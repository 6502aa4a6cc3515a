"""Calls of the program's own functions: arguments, ownership, results, predicates, loops."""

from __future__ import annotations

from functools import partial

from wrapper_ir import ir
from wrapper_ir.expr import Expr, Int, Sym, SymKind
from wrapper_ir.verifier.facts import Check, FunctionFacts, Handlers
from wrapper_ir.verifier.obligations import Claim, Verdict


class Calls(Check):
    """WIR092 to WIR099, and WIR029."""

    def __init__(self, facts: FunctionFacts) -> None:
        super().__init__(facts)
        self.functions = facts.analyses.functions
        self.pools: set[ir.Value] = set()

    def handlers(self) -> Handlers:
        return {
            ir.CallSubgraph: self.call,
            ir.Switch: self.switch,
            ir.WhileLoop: self.loop,
            ir.AllocStorage: self.alloc,
            ir.Slot: self.slot,
            ir.ResizeStorage: self.change,
            ir.SetStorage: self.change,
        }

    def call(self, position: int, op: ir.CallSubgraph) -> None:
        function = self.functions[op.function]
        self.arguments(position, function, op.args)
        self.results(position, function, op.results)

    def switch(self, position: int, op: ir.Switch) -> None:
        self.index(position, op)
        branches = [self.functions[name] for name in op.branches]
        for branch in branches:
            self.arguments(position, branch, op.args)
            self.results(position, branch, op.results)
        for branch in branches[1:]:
            if [p.ownership for p in branch.params] != [p.ownership for p in branches[0].params]:
                names = f"@{branches[0].name} and @{branch.name}"
                self.report("WIR095", f"{names} own different parameters", position)

    def index(self, position: int, op: ir.Switch) -> None:
        count, type = len(op.branches), _type_of(op.index)
        if isinstance(type, ir.TensorType):
            good = not (type.dtype.is_floating or type.dtype.is_complex) and ir.may_have_item(type)
        else:
            good = isinstance(type, ir.ScalarType) and type.kind in (SymKind.BOOL, SymKind.INT)
        if not good:
            message = "the index is neither a bool nor an int, nor a tensor of one of them"
            self.report("WIR096", message, position)
        elif count != 2 if ir.is_two_way(op) else not count:
            self.report(
                "WIR027",
                f"a bool selects one of 2 branches, not of {count}" if count else "no branch",
                position,
            )
        elif not ir.is_two_way(op) and isinstance(op.index, Expr):
            inside = Claim((((0, op.index), (op.index, Int(count - 1))),))
            if self.facts.proofs.decide(inside)[0] is Verdict.DISPROVED:
                self.report("WIR027", f"the index is none of 0 to {count - 1}", position)

    def loop(self, position: int, op: ir.WhileLoop) -> None:
        cond, body = self.functions[op.cond_fn], self.functions[op.body_fn]
        for function in (cond, body):
            self.arguments(position, function, ir.call_args(op))
            if any(p.ownership is ir.Ownership.OWNED for p in function.params):
                self.report("WIR097", f"@{function.name} owns a parameter", position)
        tested = _returned(cond)
        if len(tested) != 1:
            self.report("WIR096", f"@{cond.name} must return one condition", position)
        else:
            self.predicate(position, tested[0])
        produced = _returned(body)
        if not len(op.carried) == len(produced) == len(op.results):
            numbers = f"{len(op.carried)}, {len(produced)} and {len(op.results)}"
            self.report("WIR099", f"carried values, body results, results: {numbers}", position)
            return
        self.fresh(position, body)
        for carried, made, result in zip(op.carried, produced, op.results):
            self.carry(position, carried, made, result, op.stacked)

    def fresh(self, position: int, body: ir.Function) -> None:
        """A loop frees the results of a trip after the next one, so nothing else may hold them."""
        seen: set[ir.Value] = set()
        for origin in self.facts.analyses.summary(body.name).results:
            if origin is None:
                continue
            if origin.params or origin.constants or not origin.certain or seen & set(origin.own):
                self.report("WIR098", f"@{body.name} returns a tensor that something else may hold", position)
            seen.update(origin.own)

    def carry(self, position: int, carried: ir.Arg, made: ir.Arg, result: ir.Value, stacked: bool) -> None:
        before, after, out = _type_of(carried), _type_of(made), result.type
        if stacked and isinstance(out, ir.TensorType) and isinstance(before, ir.TensorType):
            trip = (out.dtype, out.device, len(out.sizes) - 1)
            same = trip == _kind(before) and _same_numbers(out.sizes[1:], before.sizes)
        else:
            same = _alike(before, out)
        if not same or not _alike(before, after):
            self.report("WIR099", f"%{result.name}: carried, made and resulting types differ", position)

    def predicate(self, position: int, arg: ir.Arg) -> None:
        type = arg.type if isinstance(arg, ir.Value) else None
        if isinstance(type, ir.TensorType):
            good = ir.may_have_item(type)
        else:
            good = isinstance(_type_of(arg), ir.ScalarType) and _type_of(arg) == ir.ScalarType(SymKind.BOOL)
        if not good:
            self.report("WIR096", "the predicate is neither a bool nor a tensor of one element", position)

    def arguments(self, position: int, function: ir.Function, args: tuple[ir.Arg, ...]) -> None:
        if len(args) != len(function.params):
            message = f"@{function.name} has {len(function.params)} parameters, given {len(args)}"
            self.report("WIR092", message, position)
            return
        bound: dict[str, Expr] = {}
        for param, arg in zip(function.params, args):
            given, wanted = _type_of(arg), param.value.type
            message = f"@{function.name}: %{param.value.name} is given another type"
            if isinstance(wanted, ir.StorageType) and isinstance(given, ir.StorageType):
                self.lent(position, function, (wanted, given, message), bound)
                continue
            if not isinstance(wanted, ir.TensorType) or not isinstance(given, ir.TensorType):
                if given is None or wanted != given:
                    self.report("WIR093", message, position)
                continue
            if _kind(wanted) != _kind(given):
                self.report("WIR093", message, position)
                continue
            for w, g in (*zip(wanted.sizes, given.sizes), *zip(wanted.strides, given.strides)):
                equal = self.bound(function, w, g, bound)
                if equal is not None and equal is not g:
                    claim = Claim((((equal, g), (g, equal)),))
                    self.facts.require(claim, "WIR093", partial(str, message), position)

    def lent(
        self,
        position: int,
        function: ir.Function,
        storages: tuple[ir.StorageType, ir.StorageType, str],
        bound: dict[str, Expr],
    ) -> None:
        """A callee gets at least the bytes that it asks for, as aligned as it asks."""
        wanted, given, message = storages
        if (wanted.device, wanted.space) != (given.device, given.space) or given.alignment % wanted.alignment:
            self.report("WIR093", message, position)
            return
        least = self.bound(function, wanted.nbytes, given.nbytes, bound)
        if least is not None and least is not given.nbytes:
            self.facts.require(Claim((((least, given.nbytes),),)), "WIR093", partial(str, message), position)

    def bound(self, function: ir.Function, wanted: Expr, given: Expr, bound: dict[str, Expr]) -> Expr | None:
        """What the argument's size has to be equal to: symbols that the callee defines take the argument's value."""
        if wanted is given:
            return None
        if isinstance(wanted, Sym) and wanted.name not in function.captures:
            return bound.setdefault(wanted.name, given)
        return wanted if wanted.free_symbols <= set(function.captures) else None

    def results(self, position: int, function: ir.Function, results: tuple[ir.Value, ...]) -> None:
        returned = _returned(function)
        if len(returned) != len(results):
            self.report(
                "WIR094", f"@{function.name} returns {len(returned)} values, not {len(results)}", position
            )
            return
        for value, result in zip(returned, results):
            if not _alike(_type_of(value), result.type):
                self.report("WIR094", f"%{result.name} is not what @{function.name} returns", position)

    def alloc(self, position: int, op: ir.AllocStorage) -> None:
        if op.purpose is ir.AllocPurpose.POOL:
            self.pools.add(op.result)

    def slot(self, position: int, op: ir.Slot) -> None:
        self.pools.add(op.result)

    def change(self, position: int, op: ir.ResizeStorage | ir.SetStorage) -> None:
        values = (op.target,) if isinstance(op, ir.ResizeStorage) else (op.target, op.source)
        roots = {r for v in values for r in self.facts.aliasing.roots.get(v, ())}
        main = self.facts.analyses.program.functions[0]
        if self.facts.function is not main or roots & self.pools:
            self.report("WIR029", "storages change in main only, and planned ones never", position)


def _returned(function: ir.Function) -> tuple[ir.Arg, ...]:
    last = function.body[-1] if function.body else None
    return last.values if isinstance(last, ir.Return) else ()


def _type_of(arg: ir.Arg) -> ir.Type | None:
    if isinstance(arg, ir.Value):
        return arg.type
    return ir.ScalarType(arg.kind) if isinstance(arg, Expr) else None


def _alike(a: ir.Type | None, b: ir.Type | None) -> bool:
    """Equal but for symbols, which have other names in other functions."""
    if not isinstance(a, ir.TensorType) or not isinstance(b, ir.TensorType):
        return a == b and a is not None
    return _kind(a) == _kind(b) and _same_numbers((*a.sizes, *a.strides), (*b.sizes, *b.strides))


def _kind(type: ir.TensorType) -> tuple[ir.DType, ir.Device, int]:
    """What calls agree on exactly: dtype, device and rank."""
    return type.dtype, type.device, len(type.sizes)


def _same_numbers(a: tuple[Expr, ...], b: tuple[Expr, ...]) -> bool:
    """Whether no two constants differ; of symbols, nothing is compared."""
    return all(not (isinstance(x, Int) and isinstance(y, Int)) or x.value == y.value for x, y in zip(a, b))
