"""Functions that Dynamo compiles ahead of time (`torch.compile(f).aot_compile(...)`), which it stores in a file.

Dynamo asks for something that it can store: a piece, which is an artifact with what surrounds its program. Its file is what is stored,
and no pickle.
"""

from __future__ import annotations

import json
import shutil
import tempfile
import weakref
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from torch import fx
from torch._dynamo.aot_compile_types import SerializableCallable

from inductor_frontend.backend.standalone import CompiledPiece, load_piece, standalone_compile
from inductor_frontend.errors import BackendError

# Any in this file: tensors and numbers of any graph, and options as the user typed them.

_FILE = "piece.wir"


def compile_ahead(
    gm: fx.GraphModule, inputs: Sequence[Any], options: Mapping[str, Any] | None, mode: str | None
) -> AheadPiece:
    """A graph of Dynamo's as a piece. Raises what `standalone_compile` raises, and BackendError FE362 for a mode."""
    if mode not in (None, "default"):
        raise BackendError(
            "FE362", f"a function that is compiled ahead of time cannot be kept with mode {mode!r}"
        )
    # what Dynamo traced with: tensors themselves would get sizes of no input
    nodes = gm.graph.find_nodes(op="placeholder")
    known = [node.meta.get("example_value", given) for node, given in zip(nodes, inputs, strict=True)]
    piece = standalone_compile(gm, known, dynamic_shapes="from_tracing_context", options=options)
    emitter = (options or {}).get("emitter")
    return AheadPiece(piece, {"emitter": emitter} if isinstance(emitter, str) else {})


class AheadPiece(SerializableCallable):
    """A piece in the form that Dynamo stores and loads; `options` choose the emitter in other processes."""

    def __init__(self, piece: CompiledPiece, options: Mapping[str, str]) -> None:
        self.piece = piece
        self.options = options

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """The results of the graph."""
        return self.piece(*args, **kwargs)

    @classmethod
    def serialize_compile_artifacts(cls, fn: AheadPiece) -> bytes:
        """A line of JSON, and the file of the piece."""
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / _FILE
            fn.piece.save(path)
            return json.dumps(dict(fn.options)).encode() + b"\n" + path.read_bytes()

    @classmethod
    def deserialize_compile_artifacts(cls, data: bytes) -> AheadPiece:
        """The same function. Raises BackendError FE363 for what holds no piece of this torch."""
        head, _, file = data.partition(b"\n")
        try:
            options = {str(name): str(value) for name, value in json.loads(head).items()}
        except (ValueError, AttributeError) as error:
            raise BackendError("FE363", f"a function compiled ahead of time is damaged: {error}") from error
        folder = tempfile.mkdtemp(prefix="wrapper-ir-")  # large constants stay in the file
        try:
            path = Path(folder) / _FILE
            path.write_bytes(file)
            made = cls(load_piece(path, options), options)
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise
        weakref.finalize(made, shutil.rmtree, folder, ignore_errors=True)
        return made
