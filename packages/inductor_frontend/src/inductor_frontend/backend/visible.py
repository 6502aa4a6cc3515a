"""Shows a compiled graph in torch's tools: code in `TORCH_LOGS=output_code`, kernels in
`TORCH_LOGS=kernel_code`, calls as ranges of a profile."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from functools import cache
from logging import DEBUG, INFO

import torch
from torch._inductor import config
from torch._inductor.async_compile import kernel_code_log
from torch._inductor.codecache import output_code_log
from torch.autograd import profiler

from inductor_frontend.boxed import Boxed
from wrapper_ir import ir
from wrapper_ir.artifact import Artifact
from wrapper_ir.plugins.protocols import Emitter
from wrapper_ir.text import print_program

_LANGUAGES = {"cpp": "CPP", "triton": "Triton"}
"""Kinds of kernels -> their names in Inductor's log."""


def log_code(artifact: Artifact, emitter: Emitter[object]) -> None:
    """Writes the emitted code and its kernels to torch's logs of Inductor's code, if they are enabled."""
    if output_code_log.isEnabledFor(DEBUG):
        output_code_log.debug("Output code: \n%s", emitted_code(artifact, emitter))
    if kernel_code_log.isEnabledFor(INFO):
        for kernel in artifact.program.kernels:
            kernel_code_log.info(
                "%s Kernel:\n%s", _LANGUAGES.get(kernel.kind, kernel.kind), ir.source_of(kernel)
            )


def emitted_code(artifact: Artifact, emitter: Emitter[object]) -> str:
    """Returns the emitted code as text; if the emitter cannot emit code, the reason and the program."""
    try:
        code = emitter.emit(artifact)
    except Exception as error:  # an emitter may only compile; a log must not fail a compilation
        return f"{emitter.name} writes no code: {error!r}\n{print_program(artifact.program)}"
    return code.code if isinstance(code, torch.fx.GraphModule) else str(code)


def profiled(call: Boxed, artifact: Artifact, graph_id: object) -> Boxed:
    """Returns `call`, with a range of Inductor's name around it while a profiler is active.

    If `profiler_mark_wrapper_call` is set at compile time, each call also has Inductor's wrapper range.
    """
    if config.profiler_mark_wrapper_call:
        call = _marked(call, f"graph_{graph_id}_inductor_wrapper_call")

    @cache
    def name() -> str:
        digest = hashlib.sha256(print_program(artifact.program).encode()).hexdigest()
        return f"## Call CompiledFxGraph {digest} ##"

    def run(args: list[object]) -> Sequence[object]:
        if not profiler._is_profiler_enabled:
            return call(args)
        with torch._C._profiler._RecordFunctionFast(name(), keyword_values={"scope": "user_scope"}):
            return call(args)

    return run


def _marked(call: Boxed, name: str) -> Boxed:
    def run(args: list[object]) -> Sequence[object]:
        with torch.profiler.record_function(name):
            return call(args)

    return run
