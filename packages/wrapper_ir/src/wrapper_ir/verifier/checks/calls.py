"""Checks calls of the program's functions: arguments, ownership, results, predicates, loops."""

from __future__ import annotations

from functools import partial

from wrapper_ir import ir
from wrapper_ir.analysis.aliasing import returned_values
from wrapper_ir.expr import Expr, Int, SymKind
from wrapper_ir.verifier.facts import Check, FunctionFacts, Handlers
from wrapper_ir.verifier.obligations import Claim, Verdict

_BOOL = ir.ScalarType(SymKind.BOOL)


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
        count = len(op.branches)
        match _type_of(op.index):
            case ir.TensorType() as type:
                valid = not (type.dtype.is_floating or type.dtype.is_complex) and ir.may_have_item(type)
            case ir.ScalarType(kind):
                valid = kind in (SymKind.BOOL, SymKind.INT)
            case _:
                valid = False
        if not valid:
            message = "the index is neither a bool nor an int, nor a tensor of one of them"
            self.report("WIR096", message, position)
        elif count != 2 if ir.is_two_way(op) else not count:
            message = f"a bool selects one of 2 branches, not of {count}" if count else "no branch"
            self.report("WIR027", message, position)
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
        conditions = returned_values(cond)
        if len(conditions) != 1:
            self.report("WIR096", f"@{cond.name} must return one condition", position)
        else:
            self.predicate(position, conditions[0])
        returns = returned_values(body)
        if not len(op.carried) == len(returns) == len(op.results):
            numbers = f"{len(op.carried)}, {len(returns)} and {len(op.results)}"
            self.report("WIR099", f"carried values, body results, results: {numbers}", position)
            return
        self.fresh(position, body)
        for carried, value, result in zip(op.carried, returns, op.results):
            self.carry(position, carried, value, result, op.stacked)

    def fresh(self, position: int, body: ir.Function) -> None:
        """Requires that nothing else shares the results of a trip, because the loop frees them after the next
        trip."""
        owners: set[ir.Value] = set()
        for origin in self.facts.analyses.summary(body.name).results:
            if origin is None:
                continue
            if origin.params or origin.constants or not origin.certain or owners & set(origin.own):
                self.report("WIR098", f"@{body.name} returns a tensor that something else may hold", position)
            owners.update(origin.own)

    def carry(self, position: int, carried: ir.Arg, value: ir.Arg, result: ir.Value, stacked: bool) -> None:
        before, after, out = _type_of(carried), _type_of(value), result.type
        match before, out:
            case ir.TensorType(), ir.TensorType() if stacked:
                trip = (out.dtype, out.device, len(out.sizes) - 1)
                same = trip == _kind(before) and _same_numbers(out.sizes[1:], before.sizes)
            case _:
                same = _alike(before, out)
        if not same or not _alike(before, after):
            self.report("WIR099", f"%{result.name}: carried, made and resulting types differ", position)

    def predicate(self, position: int, arg: ir.Arg) -> None:
        valid = ir.may_have_item(arg.type) if ir.is_tensor(arg) else _type_of(arg) == _BOOL
        if not valid:
            self.report("WIR096", "the predicate is neither a bool nor a tensor of one element", position)

    def arguments(self, position: int, function: ir.Function, args: tuple[ir.Arg, ...]) -> None:
        if len(args) != len(function.params):
            message = f"@{function.name} has {len(function.params)} parameters, given {len(args)}"
            self.report("WIR092", message, position)
            return
        bound: dict[str, Expr] = {}
        for param, arg in zip(function.params, args):
            actual, formal = _type_of(arg), param.value.type
            message = f"@{function.name}: %{param.value.name} is given another type"
            match formal, actual:
                case ir.StorageType(), ir.StorageType():
                    self.lent(position, function, (formal, actual, message), bound)
                case ir.TensorType(), ir.TensorType() if _kind(formal) == _kind(actual):
                    self.tensor(position, function, (formal, actual, message), bound)
                case ir.TensorType(), ir.TensorType():
                    self.report("WIR093", message, position)
                case _ if formal != actual:
                    self.report("WIR093", message, position)
                case _:
                    pass

    def tensor(
        self,
        position: int,
        function: ir.Function,
        tensors: tuple[ir.TensorType, ir.TensorType, str],
        bound: dict[str, Expr],
    ) -> None:
        """Requires that an argument has the sizes and strides of its parameter."""
        formal, actual, message = tensors
        for f, a in (*zip(formal.sizes, actual.sizes), *zip(formal.strides, actual.strides)):
            equal = self.bound(function, f, a, bound)
            if equal is not None and equal is not a:
                claim = Claim((((equal, a), (a, equal)),))
                self.facts.require(claim, "WIR093", partial(str, message), position)

    def lent(
        self,
        position: int,
        function: ir.Function,
        storages: tuple[ir.StorageType, ir.StorageType, str],
        bound: dict[str, Expr],
    ) -> None:
        """Requires that a storage argument has at least the bytes and the alignment of its parameter."""
        formal, actual, message = storages
        same = (formal.device, formal.space) == (actual.device, actual.space)
        if not same or actual.alignment % formal.alignment:
            self.report("WIR093", message, position)
            return
        least = self.bound(function, formal.nbytes, actual.nbytes, bound)
        if least is not None and least is not actual.nbytes:
            claim = Claim((((least, actual.nbytes),),))
            self.facts.require(claim, "WIR093", partial(str, message), position)

    def bound(self, function: ir.Function, formal: Expr, actual: Expr, bound: dict[str, Expr]) -> Expr | None:
        """The required value of an argument's size, in symbols of the caller; None if any value is valid.

        A symbol that the callee defines has the value of the first argument that binds it.
        """
        if formal is actual:
            return None
        if formal.symbol is not None and formal.symbol not in function.captures:
            return bound.setdefault(formal.symbol, actual)
        return formal if formal.free_symbols <= set(function.captures) else None

    def results(self, position: int, function: ir.Function, results: tuple[ir.Value, ...]) -> None:
        returns = returned_values(function)
        if len(returns) != len(results):
            message = f"@{function.name} returns {len(returns)} values, not {len(results)}"
            self.report("WIR094", message, position)
            return
        for value, result in zip(returns, results):
            if not _alike(_type_of(value), result.type):
                self.report("WIR094", f"%{result.name} is not what @{function.name} returns", position)

    def alloc(self, position: int, op: ir.AllocStorage) -> None:
        if op.purpose is ir.AllocPurpose.POOL:
            self.pools.add(op.result)

    def slot(self, position: int, op: ir.Slot) -> None:
        self.pools.add(op.result)

    def change(self, position: int, op: ir.ResizeStorage | ir.SetStorage) -> None:
        roots = {r for v in ir.operands(op) for r in self.facts.aliasing.roots.get(v, ())}
        if not self.facts.is_main or roots & self.pools:
            self.report("WIR029", "storages change in main only, and planned ones never", position)


def _type_of(arg: ir.Arg) -> ir.Type | None:
    match arg:
        case ir.Value():
            return arg.type
        case Expr():
            return ir.ScalarType(arg.kind)
        case _:
            return None


def _alike(a: ir.Type | None, b: ir.Type | None) -> bool:
    """Returns whether types are equal except for symbols, which have other names in other functions."""
    match a, b:
        case ir.TensorType(), ir.TensorType():
            return _kind(a) == _kind(b) and _same_numbers((*a.sizes, *a.strides), (*b.sizes, *b.strides))
        case _:
            return a == b and a is not None


def _kind(type: ir.TensorType) -> tuple[ir.DType, ir.Device, int]:
    """The properties that argument and parameter share exactly: dtype, device and rank."""
    return type.dtype, type.device, len(type.sizes)


def _same_numbers(a: tuple[Expr, ...], b: tuple[Expr, ...]) -> bool:
    """Returns whether no two constants differ; other expressions are not compared."""
    return all(x == y or x.constant is None or y.constant is None for x, y in zip(a, b))
