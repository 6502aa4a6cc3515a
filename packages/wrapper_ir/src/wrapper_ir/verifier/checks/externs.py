"""Checks calls of library operators against their schemas, and paths of unpacked elements."""

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
from wrapper_ir.verifier.obligations import as_numbers

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
        """Nested results by name: the operator, and the path to the element."""

    def handlers(self) -> Handlers:
        return {ir.CallExtern: self.call, ir.CollectiveStart: self.call, ir.Unpack: self.unpack}

    def call(self, position: int, op: ir.OperatorCall) -> None:
        info = self.known.get(op.target)
        if info is None:
            if op.target not in self.facts.analyses.externs:
                self.report("WIR071", f"operator {op.target} is not declared", position)
            return
        if any(rebinds(name) for name in called_names(op.target)):
            message = (
                f"{op.target} changes the memory or layout of its argument, or reads outside of it, "
                "without a check: use view, resize_storage or set_storage"
            )
            self.report("WIR282", message, position)
        self.arguments(position, op, info)
        match op:
            case ir.CollectiveStart():
                self.results(position, op, info)
            case ir.CallExtern(result=ir.Value() as result):
                self.result(position, result, info)
            case _:
                pass  # a call without a result
        self.outs(position, op, info)

    def arguments(self, position: int, op: ir.OperatorCall, info: ir.ExternInfo) -> None:
        declared, args = info.schema.args, op.args
        positional = info.positional
        if len(args) > positional:
            self.report("WIR073", f"{op.target} takes {positional} arguments by position", position)
        for arg, expected in zip(args, declared):
            if not fits(arg, expected.type):
                self.misfit(position, op.target, expected)
        names = {a.name for a in declared[: len(args)]}
        for name, arg in op.kwargs:
            schema_arg = info.named.get(name)
            if schema_arg is None or name in names:
                what = "twice" if name in names else "but has none such"
                self.report("WIR073", f"{op.target} is given {name!r} {what}", position)
            elif not fits(arg, schema_arg.type):
                self.misfit(position, op.target, schema_arg)
            names.add(name)
        for required in info.required:
            if required not in names:
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
        if kinds is not None and value.type.__class__ not in kinds:
            self.report("WIR076", f"%{value.name} is not what {info.schema.name} returns", position)

    def results(self, position: int, op: ir.CollectiveStart, info: ir.ExternInfo) -> None:
        """Checks the results of a collective: one for each return, or any number for a list of tensors."""
        types = [r.type for r in info.schema.returns]
        if types == ["Tensor[]"]:
            return
        if len(op.results) != len(types) or not all(t == "Tensor" for t in types):
            what = ", ".join(types) or "nothing"
            self.report("WIR076", f"{len(op.results)} tensors of {op.target}, which returns {what}", position)

    def outs(self, position: int, op: ir.OperatorCall, info: ir.ExternInfo) -> None:
        """Requires that out arguments share no bytes with other arguments, because they may be written before
        all reads.

        A collective may read its part of the out argument, and an accumulating matmul the tensor that it adds
        to.
        """
        if not info.outs:
            return
        roots_at = self.facts.aliasing.roots_at
        pair = accumulated(op) if isinstance(op, ir.CallExtern) else None
        added = pair[1] if pair is not None and self.facts.same_window(*pair) else None
        reads = [v for v in self.facts.aliasing.effects[position].reads if v is not added]
        read = {r: v for v in reads for r in roots_at(v, position)}
        outs = [arg for name, arg in op.kwargs if name in info.outs]
        roots: set[ir.Value] = set()
        for value in (v for arg in outs for v in ir.values_in(arg, [])):
            for root in roots_at(value, position):
                other = read.get(root)
                if other is not None and isinstance(op, ir.CollectiveStart) and self.is_part(value, other):
                    other = None
                if root in roots:
                    self.report("WIR079", _shares(value), position)
                elif other is not None:
                    self.facts.require_apart(value, other, "WIR079", partial(_shares, value), position)
                roots.add(root)

    def is_part(self, a: ir.Value, b: ir.Value) -> bool:
        """Returns whether one of two tensors is a process's part of the other, as in gathering in place: the
        whole consists of adjacent parts of one size."""
        (root_a, start_a), (root_b, start_b) = self.facts.place(a), self.facts.place(b)
        sizes = as_numbers(self.facts.types(a.type).extent, self.facts.types(b.type).extent)
        starts = as_numbers(start_a, start_b)
        if root_a != root_b or sizes is None or starts is None:
            return False
        small, large = sorted(sizes)
        return small > 0 and large % small == 0 and (starts[0] - starts[1]) % small == 0

    def unpack(self, position: int, op: ir.Unpack) -> None:
        nested_result = self.made.get(op.source.name)
        if nested_result is None:
            return
        info, prefix = nested_result
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
        """Checks `value`, the element at `path` of a result of schema type `declared`."""
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
        if kinds is not None and value.type.__class__ not in kinds:
            self.report("WIR078", f"%{value.name} is taken out of a {declared}", position)
        elif listed and ir.is_tensor(value):
            self.report("WIR078", f"%{value.name} is a whole {declared}", position)


def _shares(value: ir.Value) -> str:
    return f"out argument %{value.name} shares bytes with another"
