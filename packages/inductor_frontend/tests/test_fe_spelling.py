"""Parameters of the model's own function, as recorded in a signature."""

from __future__ import annotations

from typing import Any

import torch

from inductor_frontend import capture
from inductor_frontend.export.call_signature import parameters_of
from wrapper_ir import ir
from wrapper_ir.expr import Bool, Float, Int

# Any in this file: arguments of any kind.
X = torch.ones(4, 3)
NOTHING = object()


class TestParameters:
    def test_defaults(self) -> None:
        def function(
            a: Any, /, b: Any, c: Any = 1.5, *rest: Any, d: Any = True, e: Any = NOTHING, **named: Any
        ) -> None:
            """Nothing."""

        assert parameters_of(function, (X, X), {"d": True}, static=True) == (
            ir.Parameter(name="a", kind=ir.ParameterKind.POSITIONAL),
            ir.Parameter(name="b"),
            ir.Parameter(name="c", required=False, default=Float(1.5)),
            ir.Parameter(name="d", kind=ir.ParameterKind.KEYWORD, required=False, default=Bool(True)),
        )

    def test_an_unsaid_default_ends_the_positions(self) -> None:
        def function(a: Any, b: Any = NOTHING, c: Any = None) -> None:
            """Nothing."""

        assert parameters_of(function, (X,), {"c": None}, static=True) == (
            ir.Parameter(name="a"),
            ir.Parameter(name="c", kind=ir.ParameterKind.KEYWORD, required=False),
        )

    def test_baked_in_values(self) -> None:
        def function(a: Any, n: Any, flag: Any = False) -> None:
            """Nothing."""

        required = ir.Parameter(name="n")
        left_out = ir.Parameter(name="n", required=False, default=Int(3))
        for static, n in ((True, left_out), (False, required)):
            parameters = parameters_of(function, (X, 3, True), {}, static=static)
            assert parameters == (ir.Parameter(name="a"), n, ir.Parameter(name="flag"))

    def test_functions_without_any(self) -> None:
        assert parameters_of(torch.sin, (X,), {}, static=True) == ()
        assert parameters_of(lambda *a, **k: None, (X,), {"k": 1}, static=True) == ()

    def test_literals(self) -> None:
        artifact = capture(lambda x: (x + 1, None, 3, "text", True), (X,))
        assert [b.value for b in artifact.signature.bindings if isinstance(b, ir.ConstantOutput)] == [
            None,
            Int(3),
            "text",
            Bool(True),
        ]
