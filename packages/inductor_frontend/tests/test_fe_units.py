"""Small parts: conversions, provenance, structures, constants' bytes, strides."""

from __future__ import annotations

from collections import OrderedDict, namedtuple
from typing import NamedTuple
from unittest import mock

import pytest
import sympy
import torch
from torch._inductor.sizevars import SizeVarAllocator
from torch.utils import _pytree as pytree
from torch.utils._sympy.functions import Identity

from inductor_frontend import CaptureOptions, capture
from inductor_frontend.constants import host_copy, tensor_data
from inductor_frontend.convert import literal, to_device, to_dtype, to_expr
from inductor_frontend.export.trees import to_tree
from inductor_frontend.scope.provenance import ProvenanceReader
from inductor_frontend.session import capture_session
from inductor_frontend.torch_patches.symbol_facts import bound
from wrapper_ir import ir
from wrapper_ir.expr import Bool, Float, Int, Sym
from wrapper_ir_torch import DTYPES


class Point(NamedTuple):
    x: object
    y: object


class TestConversions:
    @pytest.mark.parametrize("dtype", ir.DType)
    def test_dtypes_both_ways(self, dtype: ir.DType) -> None:
        assert to_dtype(DTYPES[dtype]) is dtype

    def test_devices(self) -> None:
        assert to_device(None) is ir.CPU
        assert to_device(torch.device("cpu", 0)) is ir.CPU
        assert to_device(torch.device("cuda", 1)) == ir.Device("cuda", 1)

    def test_expressions(self) -> None:
        s = sympy.Symbol("s0", integer=True, positive=True)
        assert to_expr(7) is Int(7)
        assert to_expr(sympy.Integer(7)) is Int(7)
        assert to_expr(s) is Sym("s0")
        assert to_expr(2 * s + 1) == 2 * Sym("s0") + 1

    def test_literals(self) -> None:
        assert literal((1, 2.5, True, None, "x", torch.float32)) == (
            Int(1),
            Float(2.5),
            Bool(True),
            None,
            "x",
            ir.DType.F32,
        )

    def test_bounds(self) -> None:
        assert bound(sympy.Integer(5)) == 5
        assert bound(sympy.oo) is None
        assert bound(sympy.Integer(2**63 - 1)) is None


class TestProvenance:
    def test_of_a_library_call(self) -> None:
        model = torch.nn.Sequential(OrderedDict(fc=torch.nn.Linear(4, 4)))
        (call,) = [
            op
            for op in capture(model, (torch.randn(2, 4),)).program.main.body
            if isinstance(op, ir.CallExtern)
        ]
        assert "aten.addmm.default" in call.prov.ops
        assert "addmm" in call.prov.nodes
        assert call.prov.modules == ("fc",)
        assert call.prov.locations[0].startswith("torch/nn/modules/linear.py:")
        assert call.prov.frontend_name == "buf0"

    def test_own_code_is_preferred_over_torchs(self) -> None:
        class Own(torch.nn.Module):
            """torch.export records the frames of `forward` methods."""

            def forward(self, x: torch.Tensor) -> torch.Tensor:
                return torch.nn.functional.gelu(x)

        artifact = capture(Own(), (torch.randn(4),))
        places = {p for op in artifact.program.main.body for p in op.prov.locations}
        assert places
        assert all("test_fe_units.py:" in p for p in places)

    def test_every_op_but_ends_and_returns_says_where_it_is_from(self) -> None:
        shapes = ({0: torch.export.Dim("n", min=2, max=9)},)
        program = capture(torch.nn.Linear(4, 4), (torch.randn(3, 4),), dynamic_shapes=shapes).program
        unknown = {type(op) for op in program.main.body if op.prov is ir.UNKNOWN or op.prov == ir.UNKNOWN}
        assert unknown <= {ir.Return, ir.Free, ir.Drop}

    def test_without_sources(self) -> None:
        assert ProvenanceReader("").read((), "") is ir.UNKNOWN
        assert ProvenanceReader("").read((), "buf0").frontend_name == "buf0"


class TestStructures:
    def test_containers(self) -> None:
        tree = (1, [2, {"k": 3}], Point(4, 5), OrderedDict(z=6), None)
        spec = to_tree(pytree.tree_structure(tree))
        assert spec.kind is ir.TreeKind.TUPLE
        assert [c.kind for c in spec.children] == [
            ir.TreeKind.LEAF,
            ir.TreeKind.LIST,
            ir.TreeKind.NAMEDTUPLE,
            ir.TreeKind.CUSTOM,
            ir.TreeKind.LEAF,
        ]
        assert spec.num_leaves == 7
        assert spec.children[1].children[1].keys == ('"k"',)
        assert spec.children[2].keys == ("x", "y")
        assert spec.children[2].type_name.endswith(":Point")
        assert spec.children[3].type_name == "collections:OrderedDict"


class TestConstants:
    def test_bytes_are_not_copied(self) -> None:
        tensor = torch.arange(4, dtype=torch.int32)
        data = tensor_data("t", tensor)
        tensor[0] = 7
        assert data.buffer[0] == 7
        assert data.nbytes == 16

    def test_bytes_outlive_the_tensor(self) -> None:
        data = tensor_data("t", torch.full((1000,), 3, dtype=torch.uint8))
        torch.zeros(1000, dtype=torch.uint8)
        assert set(data.buffer.tobytes()) == {3}

    def test_holes_and_offsets(self) -> None:
        tensor = torch.arange(10, dtype=torch.int8)[2:9:2]
        assert list(tensor_data("t", tensor).buffer) == [2, 3, 4, 5, 6, 7, 8]

    def test_empty(self) -> None:
        assert tensor_data("t", torch.empty(0, 3)).nbytes == 0

    @pytest.mark.parametrize(
        "tensor",
        [
            torch.arange(12.0).view(3, 4)[1:, 1:3],
            torch.arange(12).view(3, 4).t(),
            torch.ones(1).expand(3, 4),
            torch.tensor([1 + 2j, 3 - 1j]).conj(),
            torch.empty(0, 3),
        ],
    )
    def test_a_copy_lies_as_the_tensor_does(self, tensor: torch.Tensor) -> None:
        copy = host_copy(tensor)
        assert copy.stride() == tensor.stride()
        assert torch.equal(copy, tensor)
        assert copy.numel() == 0 or copy.data_ptr() != tensor.data_ptr()
        assert bytes(tensor_data("t", copy).buffer) == bytes(tensor_data("t", tensor).buffer)


def test_namedtuple_factory_is_understood() -> None:
    pair = namedtuple("pair", ["a", "b"])
    assert to_tree(pytree.tree_structure(pair(1, 2))).keys == ("a", "b")


def test_strides_of_wrapped_indices_are_differences_of_plain_numbers() -> None:
    x = sympy.Symbol("x", integer=True)
    evaluated = mock.patch.object(Identity, "_eval_evalf", side_effect=AssertionError("takes 40 ms"))
    with capture_session(CaptureOptions()), evaluated:
        assert SizeVarAllocator().stride_hints(3 * Identity(x - 47) + 1, [x]) == [3]
