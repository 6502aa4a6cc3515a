"""Keys of the backend's cache: equal if and only if the compiled code is the same."""

from __future__ import annotations

import contextlib
import copy
import functools
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch._decomp import global_decomposition_table
from torch._dynamo.backends.common import aot_autograd
from torch._functorch import config as functorch_config
from torch._guards import TracingContext
from torch._inductor import config as inductor_config
from torch.fx.experimental import _config as symbols_config

from inductor_frontend.backend.options import BackendOptions
from inductor_frontend.cache.canonical import Writer
from inductor_frontend.cache.environment import foreign_operators
from inductor_frontend.cache.keys import GraphFacts, function_key, graph_key
from inductor_frontend.cache.operators import NoCanonicalForm
from inductor_frontend.cache.symbols import SymbolState


def function_keys(
    function: Any, *args: Any, options: dict[str, Any] | None = None, **kwargs: Any
) -> list[str]:
    """Returns the keys of Dynamo's functions of one call; nothing is compiled."""
    keys: list[str] = []
    choices = BackendOptions.parse(options).choices()

    def backend(gm: Any, inputs: Any) -> Any:
        context = TracingContext.get()
        assert context.fake_mode is not None
        keys.append(function_key(gm, inputs, SymbolState(context.fake_mode.shape_env), choices))
        return gm.forward

    torch._dynamo.reset()
    compiled: Any = torch.compile(function, backend=backend, **kwargs)
    compiled(*args)
    return keys


def graph_keys(function: Any, *args: Any, **kwargs: Any) -> list[str]:
    """Returns the keys of autograd's graphs of one call."""
    keys: list[str] = []
    choices = BackendOptions.parse(None).choices()

    def inner(gm: Any, inputs: Any) -> Any:
        facts = GraphFacts(inputs=inputs, static_inputs=(), donated=(), is_inference=True, is_backward=False)
        keys.append(graph_key(gm, facts, SymbolState(getattr(gm, "shape_env", None)), choices))
        return gm.forward

    torch._dynamo.reset()
    autograd: Any = aot_autograd  # torch leaves it untyped
    compiled: Any = torch.compile(function, backend=autograd(fw_compiler=inner), **kwargs)
    compiled(*args)
    return keys


def matmul(x: Tensor, w: Tensor) -> Tensor:
    return x @ w


def scaled(x: Tensor, w: Tensor) -> Tensor:
    return (x @ w) * 2.0


def scaled_more(x: Tensor, w: Tensor) -> Tensor:
    return (x @ w) * 2.5


def renamed(other: Tensor, weights: Tensor) -> Tensor:
    # other names, other lines
    between = other @ weights
    return between * 2.0


def turned_around(x: Tensor, w: Tensor) -> Tensor:
    return 2.0 * (x @ w)


def inputs() -> tuple[Tensor, Tensor]:
    return torch.ones(3, 4), torch.ones(4, 2)


@contextlib.contextmanager
def changed(change: Callable[[Any], None], before: Any, after: Any) -> Iterator[None]:
    change(after)
    try:
        yield
    finally:
        change(before)


_symbols: Any = symbols_config  # its methods are installed at run time
Change = Callable[[], contextlib.AbstractContextManager[Any]]

CHANGED_INPUTS: dict[str, Callable[[Tensor, Tensor], tuple[Any, Any]]] = {
    "size": lambda x, w: (torch.ones(5, 4), w),
    "dtype": lambda x, w: (x.double(), w.double()),
    "stride": lambda x, w: (x.t().contiguous().t(), w),
    "offset": lambda x, w: (torch.ones(4, 4)[1:], w),
    "requires grad": lambda x, w: (x, w.requires_grad_()),
    "a parameter": lambda x, w: (x, nn.Parameter(w, requires_grad=False)),
    "shared memory": lambda x, w: (w.view(-1)[:4].view(1, 4).expand(3, 4), w),
}

CHANGED_STATE: dict[str, Change] = {
    "no grad": torch.no_grad,
    "inference mode": torch.inference_mode,
    "autocast": lambda: torch.autocast("cpu", torch.bfloat16),
    "an option of inductor": lambda: inductor_config.patch(max_fusion_size=3),
    "a nested option of inductor": lambda: inductor_config.patch({"cpp.simdlen": 1}),
    "fallback random": lambda: inductor_config.patch(fallback_random=True),
    "an option of functorch": lambda: functorch_config.patch(recompute_views=True),
    "donation": lambda: functorch_config.patch(donated_buffer=False),
    "an option of symbols": lambda: _symbols.patch(use_duck_shape=False),
    "threads": lambda: changed(torch.set_num_threads, torch.get_num_threads(), torch.get_num_threads() + 1),
    "dtype": lambda: changed(torch.set_default_dtype, torch.float32, torch.float64),
    "precision": lambda: changed(torch.set_float32_matmul_precision, "highest", "high"),
    "determinism": lambda: changed(torch.use_deterministic_algorithms, False, True),
    "attention": lambda: torch.nn.attention.sdpa_kernel([torch.nn.attention.SDPBackend.MATH]),
    "mkldnn": lambda: torch.backends.mkldnn.flags(enabled=False),
}

CHANGED_OPTIONS: dict[str, dict[str, Any]] = {
    "asserts": {"layout_asserts": False},
    "verification": {"verify": False},
    "padding": {"padding": {"pad_outputs": True}},
    "passes": {"passes": "derive-frees"},
    "emitter": {"emitter": "another"},
}


class TestKeys:
    def test_the_same_again(self) -> None:
        assert function_keys(scaled, *inputs()) == function_keys(scaled, *inputs())
        assert graph_keys(scaled, *inputs()) == graph_keys(scaled, *inputs())

    def test_names_do_not_count(self) -> None:
        assert function_keys(scaled, *inputs()) == function_keys(renamed, *inputs())

    @pytest.mark.parametrize("other", [scaled_more, turned_around, matmul])
    def test_code(self, other: Any) -> None:
        assert function_keys(scaled, *inputs()) != function_keys(other, *inputs())

    def test_literals(self) -> None:
        assert graph_keys(scaled, *inputs()) != graph_keys(scaled_more, *inputs())

    @pytest.mark.parametrize("change", CHANGED_INPUTS)
    def test_inputs(self, change: str) -> None:
        other = CHANGED_INPUTS[change](*inputs())
        assert function_keys(scaled, *inputs()) != function_keys(scaled, *other)
        if change not in ("a parameter", "shared memory"):  # which are autograd's business
            assert graph_keys(scaled, *inputs()) != graph_keys(scaled, *other)

    @pytest.mark.parametrize("change", CHANGED_STATE)
    def test_state(self, change: str) -> None:
        before = function_keys(scaled, *inputs())
        with CHANGED_STATE[change]():
            assert function_keys(scaled, *inputs()) != before

    @pytest.mark.parametrize("change", CHANGED_OPTIONS)
    def test_options(self, change: str) -> None:
        assert function_keys(scaled, *inputs()) != function_keys(
            scaled, *inputs(), options=CHANGED_OPTIONS[change]
        )

    def test_symbolic_sizes_and_their_examples(self) -> None:
        x, w = inputs()
        static, dynamic = (function_keys(scaled, x, w, dynamic=d) for d in (False, True))
        longer = function_keys(scaled, torch.ones(7, 4), w, dynamic=True)
        assert len({*static, *dynamic, *longer}) == 3

    def test_constants(self) -> None:
        def adds(values: list[float]) -> Any:
            return lambda x: x + torch.tensor(values)

        keys = [graph_keys(adds(v), torch.ones(2))[0] for v in ([1.0, 2.0], [1.0, 2.0], [1.0, 3.0])]
        assert keys[0] == keys[1] != keys[2]

    def test_options_that_reach_no_code_do_not_count(self) -> None:
        before = function_keys(scaled, *inputs())
        with inductor_config.patch({"trace.enabled": False, "compile_threads": 3, "fx_graph_cache": False}):
            assert function_keys(scaled, *inputs()) == before


class TestValues:
    def test_without_a_canonical_form(self) -> None:
        writer = Writer()
        for odd in (object(), torch.Generator(), lambda: None, torch.ones(2), nn.Linear(1, 1)):
            with pytest.raises(NoCanonicalForm):
                writer.text(odd)

    def test_the_same_text_only_for_the_same_value(self) -> None:
        writer = Writer()
        values: list[Any] = [
            1, 1.0, True, "1", (1,), [1], None, "None", torch.float32, "torch.float32", -0.0, 0.0, 1j,
            float("nan"), float("inf"), slice(1), range(1), {"a": 1}, {"a": "1"}, ..., torch.sin, torch.cos,
            functools.partial(torch.sin), torch.device("cpu"), torch.ops.aten.sin, torch.ops.aten.sin.default,
        ]  # fmt: skip
        texts = [writer.text(v) for v in values]
        assert len(set(texts)) == len(values)
        assert texts == [writer.text(copy.deepcopy(v)) for v in values]


def test_rules_of_others_are_seen_before_inductor_is_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    """Inductor's tables are used if they exist; before that, torch's, from which it builds its own."""
    assert foreign_operators() == frozenset()
    for name in ("lowering", "decomposition"):
        monkeypatch.delitem(sys.modules, f"torch._inductor.{name}", raising=False)
    assert foreign_operators() == frozenset()
    table = global_decomposition_table["post_autograd"]
    monkeypatch.setitem(table, torch.ops.aten.hardswish.default, lambda x: x)
    with pytest.raises(NoCanonicalForm, match=r"a foreign rule for aten\.hardswish"):
        foreign_operators()
