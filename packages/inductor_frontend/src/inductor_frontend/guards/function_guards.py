"""What one function checks when it runs: conditions over symbols and layouts of tensors, each once."""

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
    """The checks of one function, with what they are about: its graph and its symbols. `model_checks` are the model's own,
    `location` reads the place of one of those from its stack trace."""

    graph: RecordingGraph
    function: FunctionBuilder
    symbols: Symbols
    model_checks: CheckTable
    location: Callable[[str], str]
    options: CaptureOptions
    _done: set[object] = field(default_factory=set)

    def assert_that(self, condition: Expr, message: str = "", prov: ir.Provenance | None = None) -> None:
        """Appends a check unless this function has made one that says the same. The model's own form, message and place
        come first, where it has made this check itself. Raises ConversionError FE304 for a symbol that nothing defines."""
        if not self.options.scalar_asserts or condition == Bool(True):
            return
        prov = self.function.prov if prov is None else prov
        keys = {key_of(condition)}
        found = self.model_checks.find(condition, self.symbols.defined)
        if found is not None:
            condition, check = found
            keys.add(key_of(condition))
            message = check.message or message
            prov = replace(prov, locations=(self.location(check.place),))
        if self._is_done(keys):
            return
        for name in sorted(condition.free_symbols):
            self.symbols.require(name)
        self.function.append(ir.AssertExpr(condition=condition, message=message, prov=prov))

    def assert_layout(self, value: ir.Value) -> None:
        """Appends the check that a parameter has the layout of its type, once. Where a size was solved for, only this
        tells that the solution was none."""
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
        """Whether a check with one of these keys was made; from now on all count as made."""
        done = not self._done.isdisjoint(keys)
        self._done.update(keys)
        return done
