"""Functions that Dynamo compiles ahead of time (`torch.compile(f).aot_compile(...)`) and stores in a file.

Dynamo needs an object that it can store. It is a piece: an artifact with the metadata of the call. The file
of the piece is stored, not a pickle.
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

# Any in this file: results of any graph.

_FILE = "piece.wir"


def compile_ahead(
    gm: fx.GraphModule, inputs: Sequence[object], options: Mapping[str, object] | None, mode: str | None
) -> AheadPiece:
    """Compiles a Dynamo graph to a piece.

    Raises the errors of `standalone_compile`, and BackendError FE362 for a mode other than "default".
    """
    if mode not in (None, "default"):
        raise BackendError(
            "FE362", f"a function that is compiled ahead of time cannot be saved with mode {mode!r}"
        )
    # The values that Dynamo traced with: real tensors would get symbolic sizes that no input provides.
    nodes = gm.graph.find_nodes(op="placeholder")
    examples = [node.meta.get("example_value", value) for node, value in zip(nodes, inputs, strict=True)]
    piece = standalone_compile(gm, examples, dynamic_shapes="from_tracing_context", options=options)
    emitter = (options or {}).get("emitter")
    return AheadPiece(piece, {"emitter": emitter} if isinstance(emitter, str) else {})


class AheadPiece(SerializableCallable):
    """A piece in the form that Dynamo stores and loads. `options` select the emitter in the loading
    process."""

    def __init__(self, piece: CompiledPiece, options: Mapping[str, str]) -> None:
        self.piece = piece
        self.options = options

    def __call__(self, *args: object, **kwargs: object) -> Any:
        """Runs the graph and returns its results."""
        return self.piece(*args, **kwargs)

    @classmethod
    def serialize_compile_artifacts(cls, fn: AheadPiece) -> bytes:
        """Returns one line of JSON (the options), followed by the bytes of the piece's file."""
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / _FILE
            fn.piece.save(path)
            return json.dumps(dict(fn.options)).encode() + b"\n" + path.read_bytes()

    @classmethod
    def deserialize_compile_artifacts(cls, data: bytes) -> AheadPiece:
        """Restores the function. Raises BackendError FE363 if `data` contains no piece of this torch
        version."""
        head, _, file = data.partition(b"\n")
        try:
            options = {str(name): str(value) for name, value in json.loads(head).items()}
        except (ValueError, AttributeError) as error:
            raise BackendError("FE363", f"a function compiled ahead of time is damaged: {error}") from error
        folder = tempfile.mkdtemp(prefix="wrapper-ir-")  # large constants stay in the file
        try:
            path = Path(folder) / _FILE
            path.write_bytes(file)
            function = cls(load_piece(path, options), options)
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise
        weakref.finalize(function, shutil.rmtree, folder, ignore_errors=True)
        return function
