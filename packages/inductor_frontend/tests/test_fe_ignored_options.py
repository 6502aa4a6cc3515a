"""Options of Inductor that nothing follows are told by name, others are accepted."""

from __future__ import annotations

import warnings

import pytest
import torch
from torch import nn
from torch._inductor import config as inductor_config

from inductor_frontend import CaptureOptions, capture
from inductor_frontend.backend.options import BackendOptions
from inductor_frontend.errors import SettingWarning
from inductor_frontend.torch_patches.ignored_options import IGNORED


@pytest.mark.parametrize("name", IGNORED)
def test_an_option_of_the_process_is_told(name: str) -> None:
    with inductor_config.patch({name: True}), pytest.warns(SettingWarning, match=rf"config\.{name} is not"):
        BackendOptions.parse({})


def test_nothing_is_told_of_what_is_not_set() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error", SettingWarning)
        BackendOptions.parse({"freezing": False, "max_autotune": False})


def test_freezing_is_accepted_and_told() -> None:
    with pytest.warns(SettingWarning, match="freezing is not followed"):
        assert BackendOptions.parse({"freezing": True}) == BackendOptions.parse({})


def test_max_autotune_is_the_mode() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error", SettingWarning)
        wanted = BackendOptions.parse({}, "max-autotune-no-cudagraphs")
        assert BackendOptions.parse({"max_autotune": True}) == wanted
        assert BackendOptions.parse({"max-autotune": True}) == wanted


def test_a_capture_tells_of_freezing_unless_it_packs() -> None:
    model, x = nn.ReLU(), torch.ones(2)
    with inductor_config.patch("freezing", True):
        with pytest.warns(SettingWarning, match="freezing"):
            capture(model, (x,))
        with warnings.catch_warnings(), torch.no_grad():
            warnings.simplefilter("error", SettingWarning)
            capture(model, (x,), options=CaptureOptions(packed_weights=True))
