"""Run-time checks of one function: conditions over symbols and layouts of tensors, each once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from inductor_frontend.guards.check_table import CheckTable, key_of
from inductor_frontend.guards.symbols import Symbols
from inductor_frontend.options import CaptureOptions
from inductor_frontend.record.graph import RecordingGraph
from wrapper_ir import ir
from wrapper_ir.builder import FunctionBuilder
from wrapper_ir.expr import Bool, Expr


@dataclass(frozen=True, slots=True, kw_only=True)
class FunctionGuards:
    """The run-time checks of one function, with its graph and its symbols.

    `model_checks`: the assertions of the model. `location` parses the place of an assertion from its stack
    trace.
    """

    graph: RecordingGraph
    function: FunctionBuilder
    symbols: Symbols
    model_checks: CheckTable
    location: Callable[[str], str]
    options: CaptureOptions
    _done: set[object] = field(default_factory=set)

    def assert_that(self, condition: Expr, message: str = "", prov: ir.Provenance | None = None) -> None:
        """Appends a check unless this function has an equivalent one.

        If the model has an equivalent assertion, its form, message and place are used. Raises ConversionError
        FE304 for an undefined symbol.
        """
        if not self.options.scalar_asserts or condition == Bool(True):
            return
        prov = self.function.prov if prov is None else prov
        keys = {key_of(condition)}
        original = self.model_checks.find(condition, self.symbols.defined)
        if original is not None:
            condition, check = original
            keys.add(key_of(condition))
            message = check.message or message
            prov = replace(prov, locations=(self.location(check.place),))
        if self._is_done(keys):
            return
        for name in sorted(condition.free_symbols):
            self.symbols.require(name)
        self.function.append(ir.AssertExpr(condition=condition, message=message, prov=prov))

    def assert_layout(self, value: ir.Value) -> None:
        """Appends the check that a parameter has the layout of its type, once.

        If a symbol was solved from a size, only this check detects that the size has no exact solution.
        """
        if not ir.is_tensor(value) or self._is_done({("layout", value)}):
            return
        self.function.append(
            ir.AssertLayout(
                tensors=(value,),
                sizes=(value.type.sizes,),
                strides=(value.type.strides,),
                message="input",
                prov=ir.Provenance(frontend_name=value.name),
            )
        )

    def _is_done(self, keys: set[object]) -> bool:
        """Returns whether a check with one of these keys exists, and marks all of them as existing."""
        exists = not self._done.isdisjoint(keys)
        self._done.update(keys)
        return exists
