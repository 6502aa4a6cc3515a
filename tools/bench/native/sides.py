"""The sides of the benchmark: a runtime's driver, the exports that it needs, and the file that it opens."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tools.bench.native.drivers import compile_driver, compile_together
from tools.bench.native.environment import ROOT, export_environment, install
from tools.bench.native.processes import Command

LIBTORCH, NATIVE = "ours, libtorch", "ours, native"


@dataclass(frozen=True, slots=True)
class Side:
    """`files` of an export are what is shipped beside the runtime: patterns, the first is opened."""

    driver: str
    exports: Sequence[str]
    files: Sequence[str]
    variables: Mapping[str, str] = field(default_factory=dict)


SIDES: Mapping[str, Side] = {
    "ONNX Runtime": Side("onnxruntime", ("onnx", "onnxruntime"), ("ort.onnx", "ort.bin")),
    "OpenVINO": Side("openvino", ("onnx", "openvino"), ("openvino.xml", "openvino.bin")),
    "ExecuTorch": Side("executorch", ("executorch",), ("model.pte",)),
    "AOTInductor": Side("aotinductor", ("aotinductor",), ("aotinductor.pt2",)),
    LIBTORCH: Side("libtorch", ("libtorch",), ("libtorch.pt2",)),
    NATIVE: Side("native", ("native",), ("native.so",)),
}
FORM_SIDES: Mapping[str, Mapping[str, Side]] = {
    "bf16": {
        "OpenVINO": Side(
            "openvino",
            ("onnx_float", "openvino"),
            ("openvino.xml", "openvino.bin"),
            {"OPENVINO_PRECISION": "bf16"},
        ),
        **{title: SIDES[title] for title in ("ExecuTorch", "AOTInductor", LIBTORCH, NATIVE)},
    },
    "int8": {
        "OpenVINO": Side("openvino", ("onnx_compressed_float", "openvino"), ("openvino.xml", "openvino.bin")),
        **{title: SIDES[title] for title in ("AOTInductor", LIBTORCH, NATIVE)},
    },
    "int8_dynamic": {
        "ONNX Runtime": Side("onnxruntime", ("onnx_float", "onnxruntime_int8"), ("ort.onnx",)),
        "ExecuTorch": Side("executorch", ("executorch_int8_float",), ("model.pte",)),
        **{title: SIDES[title] for title in ("AOTInductor", LIBTORCH, NATIVE)},
    },
}
"""Sides of models in other forms, each by the way that its runtime has for it."""
MISSING_SIDES: Mapping[str, Mapping[str, str]] = {
    "bf16": {"ONNX Runtime": "its provider for CPUs has no matrix products of bfloat16 on x86-64"}
}
"""Why sides are missing from the table of a form."""

_OURS = ("libtorch", "native")
"""Exports that change with this repository."""
_WITHOUT_PACKAGES = ("case", "aotinductor", *_OURS)


@dataclass(frozen=True, slots=True)
class Prepared:
    """A model's commands by side, why others are missing, and the bytes of its weights."""

    commands: Mapping[str, Command]
    missing: Mapping[str, str]
    weights: int


class Workshop:
    """Exports models and compiles drivers into a folder, where they stay for the next run.

    Exports of this repository's are made again, unless `keep`. `only`: drivers of the sides that take part; all
    if it is empty.
    """

    def __init__(self, folder: Path, *, keep: bool, only: Sequence[str] = ()) -> None:
        self._folder, self._keep, self._only = folder.resolve(), keep, only
        self._packages = self._folder / "packages"
        install(self._packages)

    @property
    def packages(self) -> Path:
        """The folder of the other runtimes."""
        return self._packages

    def prepare(self, model: str, wanted: Mapping[str, Side]) -> Prepared:
        """Makes what the sides need for a model, as far as it can be made."""
        folder = self._folder / model
        folder.mkdir(parents=True, exist_ok=True)
        self._export(model, "case", folder)
        commands, missing = dict[str, Command](), dict[str, str]()
        for title, side in wanted.items():
            if self._only and side.driver not in self._only:
                continue
            failed = next((why for kind in side.exports if (why := self._export(model, kind, folder))), "")
            if failed:
                missing[title] = failed
                continue
            driver = compile_driver(side.driver, self._packages, self._folder / "drivers")
            commands[title] = Command(driver, folder / side.files[0], folder, side.variables)
        weights = int(json.loads((folder / "about.json").read_text(encoding="utf-8"))["weights"])
        return Prepared(commands, missing, weights)

    def together(self) -> Path:
        """Compiles the program of several sides, and returns its path."""
        return compile_together(self._packages, self._folder / "drivers")

    def _export(self, model: str, kind: str, folder: Path) -> str:
        """Exports; returns why it failed, or ''. The log stays in the folder."""
        log, done = folder / f"{kind}.log", folder / f"{kind}.done"
        if done.is_file() and (self._keep or kind not in _OURS):
            return ""
        done.unlink(missing_ok=True)
        print(f"{model}: {kind}", file=sys.stderr, flush=True)
        command = [
            sys.executable,
            "-W",
            "ignore",
            "-m",
            "tools.bench.native.exports",
            model,
            kind,
            str(folder),
        ]
        environment = export_environment(self._packages, self._folder / "caches")
        with log.open("w", encoding="utf-8") as output:
            failed = subprocess.run(
                command, env=environment, cwd=ROOT, stdout=output, stderr=subprocess.STDOUT, check=False
            ).returncode
        if failed:
            return reason(log.read_text(encoding="utf-8")) or f"it ended with {failed}"
        done.touch()
        return ""


def reason(log: str) -> str:
    """The last line of a log that names an error, without its class's module; '' if there is none."""
    lines = [line for line in log.splitlines() if re.match(r"[\w.]+(Error|Exception)\b", line)]
    return re.sub(r"^[\w.]*\.", "", lines[-1])[:300] if lines else ""


def shipped_bytes(
    folder: Path, side: Side, libraries: Sequence[Path], weights: int, roots: Sequence[Path]
) -> int:
    """Bytes beside weights: the model's files less the weights, and shared libraries below `roots`."""
    files = [path for pattern in side.files for path in folder.glob(pattern)]
    homes = [root.resolve() for root in roots]
    own = [path for path in libraries if any(path.is_relative_to(home) for home in homes)]
    return sum(path.stat().st_size for path in (*files, *own)) - weights
