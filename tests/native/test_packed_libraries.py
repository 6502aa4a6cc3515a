"""Libraries of packed programs: their constants have the model's names, shapes and values."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

import cpp_wrapper
import wrapper_ir_native
from cpp_wrapper import CppOptions
from tests.common.compare import assert_same
from tests.ops.packed_models import packed_model
from wrapper_ir.operators.native import PACKED_ADDMM
from wrapper_ir_native import NativeError
from wrapper_ir_torch import resolve

pytestmark = pytest.mark.slow
PASSES = "use-out-variants{runtime=native},pack-constants,plan-memory"


@pytest.mark.parametrize("name", ["mlp", "tied", "transformer", "convolutions"])
def test_native_libraries(name: str, tmp_path: Path) -> None:
    """Extracted constants are the originals; an update by any name reaches all constants of it."""
    model, artifact, args = packed_model(name, PASSES)
    path = cpp_wrapper.build(artifact, tmp_path / "m.so", options=CppOptions(runtime="native"))
    run = wrapper_ir_native.load(path)
    arrays = [one.numpy() for one in args]
    with torch.no_grad():
        assert_same(torch.as_tensor(run(*arrays)), model(*args))
        state = model.state_dict()
        assert {*run.constants} == {k for k in state if state[k].is_floating_point()}
        for key in run.constants:
            np.testing.assert_array_equal(run.extract_constant(key), state[key].numpy())
        for parameter in model.parameters():
            parameter.mul_(-0.75)
        new = {
            key: value.numpy() for key, value in state.items() if key in run.constants and key != "wte.weight"
        }
        run.update_constants(new, is_full=True)
        assert_same(torch.as_tensor(run(*arrays)), model(*args))
        for key in run.constants:
            np.testing.assert_array_equal(run.extract_constant(key), state[key].numpy())
    bad = {next(key for key in state if state[key].dim() == 2): np.zeros((3, 5), np.float32)}
    with pytest.raises(NativeError, match=r"CPP530.*expected f32\[\d+, \d+\].*got f32\[3, 5\]"):
        run.update_constants(bad)


def test_libraries_with_torch(tmp_path: Path) -> None:
    """In Python processes: a library calls the operators that Python registers; borrowed values are packed."""
    model, artifact, args = packed_model("tied")
    resolve(PACKED_ADDMM)  # registers the operator
    options = CppOptions(python_operators=True)
    run = cpp_wrapper.load(cpp_wrapper.build(artifact, tmp_path / "m.so", options=options))
    with torch.no_grad():
        assert_same(run(*args), model(*args))
        for parameter in model.parameters():
            parameter.mul_(-0.75)
        new = {key: value for key, value in model.state_dict().items() if key != "head.weight"}
        run.update_constants(new, is_full=True, is_borrowed=True)
        assert_same(run(*args), model(*args))
