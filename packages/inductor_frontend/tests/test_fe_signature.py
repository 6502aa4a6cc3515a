"""Captured signatures, and structures that they refuse."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.testing._internal.two_tensor import TwoTensor
from torch.utils import _pytree as pytree

from inductor_frontend import capture
from inductor_frontend.export.repeated_arguments import separate
from inductor_frontend.export.subclasses import context_text
from inductor_frontend.export.trees import pack, unpack
from wrapper_ir import ir
from wrapper_ir.errors import WirError
from wrapper_ir.plugins.registry import emitter, machine
from wrapper_ir_runtime.interp import call
from wrapper_ir_runtime.subclasses import read_context

# Any in this file: models, their arguments and results.
Check = Callable[..., None]


def refused(code: str, *parts: str) -> Any:
    """Expects an error of this code with these words in its message."""
    return pytest.raises(WirError, match=r"(?s)" + ".*".join([rf"\[{code}\]", *parts]))


def x() -> Tensor:
    return torch.arange(12.0).view(4, 3).clone()


class Scaled(Tensor):
    """A quantized weight: small integers, a scale for each row, and how to read them."""

    data8: Tensor
    scale: Tensor
    block: tuple[int, ...]

    @staticmethod
    def __new__(cls, data8: Tensor, scale: Tensor, block: tuple[int, ...]) -> Any:
        return torch.Tensor._make_wrapper_subclass(
            cls, data8.size(), strides=data8.stride(), dtype=torch.float32
        )

    def __init__(self, data8: Tensor, scale: Tensor, block: tuple[int, ...]) -> None:
        self.data8, self.scale, self.block = data8, scale, block

    def __repr__(self, *, tensor_contents: Any = None) -> str:  # type: ignore[override]  # untyped in torch
        return f"Scaled({self.data8!r}, {self.scale!r}, {self.block})"

    def __tensor_flatten__(self) -> tuple[list[str], Any]:
        return ["data8", "scale"], {"block": self.block, "dtype": torch.int8}

    @staticmethod
    def __tensor_unflatten__(inner: Any, context: Any, size: Any, stride: Any) -> Any:
        return Scaled(inner["data8"], inner["scale"], context["block"])

    def real(self) -> Tensor:  # type: ignore[override]  # its own
        return self.data8.float() * self.scale[:, None]

    @classmethod
    def __torch_dispatch__(  # type: ignore[override]  # as torch calls it
        cls, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        if func in (torch.ops.aten.detach.default, torch.ops.aten.alias.default):
            (source,) = args
            return Scaled(source.data8, source.scale, source.block)
        args, kwargs = pytree.tree_map_only(Scaled, lambda s: s.real(), (args, kwargs or {}))
        return func(*args, **kwargs)


def scaled() -> Any:
    return Scaled(torch.arange(12, dtype=torch.int8).view(4, 3), torch.tensor([1.0, 2.0, 0.5, 0.25]), (1, 3))


class TestWrappers:
    def test_quantized_argument(self, equals_eager: Check) -> None:
        def function(w: Any, v: Tensor) -> Any:
            return torch.mv(w, v)

        artifact = capture(function, (scaled(), torch.ones(3)))
        context = {"block": (1, 3), "dtype": torch.int8}
        spec = ir.SubclassSpec(
            type_name=f"{__name__}:Scaled",
            attributes=("data8", "scale"),
            context=context_text(context, "Scaled"),
            sizes=(4, 3),
            strides=(3, 1),
        )
        assert artifact.signature.unwraps == (ir.Unwrap(leaf=0, subclass=spec),)
        assert artifact.signature.names == ("w", "v", "w.data8", "w.scale")
        assert set(artifact.signature.params) == {1, 2, 3}
        runs: list[Callable[..., Any]] = [
            emitter("python").compile(artifact),
            lambda *a: call(artifact, machine("torch"), a),
        ]
        for run in runs:
            torch.testing.assert_close(run(scaled(), torch.ones(3)), function(scaled(), torch.ones(3)))
            other = scaled()
            other.block = (2, 3)
            with refused("WIR926", "Scaled", "block"):
                run(other, torch.ones(3))

    def test_quantized_weight(self) -> None:
        """A parameter that wraps other tensors becomes several constants, and its class is no longer
        needed."""

        class Model(nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.weight = nn.Parameter(scaled(), requires_grad=False)

            def forward(self, v: Tensor) -> Any:
                return torch.mv(self.weight, v)

        artifact = capture(Model(), (torch.ones(3),))
        assert {c.value.name for c in artifact.program.constants} == {"weight.data8", "weight.scale"}
        assert "Scaled" not in repr(artifact.signature)
        got = call(artifact, machine("torch"), (torch.ones(3),))
        torch.testing.assert_close(got, torch.mv(scaled().real(), torch.ones(3)))

    def test_wrapped_result(self) -> None:
        t = TwoTensor(x(), x())  # type: ignore[no-untyped-call]  # torch's
        (binding,) = capture(lambda t: t + 1, (t,)).signature.bindings
        assert isinstance(binding, ir.WrappedOutput)
        assert binding.parts == (ir.ResultOutput(index=0), ir.ResultOutput(index=1))
        assert binding.subclass.type_name == "torch.testing._internal.two_tensor:TwoTensor"

    def test_unsaid_context(self) -> None:
        with refused("FE102", "Scaled", "frozenset", "hint"):
            context_text({"block": frozenset({1})}, "Scaled")

    def test_distributed_tensor(self) -> None:
        """The context of a distributed tensor is a mesh of processes."""
        from torch.distributed import HashStore  # type: ignore[attr-defined]  # not in the stubs
        from torch.distributed.device_mesh import DeviceMesh
        from torch.distributed.tensor import DTensor, Replicate

        torch.distributed.init_process_group("gloo", store=HashStore(), rank=0, world_size=1)
        try:
            value = DTensor.from_local(x(), DeviceMesh("cpu", [0]), [Replicate()])
            with refused("FE102", "DTensor", "hint"):
                capture(lambda d: d + 1, (value,))
        finally:
            torch.distributed.destroy_process_group()

    def test_local_classes(self) -> None:
        class Local(NamedTuple):
            value: Any

        with refused("FE102", "Local", "hint"):
            capture(lambda x: Local(x + 1), (x(),))

    def test_moved_wrapper(self) -> None:
        def function(t: Tensor) -> Any:
            t.t_()
            return t + 1

        with refused("FE105", "t "):
            capture(function, (TwoTensor(x(), x()),))  # type: ignore[no-untyped-call]  # torch's


contexts = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text()
    | st.sampled_from([torch.int8, torch.float32, torch.strided, torch.channels_last, torch.device("cpu")]),
    lambda inner: st.lists(inner, max_size=3)
    | st.lists(inner, max_size=3).map(tuple)
    | st.dictionaries(st.text() | st.integers(), inner, max_size=3),
    max_leaves=8,
)  # fmt: skip


@settings(max_examples=100)
@given(contexts)
def test_contexts_survive(context: Any) -> None:
    text = context_text(context, "C")
    json.loads(text)
    restored = read_context(text, machine("torch").native)
    assert restored == context
    assert repr(restored) == repr(context)  # a tuple is not a list


class TestMoves:
    def test_kinds(self) -> None:
        def function(x: Tensor, y: Tensor, z: Tensor) -> Any:
            x.unsqueeze_(0)
            y.set_(z)  # type: ignore[call-overload]  # the stubs know storages only
            return x.sum()

        artifact = capture(function, (x(), x(), x()))
        assert artifact.signature.write_backs == (
            ir.WriteBack(result=1, leaf=0, kind=ir.WriteBackKind.METADATA),
            ir.WriteBack(result=2, leaf=1, kind=ir.WriteBackKind.REPLACE),
        )

    def test_assignment_to_data(self) -> None:
        """torch.export would silently ignore the assignment."""

        def function(x: Tensor) -> Any:
            x.data = torch.ones(4, 3)
            return x + 1

        with refused("FE105", "x.data", "hint"):
            capture(function, (x(),))

    def test_larger(self) -> None:
        def function(x: Tensor) -> Any:
            x.resize_(5, 3)

        with refused("FE105", "resize_", "more memory"):
            capture(function, (x(),))

    def test_one_tensor_given_twice(self) -> None:
        def function(x: Tensor, y: Tensor) -> Any:
            x.t_()
            return x + 1

        value = x()
        with refused("FE105", "x gets", "one tensor", "hint"):
            capture(function, (value, value))
        capture(function, (value, value.view(4, 3)))

    def test_state(self) -> None:
        class Model(nn.Module):
            count: Tensor

            def __init__(self) -> None:
                super().__init__()
                self.register_buffer("count", x())

            def forward(self, x: Tensor) -> Any:
                self.count.t_()
                return x + 1

        with refused("FE105", "count"):
            capture(Model(), (x(),))

    def test_other_storages(self) -> None:
        def function(x: Tensor, y: Tensor) -> Any:
            x.set_(y.untyped_storage(), 0, (2, 3), (3, 1))

        with refused("FE101", "UntypedStorage"):
            capture(function, (x(), x()))


class TestSharedMemory:
    def test_with_a_weight(self) -> None:
        """Such a model writes its own weight if it is called with it."""

        class Model(nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.weight = nn.Parameter(x(), requires_grad=False)

            def forward(self, y: Tensor) -> Any:
                y.mul_(2)
                return self.weight + y

        model = Model()
        with refused("FE106", "weight, y", "not all"):
            capture(model, (model.weight.detach(),))
        got = call(capture(model, (x(),)), machine("torch"), (torch.ones(4, 3),))
        torch.testing.assert_close(got, x() + 2)

    def test_of_any_size(self) -> None:
        def function(x: Tensor, y: Tensor) -> Any:
            x.mul_(2)
            return y + 1

        memory, dim = torch.zeros(12), torch.export.Dim("n", min=2, max=9)
        with refused("FE106", "x, y", "not constant", "hint"):
            capture(function, (memory[:8], memory[4:]), dynamic_shapes=({0: dim}, {0: dim}))

    def test_of_several_dtypes(self) -> None:
        def function(x: Tensor, y: Tensor) -> Any:
            x.mul_(2)
            return y + 1

        memory = torch.zeros(8)
        with refused("FE106", "dtypes"):
            capture(function, (memory, memory.view(torch.int32)))

    def test_of_wrappers(self) -> None:
        def function(t: Tensor, y: Tensor) -> Any:
            y.mul_(2)
            return t + 1

        value = x()
        with refused("FE106", "wrap"):
            capture(function, (TwoTensor(value, x()), value))  # type: ignore[no-untyped-call]  # torch's

    def test_separate_tensors_stay_as_they_are(self) -> None:
        tree = {"a": [x(), 3], "b": x()}
        assert separate(tree) is tree
        value = x()
        first, second = separate([value, value])
        assert first is value
        assert second is not value
        assert second.data_ptr() == value.data_ptr()


@dataclass
class Point:
    """A class that is not registered with pytree."""

    a: Any
    b: Any


class TestStructures:
    def test_data_classes(self) -> None:
        tree = [Point(1, (Point(2, None),)), {"k": Point(3, 4)}]
        packed = pack(tree)
        assert pytree.tree_leaves(packed) == [1, 2, None, 3, 4]
        assert unpack(packed) == tree
        plain = [1, {"k": (2,)}]
        assert pack(plain) is plain
        artifact = capture(lambda x: Point(x + 1, [3]), (x(),))
        assert artifact.signature.outputs.kind is ir.TreeKind.DATACLASS
        assert artifact.signature.outputs.type_name == f"{__name__}:Point"
        assert call(artifact, machine("torch"), (x(),)).b == [3]

    def test_contexts_that_json_changes(self) -> None:
        class Odd:
            def __init__(self, value: Any) -> None:
                self.value = value

        pytree.register_pytree_node(
            Odd, lambda o: ([o.value], (1, 2)), lambda v, _: Odd(*v), serialized_type_name="fe_signature.Odd"
        )
        globals()["Odd"] = Odd
        Odd.__qualname__ = "Odd"
        try:
            with refused("FE102", "Odd", r"\[1, 2\]"):
                capture(lambda x: Odd(x + 1), (x(),))
        finally:
            pytree._deregister_pytree_node(Odd)
            del globals()["Odd"]

    def test_transformers(self) -> None:
        """The library registers its outputs and caches with pytree."""
        from transformers.cache_utils import DynamicCache
        from transformers.integrations.executorch import register_dynamic_cache_export_support
        from transformers.modeling_outputs import CausalLMOutputWithPast

        register_dynamic_cache_export_support()

        def function(k: Tensor) -> Any:
            cache = DynamicCache()
            cache.update(k + 1, k + 2, 0)
            return CausalLMOutputWithPast(logits=k + 3, past_key_values=cache)

        k = torch.zeros(1, 2, 3, 4)
        got = call(capture(function, (k,)), machine("torch"), (k,))
        assert type(got) is CausalLMOutputWithPast
        assert type(got.past_key_values) is DynamicCache
        torch.testing.assert_close(got.past_key_values.layers[0].values, k + 2)
