"""Native libraries of models with int8 weights equal eager mode."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from tests.common.compare import assert_same
from tests.native.native_case import build_native
from tests.ops.quantized_models import MODELS, quantized_model

_PASSES = "pack-constants{level=generic},use-out-variants{runtime=native},plan-memory"


@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
def test_quantized_libraries(name: str, tmp_path: Path) -> None:
    """With packed weights and planned memory; for weights alone also as captured. Batches differ."""
    for index, passes in enumerate(("", _PASSES) if name == "weights_alone" else (_PASSES,)):
        model, artifact, (x,) = quantized_model(name, passes)
        folder = tmp_path / str(index)
        folder.mkdir()
        library = build_native(artifact, folder)
        tolerance = 0.02 if name == "bfloat16" else 1e-5
        with torch.no_grad():
            for rows in (7,) if name == "static" else (2, 7, 30):  # its batch is not dynamic
                args = (x.repeat(5, 1)[:rows].contiguous(),)
                assert_same(library(args)[0], model(*args), rtol=tolerance, atol=tolerance)
