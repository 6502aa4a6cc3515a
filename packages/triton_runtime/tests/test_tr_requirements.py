"""Modules that the source of a kernel imports from elsewhere."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path

import pytest
from packages.triton_runtime.tests.compiling import MemoryStore, compile_all
from packages.triton_runtime.tests.triton_texts import add_kernel, kernel_of

from triton_runtime import CompileError
from triton_runtime.compile.job import CompileJob, make_job
from wrapper_ir import ir

TARGET = ir.Target(device=ir.Device("cuda"), arch="sm_90")
CLAUSES = "\n  order(out)\n  configs({} warps(4) stages(1))\n  grid(1)\n"
BROKEN = "\n@triton.jit\ndef broken(out):\n    tl.store(out, tl.no_such_function(1))\n"


def test_modules_that_a_source_requires(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Their text is part of the key, so that a change recompiles; an error names the changed module."""
    module = tmp_path / "required_helpers.py"
    monkeypatch.syspath_prepend(str(tmp_path))
    needs = (
        ir.Requirement(
            name="required_helpers", origin="helpers 1.0", sha256=hashlib.sha256(b"A = 1\n").hexdigest()
        ),
    )
    kernel = replace(add_kernel(), requires=needs)
    module.write_text("A = 1\n")
    first = make_job(kernel, kernel.configs[0], TARGET, str(tmp_path))
    assert first.changed == ""
    assert first.key != make_job(add_kernel(), kernel.configs[0], TARGET, str(tmp_path)).key
    module.write_text("A = 22\n")
    second = make_job(kernel, kernel.configs[0], TARGET, str(tmp_path))
    assert second.key != first.key
    assert second.changed == "required_helpers of helpers 1.0"
    assert CompileJob.from_bytes(second.to_bytes()) == second
    broken = replace(kernel_of("write f32* out", CLAUSES, BROKEN, entry="broken"), requires=needs)
    with pytest.raises(
        CompileError, match=r"TR201(.|\n)*hint: .*written for required_helpers of helpers 1.0"
    ):
        compile_all([make_job(broken, broken.configs[0], TARGET, str(tmp_path))], MemoryStore())
    module.unlink()
    assert make_job(kernel, kernel.configs[0], TARGET, str(tmp_path)).key not in (first.key, second.key)
