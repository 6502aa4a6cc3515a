"""The table of `out=` variants, compared with the installed torch."""

from __future__ import annotations

import pytest
import torch

from tests.common.compare import allocated
from tools.out_variants import candidates
from wrapper_ir import ir
from wrapper_ir_passes.memory.out_variants import OUT_VARIANTS, out_variant


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
