"""Ignored options of torch are reported by name, others have their effect, and the documentation lists
both."""

from __future__ import annotations

import re
import warnings
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch._functorch import config as functorch_config
from torch._inductor import config as inductor_config

from inductor_frontend import CaptureOptions, capture
from inductor_frontend.backend.options import BackendOptions
from inductor_frontend.errors import SettingWarning
from inductor_frontend.torch_patches.ignored_options import (
    FOLLOWED,
    FOLLOWED_BY_BACKEND,
    FUNCTORCH_IGNORED,
    IGNORED,
    set_in_process,
)
from inductor_frontend.torch_patches.pinned_options import functorch_patches, inductor_patches

PAGE = Path(__file__).parents[3] / "docs" / "inductor-settings.md"
OTHERS: dict[str, Any] = {
    "cpu_backend": "triton",
    "cuda_backend": "halide",
    "compile_threads": 77,
    "max_autotune_gemm_backends": "TRITON",
    "max_autotune_conv_backends": "TRITON",
    "multi_kernel_hints": [64],
    "triton.multi_kernel": 1,
    "triton.num_decompose_k_splits": 3,
    "test_configs.track_memory_lifecycle": "assert",
    "profile_bandwidth_output": "file",
    **dict.fromkeys(
        ("alignment_asserts", "allow_buffer_reuse", "benchmark_harness", "fx_graph_cache", "graph_partition"),
        False,
    ),
}
"""Values that are not torch's default, of options that are not off by default."""
DONE = {"cpp.weight_prepack": False, "compile_threads": 1, "triton.num_decompose_k_splits": 0}
"""Values that are not torch's default, and that a capture follows because it does nothing else."""


def _told(options: dict[str, Any] | None = None, mode: str | None = None) -> set[str]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", SettingWarning)
        BackendOptions.parse(options, mode)
    return {str(w.message).partition(" is not followed")[0] for w in caught if w.category is SettingWarning}


@pytest.mark.parametrize("name", sorted(set(IGNORED) - {"cpp.weight_prepack"}))
def test_an_option_of_the_process_is_told(name: str) -> None:
    if name not in inductor_config.get_config_copy():
        pytest.skip("this version of torch has no such option")
    with inductor_config.patch({name: OTHERS.get(name, True)}):
        assert _told() == {f"torch._inductor.config.{name}"}


@pytest.mark.parametrize("name", FUNCTORCH_IGNORED)
def test_an_option_of_autograd_is_told(name: str) -> None:
    with functorch_config.patch({name: name != "enable_autograd_cache"}):
        assert _told() == {f"torch._functorch.config.{name}"}


def test_nothing_is_told_of_what_is_not_set() -> None:
    assert _told() == set()
    assert _told({"freezing": False, "max_autotune": False}) == set()
    assert set_in_process(CaptureOptions()) == ()


@pytest.mark.parametrize("name", DONE)
def test_nothing_is_told_of_what_a_capture_does_anyway(name: str) -> None:
    with inductor_config.patch({name: DONE[name]}):
        assert _told() == set()


def test_nothing_is_told_of_what_options_say() -> None:
    with inductor_config.patch({"cpu_backend": "triton", "triton.multi_kernel": 1, "fx_graph_cache": False}):
        assert _told({"cpu_kernels": "triton", "multi_kernels": True, "cache": False}) == set()


def test_freezing_is_accepted_and_told() -> None:
    with pytest.warns(SettingWarning, match="freezing is not followed"):
        assert BackendOptions.parse({"freezing": True}) == BackendOptions.parse({})
    with inductor_config.patch(freezing=True):
        assert _told({"freezing": False}) == set()


def test_max_autotune_is_the_mode() -> None:
    expected = BackendOptions.parse({}, "max-autotune-no-cudagraphs")
    assert BackendOptions.parse({"max_autotune": True}) == expected
    assert BackendOptions.parse({"max-autotune": True}) == expected
    assert _told({"max-autotune": True}) == set()
    with inductor_config.patch(max_autotune=True):
        assert _told(mode="max-autotune") == set()


def test_a_capture_tells_of_freezing_unless_it_packs() -> None:
    model, x = nn.ReLU(), torch.ones(2)
    with inductor_config.patch("freezing", True):
        with pytest.warns(SettingWarning, match="freezing"):
            capture(model, (x,))
        with warnings.catch_warnings(), torch.no_grad():
            warnings.simplefilter("error", SettingWarning)
            capture(model, (x,), options=CaptureOptions(packed_weights=True))


def test_a_capture_tells_of_what_the_backend_alone_follows() -> None:
    changed = {name: name == "nan_asserts" for name in FOLLOWED_BY_BACKEND if name != "shape_padding"}
    with inductor_config.patch(changed):
        assert _told() == set()
        assert set_in_process(CaptureOptions()) == tuple(
            f"torch._inductor.config.{n}" for n in sorted(changed)
        )
        options = CaptureOptions(inplace_kernels=False, layout_asserts=False, scalar_asserts=False)
        assert set_in_process(options) == ("torch._inductor.config.nan_asserts",)


def _page() -> dict[str, str]:
    """Settings -> the first words of what the page says of each."""
    rows = [line.split(" | ") for line in PAGE.read_text().splitlines() if line.startswith("| `")]
    advice: dict[str, str] = {}
    for settings, here in rows:
        for name in re.findall(r"`([\w.]+)`", settings):
            if name not in ("torch._functorch.config",):
                assert name not in advice, name
                advice[name] = here
    return advice


def test_the_page_says_what_becomes_of_each_pinned_option() -> None:
    pinned = inductor_patches(CaptureOptions()).keys() | functorch_patches().keys()
    documented = IGNORED.keys() | FUNCTORCH_IGNORED.keys()
    assert pinned <= FOLLOWED | documented
    assert not FOLLOWED & documented
    page = _page()
    telling = {name for name, here in page.items() if here.startswith("warns")}
    assert telling == documented
    assert {name for name, here in page.items() if here.startswith("followed")} >= FOLLOWED
    silent = {name for name, here in page.items() if not here.startswith("followed")} - telling
    assert all(page[name].startswith("of no effect") for name in silent)
    assert not silent & pinned
