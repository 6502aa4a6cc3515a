"""Calls of library operators fit the operators' schemas, and elements are taken out where they are."""

from __future__ import annotations

from functools import partial

from wrapper_ir import ir
from wrapper_ir.analysis.accumulation import accumulated
from wrapper_ir.analysis.memo import Analyses
from wrapper_ir.errors import SchemaError
from wrapper_ir.operators.library import rebinds
from wrapper_ir.operators.policy import called_names
from wrapper_ir.operators.symmetric import missing_symmetric
from wrapper_ir.verifier.checks.fitting import fits, result_kinds
from wrapper_ir.verifier.facts import Check, FunctionFacts, Handlers
from wrapper_ir.verifier.findings import Findings

Path = tuple[int | str, ...]


def check_externs(analyses: Analyses, findings: Findings) -> None:
    """WIR072, WIR206 and WIR207 for all declared operators."""
    for extern in analyses.program.externs:
        try:
            schema = ir.parse_schema(extern.schema)
        except SchemaError as error:
            findings.add("WIR072", error.message)
            continue
        tensors = [a.name for a in schema.args if a.is_tensor]
        for name in extern.symmetric:
            if name in tensors:
                tensors.remove(name)
            else:
                findings.add("WIR206", f"{extern.name} has no other tensor argument {name!r}")
        if missing := missing_symmetric(extern.symmetric, schema):
            findings.add("WIR207", f"{extern.name} needs symmetric memory for its argument {missing!r}")


class Externs(Check):
    """WIR071 to WIR079, WIR282."""

    def __init__(self, facts: FunctionFacts) -> None:
        super().__init__(facts)
        self.known = facts.analyses.extern_info
        self.made: dict[str, tuple[ir.ExternInfo, Path]] = {}
        """Nested results by name: the operator, and the path already taken."""

    def handlers(self) -> Handlers:
        return {ir.CallExtern: self.call, ir.CollectiveStart: self.call, ir.Unpack: self.unpack}

    def call(self, position: int, op: ir.OperatorCall) -> None:
        info = self.known.get(op.target)
        if info is None:
            if op.target not in self.facts.analyses.externs:
                self.report("WIR071", f"operator {op.target} is not declared", position)
            return
        if any(rebinds(name) for name in called_names(op.target)):
            what = "changes what its argument is, or reads outside of it, unseen"
            self.report(
                "WIR282", f"{op.target} {what}: say it with view, resize_storage or set_storage", position
            )
        self.arguments(position, op, info)
        if isinstance(op, ir.CollectiveStart):
            self.results(position, op, info)
        elif op.result is not None:
            self.result(position, op.result, info)
        self.outs(position, op, info)

    def arguments(self, position: int, op: ir.OperatorCall, info: ir.ExternInfo) -> None:
        declared, args = info.schema.args, op.args
        positional = info.positional
        if len(args) > positional:
            self.report("WIR073", f"{op.target} takes {positional} arguments by position", position)
        for arg, expected in zip(args, declared):
            if not fits(arg, expected.type):
                self.misfit(position, op.target, expected)
        given = {a.name for a in declared[: len(args)]}
        for name, arg in op.kwargs:
            named = info.named.get(name)
            if named is None or name in given:
                what = "twice" if name in given else "but has none such"
                self.report("WIR073", f"{op.target} is given {name!r} {what}", position)
            elif not fits(arg, named.type):
                self.misfit(position, op.target, named)
            given.add(name)
        for required in info.required:
            if required not in given:
                self.report("WIR074", f"{op.target} needs {required!r}", position)

    def misfit(self, position: int, target: str, declared: ir.SchemaArg) -> None:
        self.report("WIR075", f"{target}: argument {declared.name!r} must be {declared.type}", position)

    def result(self, position: int, value: ir.Value, info: ir.ExternInfo) -> None:
        returns = info.schema.returns
        if ir.is_results(value):
            self.made[value.name] = (info, ())
            if not returns:
                self.report("WIR076", f"{info.schema.name} returns nothing", position)
            return
        kinds = result_kinds(returns[0].type) if len(returns) == 1 else ()
        if kinds is not None and not isinstance(value.type, kinds):
            self.report("WIR076", f"%{value.name} is not what {info.schema.name} returns", position)

    def results(self, position: int, op: ir.CollectiveStart, info: ir.ExternInfo) -> None:
        """Of a collective: one a return, or any number of the elements of a list of tensors."""
        types = [r.type for r in info.schema.returns]
        if types == ["Tensor[]"]:
            return
        if len(op.results) != len(types) or not all(t == "Tensor" for t in types):
            what = ", ".join(types) or "nothing"
            self.report("WIR076", f"{len(op.results)} tensors of {op.target}, which returns {what}", position)

    def outs(self, position: int, op: ir.OperatorCall, info: ir.ExternInfo) -> None:
        """Out arguments are written before all reads are done; only a collective may work in its own part of them, and an accumulating
        matmul on what it adds to."""
        if not info.outs:
            return
        roots_at = self.facts.aliasing.roots_at
        pair = accumulated(op) if isinstance(op, ir.CallExtern) else None
        added = pair[1] if pair is not None and self.facts.same_window(*pair) else None
        reads = [v for v in self.facts.aliasing.effects[position].reads if v is not added]
        read = {r: v for v in reads for r in roots_at(v, position)}
        outs = [arg for name, arg in op.kwargs if name in info.outs]
        seen: set[ir.Value] = set()
        for value in (v for arg in outs for v in _flat(arg)):
            for root in roots_at(value, position):
                other = read.get(root)
                if other is not None and isinstance(op, ir.CollectiveStart) and self.is_part(value, other):
                    other = None
                if root in seen:
                    self.report("WIR079", _shares(value), position)
                elif other is not None:
                    self.facts.require_apart(value, other, "WIR079", partial(_shares, value), position)
                seen.add(root)

    def is_part(self, a: ir.Value, b: ir.Value) -> bool:
        """Whether one of two tensors is a process's part of the other: the whole is parts as large, one after
        another, as gathering in place has them."""
        (root_a, start_a), (root_b, start_b) = self.facts.place(a), self.facts.place(b)
        size_a, size_b = self.facts.types(a.type).extent, self.facts.types(b.type).extent
        if root_a != root_b or not (isinstance(start_a, int) and isinstance(start_b, int)):
            return False
        if not (isinstance(size_a, int) and isinstance(size_b, int)):
            return False
        small, large = sorted((size_a, size_b))
        return small > 0 and large % small == 0 and (start_a - start_b) % small == 0

    def unpack(self, position: int, op: ir.Unpack) -> None:
        made = self.made.get(op.source.name)
        if made is None:
            return
        info, prefix = made
        path = (*prefix, *op.path)
        nested = ir.is_results(op.result)
        if nested:
            self.made[op.result.name] = (info, path)
        returns = info.schema.returns
        if len(returns) > 1:
            if not path:
                if not nested:
                    self.report("WIR077", f"{info.schema.name} returns {len(returns)} values", position)
                return
            first, rest = path[0], path[1:]
            if not isinstance(first, int) or not 0 <= first < len(returns):
                self.report("WIR077", f"{info.schema.name} has no result {first!r}", position)
                return
        else:
            first, rest = 0, path
        self.element(position, op.result, returns[first].type, rest)

    def element(self, position: int, value: ir.Value, declared: str, path: Path) -> None:
        """`value` is the element at `path` of a result of schema type `declared`."""
        for step in path:
            inner = declared.removesuffix("?")
            if not inner.endswith("]"):
                if result_kinds(inner) is not None:
                    self.report("WIR077", f"{declared} holds nothing at {step!r}", position)
                return
            if not isinstance(step, int) or step < 0:
                self.report("WIR077", f"{declared} is indexed by {step!r}", position)
                return
            declared = inner[: inner.rindex("[")]
        kinds = result_kinds(declared)
        listed = declared.removesuffix("?").endswith("]")
        if kinds is not None and not isinstance(value.type, kinds):
            self.report("WIR078", f"%{value.name} is taken out of a {declared}", position)
        elif listed and ir.is_tensor(value):
            self.report("WIR078", f"%{value.name} is a whole {declared}", position)


def _shares(value: ir.Value) -> str:
    return f"out argument %{value.name} shares bytes with another"


def _flat(arg: ir.Arg) -> list[ir.Value]:
    if isinstance(arg, ir.Value):
        return [arg]
    return [v for item in arg for v in _flat(item)] if isinstance(arg, tuple) else []
