"""Collectives on one process: those of the shim are called, the others only with Python."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import torch

import cpp_wrapper
from cpp_wrapper import EmitError
from tests.common.torch_versions import since
from tests.cpp.collective_programs import GATHERED, HEAD, REDUCED
from tests.cpp.cpp_case import FAST, artifact_of_text
from wrapper_ir import parse_program
from wrapper_ir.artifact import bare_artifact


@pytest.fixture
def process_group(tmp_path: Path) -> Iterator[None]:
    if not torch.distributed.is_available():
        pytest.skip("this torch has no distributed package")
    store = f"file://{tmp_path}/store"
    torch.distributed.init_process_group("gloo", init_method=store, rank=0, world_size=1)
    yield
    torch.distributed.destroy_process_group()


@pytest.mark.usefixtures("process_group")
@pytest.mark.parametrize("text", [REDUCED, *([] if since("2.13") else [GATHERED])])
def test_alone_in_a_group_nothing_changes(text: str, tmp_path: Path) -> None:
    library = cpp_wrapper.build(artifact_of_text(HEAD + text), tmp_path / "m.so", FAST)
    x = torch.arange(4.0)
    # not through torch's Python runner: it keeps the interpreter's lock, for which a thread of gloo may wait
    # that it waits for
    assert torch.equal(cpp_wrapper.load(library)(x)[0], x)


def test_tensors_of_a_device_are_reduced_through_the_shim() -> None:
    """Its functions are called after the CPU, and take tensors of every device."""
    program = parse_program(f'wir 0.5\ntarget cuda:0 arch "sm_90"\n{HEAD}{REDUCED}')
    text = str(cpp_wrapper.emit(bare_artifact(program)))
    for name in ("all_reduce", "all_reduce_", "wait_tensor"):
        assert f"ok(aoti_torch_cpu__c10d_functional_{name}(t[" in text


@pytest.mark.usefixtures("process_group")
@pytest.mark.parametrize("declared", ["str", *(["Any"] if since("2.13") else [])])
def test_processes_of_python_have_all(declared: str, tmp_path: Path) -> None:
    """Group names go through an operator of the loader's.

    Captures declare them as the installed torch does.
    """
    options = replace(FAST, python_operators=True)
    text = (HEAD + GATHERED).replace("str group_name", f"{declared} group_name")
    library = cpp_wrapper.build(artifact_of_text(text), tmp_path / "m.so", options)
    x = torch.arange(4.0)
    assert torch.equal(cpp_wrapper.load(library)(x)[0], x)


@pytest.mark.skipif(
    not since("2.13"), reason="the dispatcher takes group names, which are texts before torch 2.13"
)
def test_collectives_without_a_function_in_c_are_refused() -> None:
    with pytest.raises(EmitError, match="does not take process groups") as caught:
        cpp_wrapper.emit(artifact_of_text(HEAD + GATHERED))
    assert caught.value.code == "CPP502"
