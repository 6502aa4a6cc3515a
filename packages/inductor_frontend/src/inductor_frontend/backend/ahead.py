"""Functions that Dynamo compiles ahead of time (`torch.compile(f).aot_compile(...)`) and stores in a file.

Dynamo needs an object that it can store. It is a piece, for inference or with a backward graph: an artifact
for each graph, with the metadata of the call. The files of the artifacts are stored, not a pickle.
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

from inductor_frontend.backend.options import BackendOptions
from inductor_frontend.backend.standalone import CompiledPiece, compile_piece, read_piece
from inductor_frontend.errors import BackendError
from wrapper_ir.artifact import Artifact
from wrapper_ir.artifact.file import save

# Any in this file: results of any graph.

_NAME = "a function compiled ahead of time"


def compile_ahead(
    gm: fx.GraphModule, inputs: Sequence[object], options: Mapping[str, object] | None, mode: str | None
) -> AheadPiece:
    """Compiles a Dynamo graph, and its backward graph if it has one, to a piece.

    Raises the errors of `standalone_compile` except FE361.
    """
    parsed = BackendOptions.parse(options, mode)
    # The values that Dynamo traced with: real tensors would get symbolic sizes that no input provides.
    nodes = gm.graph.find_nodes(op="placeholder")
    examples = [node.meta.get("example_value", value) for node, value in zip(nodes, inputs, strict=True)]
    stored = {name: getattr(parsed, name) for name in ("persistent_buffers", "cuda_graphs", "tune")}
    if isinstance(parsed.emitter, str):
        stored["emitter"] = parsed.emitter
    return AheadPiece(compile_piece(gm, examples, "from_tracing_context", parsed, trains=True), stored)


class AheadPiece(SerializableCallable):
    """A piece in the form that Dynamo stores and loads. `options` select the emitter, and configure it, in
    the loading process."""

    def __init__(self, piece: CompiledPiece, options: Mapping[str, object]) -> None:
        self.piece = piece
        self.options = options

    def __call__(self, *args: object, **kwargs: object) -> Any:
        """Runs the graph and returns its results."""
        return self.piece(*args, **kwargs)

    @classmethod
    def serialize_compile_artifacts(cls, fn: AheadPiece) -> bytes:
        """Returns one line of JSON (the options, and the sizes of the files), followed by the files of the
        forward graph and the backward graph. Raises ArtifactError."""
        files = [_file(artifact) for artifact in (fn.piece.artifact, fn.piece.backward)]
        head = {"options": dict(fn.options), "sizes": [len(file) for file in files]}
        return b"".join([json.dumps(head).encode(), b"\n", *files])

    @classmethod
    def deserialize_compile_artifacts(cls, data: bytes) -> AheadPiece:
        """Restores the function. Raises BackendError FE363 if `data` contains no piece of this torch
        version."""
        options, files = _opened(data)
        folder = tempfile.mkdtemp(prefix="wrapper-ir-")  # large constants stay in the files
        try:
            forward, backward = Path(folder) / "forward.wir", Path(folder) / "backward.wir"
            forward.write_bytes(files[0])
            if files[1]:
                backward.write_bytes(files[1])
            parsed = BackendOptions.parse(options)
            piece = read_piece(forward, backward if files[1] else None, parsed, _NAME)
            function = cls(piece, options)
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise
        weakref.finalize(function, shutil.rmtree, folder, ignore_errors=True)
        return function


def _file(artifact: Artifact | None) -> bytes:
    """Returns the content of an artifact's file; nothing for None."""
    if artifact is None:
        return b""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "graph.wir"
        save(artifact, path)
        return path.read_bytes()


def _opened(data: bytes) -> tuple[dict[str, object], tuple[bytes, bytes]]:
    """Returns the options and the files of a stored function. Raises BackendError FE363."""
    head, _, body = data.partition(b"\n")
    try:
        match json.loads(head):
            case {"options": dict(options), "sizes": [int(first), int(second)]} if first > 0 <= second:
                if first + second == len(body):
                    return options, (body[:first], body[first:])
    except ValueError as error:
        raise BackendError("FE363", f"{_NAME} is damaged: {error}") from error
    raise BackendError("FE363", f"{_NAME} is damaged: its files are not complete")
