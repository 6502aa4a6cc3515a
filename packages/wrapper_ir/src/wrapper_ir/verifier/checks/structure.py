"""Checks that functions end in one return, and that their callees exist and do not call them back."""

from __future__ import annotations

from wrapper_ir import ir
from wrapper_ir.analysis.memo import Analyses
from wrapper_ir.expr import Expr
from wrapper_ir.verifier.facts import Check, Handlers
from wrapper_ir.verifier.findings import Findings


class Structure(Check):
    """WIR020, WIR021, WIR025."""

    def handlers(self) -> Handlers:
        return {ir.Return: self.ret}

    def ret(self, position: int, op: ir.Return) -> None:
        if position != len(self.facts.function.body) - 1:
            self.report("WIR021", "only the last op may return", position)
        for value in op.values:
            match value:
                case ir.Value(type=ir.StorageType()):
                    self.report("WIR025", f"%{value.name} is a storage; return a view of it", position)
                case ir.Value() | Expr() | None:
                    pass
                case _:
                    self.report("WIR025", f"{value!r} cannot be returned", position)

    def finish(self) -> None:
        function = self.facts.function
        if function.last_return is None:
            self.report("WIR020", "the last op is not a return", len(function.body) - 1)


def check_calls(analyses: Analyses, findings: Findings) -> None:
    """WIR022 to WIR024, for the call graph, which the effects of calls depend on."""
    graph: dict[str, dict[str, int]] = {}
    main = analyses.program.functions[0]
    for function in analyses.program.functions:
        callees = graph.setdefault(function.name, {})
        for position, op in ir.calling_ops(function.body):
            for name in ir.callees(op):
                callees.setdefault(name, position)
                if name not in analyses.functions:
                    findings.add("WIR022", f"there is no function @{name}", function, position)
                elif name == main.name:
                    findings.add("WIR024", "main cannot be called", function, position)
    if main.captures:
        findings.add("WIR024", "main has no caller to capture symbols from", main)
    _check_recursion(analyses.functions, graph, findings)


def _check_recursion(
    functions: dict[str, ir.Function], graph: dict[str, dict[str, int]], findings: Findings
) -> None:
    """Searches depth first without recursion; state 1 is on the path, 2 is done."""
    state: dict[str, int] = {}
    for start in graph:
        stack = [(start, iter(graph[start].items()))] if start not in state else []
        state.setdefault(start, 1)
        while stack:
            name, rest = stack[-1]
            callee, position = next(rest, ("", -1))
            if position < 0:
                state[name] = 2
                stack.pop()
            elif state.get(callee) == 1:
                findings.add(
                    "WIR023", f"@{name} calls @{callee}, which leads back here", functions[name], position
                )
            elif callee not in state and callee in graph:
                state[callee] = 1
                stack.append((callee, iter(graph[callee].items())))
