"""Assembles a module."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from py_wrapper.emit.examples import write_examples
from py_wrapper.emit.function import write_function
from py_wrapper.emit.header import write_header
from py_wrapper.emit.helpers import Helper
from py_wrapper.emit.module import ModuleScope
from py_wrapper.emit.prologue import write_prologue
from py_wrapper.emit.replay import write_replay
from py_wrapper.emit.scope import FunctionScope
from py_wrapper.emit.signature import write_forward
from py_wrapper.emit.writer import Writer
from py_wrapper.options import PyOptions
from wrapper_ir import ir
from wrapper_ir.analysis.memo import Analyses
from wrapper_ir.artifact import Artifact
from wrapper_ir.plugins.emitted import LineOrigin, OpOrigins
from wrapper_ir_lowering import FunctionPlan, LoweringOptions, lower
from wrapper_ir_passes.memory.persistent_pools import with_persistent_pools
from wrapper_ir_runtime.kernel_files import TABLE, kernel_file_names, kernel_table


@dataclass(frozen=True, slots=True, kw_only=True)
class EmittedModule:
    """The text of a module and of the files beside it (by relative name). Constants are in the artifact."""

    name: str
    source: str
    files: Mapping[str, str]
    kernels: Sequence[ir.KernelDef]
    externs: Sequence[ir.ExternDef] = ()
    """The operators that the module calls."""
    origins: Sequence[LineOrigin | None] = ()
    """The origin of each line of `source`."""

    def __str__(self) -> str:
        return self.source


_BOXED = '''
def boxed(args):
    """The flat calling convention: takes a list, which it empties, and returns a tuple. Nothing is recorded for
    autograd, and autocast does not apply."""
{check}    grad = torch.is_grad_enabled()
    try:
        if grad:
            set_grad_enabled(False)
        if is_autocast_enabled():
            with torch._C._DisableAutocast():
                return {main}(args)
        return {main}(args)
    except Exception as error:
        raise explain(error, __file__)
    finally:
        if grad:
            set_grad_enabled(True)
'''
_CHECK_FILES = """\
    if mapped:
        check_files(mapped)
"""
_SCRIPT = """
if __name__ == "__main__":
    from wrapper_ir_runtime.script import run_script

    run_script(globals(), torch)
"""


def emit_module(artifact: Artifact, options: PyOptions, analyses: Analyses | None = None) -> EmittedModule:
    """Returns the module for an artifact. Raises VerificationError (WIR1nn) for a signature that does not
    match the program, NotSupportedError (WIR91n), LoweringError (WIR24n), EmitError (PY1nn)."""
    memo = Analyses.of(artifact.program, analyses)
    if options.persistent_buffers:
        memo = memo.after(with_persistent_pools(artifact.program, memo))
        artifact = replace(artifact, program=memo.program)
    plan = lower(artifact, _lowering(options), memo)
    scope = ModuleScope(plan, options, OpOrigins(artifact.program, plan.program))
    artifact = plan.artifact
    if plan.reads_files:
        scope.runtime("check_files")
    scope.helper(Helper.AUTOCAST)
    scope.helper(Helper.GRADIENT)
    body = Writer()
    for function in (*plan.functions[1:], plan.main):
        _write_function(function, scope, body)
        write_replay(function, scope, body)
    main = scope.function_names[artifact.program.main.name]
    body.origin = LineOrigin(note="the flat calling convention")
    body.paragraph(_BOXED.format(main=main, check=_CHECK_FILES if plan.reads_files else ""))
    body.line()
    body.line()
    body.origin = LineOrigin(note="the model's own signature")
    write_forward(scope, artifact.signature, body)
    body.origin = LineOrigin(note="example inputs, for the module as a script")
    write_examples(scope, body)
    kernels = ir.needed(artifact.program.kernels, scope.kernel_names)
    head = Writer()
    write_header(artifact, scope, kernels, head)
    write_prologue(scope, kernels, "math." in body.text(), head)
    body.paragraph(_SCRIPT)
    names = kernel_file_names(kernels)
    files = {names[k.name]: ir.source_of(k) for k in kernels if k.name in names}
    if kernels:
        files[TABLE] = kernel_table(kernels, artifact.program.target)
    return EmittedModule(
        name=options.name,
        source=head.text() + body.text(),
        files=files,
        kernels=kernels,
        externs=plan.operators,
        origins=[*head.origins(), *body.origins()],
    )


def _lowering(options: PyOptions) -> LoweringOptions:
    return LoweringOptions(
        check_results=options.check_results,
        persistent_buffers=options.persistent_buffers and options.poison is None,
        keep_windows=options.poison is None,
        join_waits=True,
        guarded=options.guarded,
        operators=options.operators,
    )


def _write_function(plan: FunctionPlan, scope: ModuleScope, out: Writer) -> None:
    doc = "The program, on flat arguments." if plan.is_main else f"Subgraph @{plan.name}."
    if plan.function.replayable:
        doc += " A device can capture it."
    write_function(FunctionScope(scope, plan, out), scope.function_names[plan.name], doc)
