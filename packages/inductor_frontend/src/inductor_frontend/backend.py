"""`torch.compile(model, backend="wrapper_ir")`: upstream's compile flow with our inner compiler."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from torch._functorch import config as functorch_config
from torch._inductor import config as inductor_config
from torch._inductor.compile_fx import compile_fx
from torch._inductor.utils import set_tracing_context_output_strides
from torch.fx import GraphModule
from torch.fx.experimental.symbolic_shapes import SymExprPrinter, free_unbacked_symbols

from inductor_frontend.build import BuildContext, GraphProgram, build_program
from inductor_frontend.constants import tensor_data
from inductor_frontend.errors import BackendError, CaptureError
from inductor_frontend.finish import finish
from inductor_frontend.hooks import RecordingGraph
from inductor_frontend.isolation import capture_session, functorch_patches, inductor_patches, known_options
from inductor_frontend.lowering import LoweringRequest, lower
from inductor_frontend.options import CaptureOptions
from wrapper_ir.artifact import Artifact
from wrapper_ir.errors import WirError
from wrapper_ir.registry import emitter
from wrapper_ir.signature import ResultOutput, Signature, TreeKind, TreeSpec

__all__ = ["BackendOptions", "wrapper_ir_backend"]

# Any in this file: tensors, fake tensors and numbers of any graph, and options as the user typed them.
Boxed = Callable[[list[Any]], Sequence[Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class BackendOptions:
    """Options of the backend, as given in `torch.compile(..., options={...})`.

    `emitter` is the name of an installed emitter, `passes` a pipeline of wrapper_ir passes in text form (run after
    lifetimes are derived); the rest are the fields of `CaptureOptions` and of `PaddingOptions`.
    """

    emitter: str = "python"
    passes: str = ""
    capture: CaptureOptions = field(default_factory=CaptureOptions)

    @staticmethod
    def parse(options: Mapping[str, Any] | None) -> BackendOptions:
        """Options from torch.compile's dictionary; raises CaptureError FE103 for unknown names."""
        given = dict(options or {})
        own = {name: given.pop(name) for name in ("emitter", "passes") if name in given}
        return BackendOptions(**own, capture=CaptureOptions.named(given))


def wrapper_ir_backend(
    gm: GraphModule,
    example_inputs: Sequence[Any],
    *,
    options: Mapping[str, Any] | None = None,
    mode: str | None = None,
) -> Callable[..., Any]:
    """The backend's entry point, called by torch's frontend for each graph.

    Compiled code never enters upstream's caches, nor comes from them. Raises CaptureError, HookError,
    ConversionError and BackendError.
    """
    if mode not in (None, "default"):
        raise CaptureError("FE103", f"mode {mode!r} is not supported by this backend", hint="use options")
    parsed = BackendOptions.parse(options)

    def inner(graph: GraphModule, inputs: Sequence[Any], *_: Any, **kwargs: Any) -> Boxed:
        return _inner_compile(graph, inputs, kwargs, parsed)

    patches = known_options(inductor_patches(parsed.capture), inductor_config)
    with functorch_config.patch(known_options(functorch_patches(), functorch_config)):
        # Upstream applies the patches around later calls of `inner` too: a backward graph is compiled lazily.
        compiled = compile_fx(
            gm,
            example_inputs,
            inner_compile=inner,  # type: ignore[arg-type]  # any boxed callable will do
            config_patches=patches,
        )
    assert callable(compiled)
    return compiled


def _inner_compile(
    gm: GraphModule, inputs: Sequence[Any], kwargs: Mapping[str, Any], options: BackendOptions
) -> Boxed:
    """Compiles one forward, backward or inference graph to a boxed callable."""
    with capture_session(options.capture):
        request = LoweringRequest(
            gm=gm,
            inputs=inputs,
            static_inputs=kwargs.get("static_input_idxs", ()),
            is_inference=kwargs.get("is_inference", False),
            is_backward=kwargs.get("is_backward", False),
            graph_id=kwargs.get("graph_id"),
        )
        context = BuildContext(options=options.capture, root=os.getcwd())

        def translate(graph: RecordingGraph) -> GraphProgram:
            set_tracing_context_output_strides(inputs, _Strides(_output_strides(graph)))  # type: ignore[arg-type]  # reads one attribute
            return build_program(graph, context)

        built = lower(request, translate)
        artifact = _artifact(built, options)
    return _boxed(artifact, built.positions, len(inputs), options.emitter)


@dataclass(frozen=True, slots=True)
class _Strides:
    """What upstream's report of output strides reads: one tuple of size expressions in text form an output."""

    output_strides: list[tuple[str, ...] | None]


def _output_strides(graph: RecordingGraph) -> list[tuple[str, ...] | None]:
    printer = SymExprPrinter()
    strides: list[tuple[str, ...] | None] = []
    for out in graph.graph_outputs:
        if out.has_tensor_output() and not free_unbacked_symbols(out.get_stride()):
            strides.append(tuple(printer.doprint(s) for s in out.get_layout().stride))
        else:
            strides.append(None)
    return strides


def _artifact(built: GraphProgram, options: BackendOptions) -> Artifact:
    program = finish(built.program, options.capture)
    if options.passes:
        from wrapper_ir.passes import run_pipeline

        program = run_pipeline(program, options.passes)
    leaf = TreeSpec(kind=TreeKind.LEAF)
    count, results = len(program.main.params), len(program.main.returns.values)
    args = TreeSpec(kind=TreeKind.TUPLE, children=(leaf,) * count)
    signature = Signature(
        inputs=TreeSpec(kind=TreeKind.TUPLE, children=(args, TreeSpec(kind=TreeKind.DICT))),
        params=tuple(range(count)),
        outputs=TreeSpec(kind=TreeKind.TUPLE, children=(leaf,) * results),
        bindings=tuple(ResultOutput(index=i) for i in range(results)),
    )
    data = {name: tensor_data(name, tensor) for name, tensor in built.constants.items()}
    return Artifact(program=program, signature=signature, constants=data)


def _boxed(artifact: Artifact, positions: tuple[int, ...], count: int, name: str) -> Boxed:
    """The emitted callable in upstream's calling convention; raises BackendError FE401."""
    try:
        compiled = emitter(name).compile(artifact)
    except WirError as error:
        raise BackendError("FE401", f"emitter {name!r} cannot compile the program: {error}") from error
    run = compiled.boxed

    if positions == tuple(range(count)):

        def call(args: list[Any]) -> Sequence[Any]:
            return run(args)

    else:

        def call(args: list[Any]) -> Sequence[Any]:
            used = [args[p] for p in positions]
            args.clear()
            return run(used)

    call._boxed_call = True  # type: ignore[attr-defined]  # upstream's mark of this convention
    return call
