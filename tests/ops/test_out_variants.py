"""The table of `out=` variants, compared with the installed torch."""

from __future__ import annotations

import pytest
import torch

from cpp_wrapper.sources.native import native_operators
from tests.common.compare import allocated
from tools.out_variants import candidates
from wrapper_ir import ir
from wrapper_ir.operators.native import NATIVE_OPERATORS
from wrapper_ir_passes.memory.out_variants import NATIVE_VARIANTS, OUT_VARIANTS, out_variant
from wrapper_ir_passes.packing import unpacked_calls


def test_rows_are_variants_that_torch_does_not_generate() -> None:
    """With the arguments of the operator and `out`, as they are declared from its schema."""
    known = {f"aten::{name}": f"aten::{variant}" for name, variant in candidates().items()}
    assert OUT_VARIANTS.items() <= known.items()
    for name, variant in OUT_VARIANTS.items():
        schemas = [_schema(n) for n in (name, variant)]
        declared = out_variant(ir.ExternDef(schema=schemas[0]))
        assert declared is not None
        assert ir.parse_schema(declared.schema).args == ir.parse_schema(schemas[1]).args


def _schema(name: str) -> str:
    namespace, _, rest = name.partition("::")
    packet, _, overload = rest.partition(".")
    return str(getattr(getattr(getattr(torch.ops, namespace), packet), overload or "default")._schema)


@pytest.mark.parametrize("name", NATIVE_VARIANTS)
def test_native_variants_are_operators_of_torch_and_of_the_native_runtime(name: str) -> None:
    """As the pass declares them from the operator's schema in torch."""
    declared = out_variant(ir.ExternDef(schema=_schema(name)), NATIVE_VARIANTS)
    assert declared is not None
    assert declared.name == NATIVE_VARIANTS[name]
    for schema in (ir.parse_schema(_schema(declared.name)), native_operators().host[declared.name].schema):
        assert _arguments(ir.parse_schema(declared.schema)) == _arguments(schema)


def test_native_operators_of_passes_are_in_the_native_runtime() -> None:
    for extern in NATIVE_OPERATORS:
        assert _arguments(ir.parse_schema(extern.schema)) == _arguments(
            native_operators().host[extern.name].schema
        )


def test_operators_of_unpacked_constants_are_those_of_torch() -> None:
    for extern in unpacked_calls.ORIGINALS:
        assert ir.parse_schema(extern.schema) == ir.parse_schema(_schema(extern.name))


def _arguments(schema: ir.OpSchema) -> list[tuple[object, ...]]:
    return [(a.name, a.type, a.keyword_only, a.written) for a in schema.args]


@pytest.mark.parametrize("name", ["cumsum", "mm", "cat", "index_select", "add.Tensor"])
def test_nothing_is_allocated(name: str) -> None:
    assert f"aten::{name}" in OUT_VARIANTS
    x, i, out = torch.randn(32, 32), torch.arange(32), torch.empty(32, 32)
    calls = {
        "cumsum": lambda: torch.ops.aten.cumsum.out(x, 0, out=out),
        "mm": lambda: torch.ops.aten.mm.out(x, x, out=out),
        "cat": lambda: torch.ops.aten.cat.out([x[:16], x[16:]], out=out),
        "index_select": lambda: torch.ops.aten.index_select.out(x, 0, i, out=out),
        "add.Tensor": lambda: torch.ops.aten.add.out(x, x, out=out),
    }
    assert max(allocated(calls[name]), default=0) < x.nbytes


def test_what_is_generated_is_not_there() -> None:
    """`convolution.out` calls `convolution` and copies its result."""
    assert torch.Tag.generated in torch.ops.aten.convolution.out.tags
    assert "aten::convolution" not in OUT_VARIANTS
