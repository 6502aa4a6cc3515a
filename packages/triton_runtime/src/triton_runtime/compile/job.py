"""One compilation as data: all that decides the result, and nothing else."""

from __future__ import annotations

import ast
import hashlib
import json
import os
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cache
from importlib import metadata

from triton_runtime.binding import Binding, bind
from triton_runtime.compile.target import capability
from wrapper_ir import ir
from wrapper_ir_runtime.modules import module_hash

_VARIABLES = (
    "DISABLE_PTXAS_OPT",
    "PTXAS_OPTIONS",
    "TRITON_DEFAULT_FP_FUSION",
    "TRITON_DISABLE_LINE_INFO",
    "TRITON_F32_DEFAULT",
    "TRITON_LIBDEVICE_PATH",
    "TRITON_PTXAS_BLACKWELL_PATH",
    "TRITON_PTXAS_PATH",
)
"""Variables of the environment by which Triton compiles otherwise."""

_BUILD = re.compile(r"\+(cpu|cu\d+|rocm[\d.]+|xpu)$")
"""What builds of one version are for."""

Json = dict[str, object]


@dataclass(frozen=True, slots=True, kw_only=True)
class CompileJob:
    """What a compiler process is told. `constants` and `options` are in JSON; `config` is for messages only.

    `environment`: versions of the compiler and of the libraries that the source imports, hashes of the modules that it
    requires, and variables that matter.
    """

    kernel: str
    config: str
    source: str
    entry: str
    order: tuple[str, ...]
    signature: tuple[tuple[str, str], ...]
    constants: str
    divisible: tuple[int, ...]
    positions: tuple[int, ...]
    """Which argument of a launch each argument of the compiled kernel is."""
    options: str
    capability: int
    environment: tuple[tuple[str, str], ...]
    folder: str
    """Where sources are kept as files."""
    changed: str = ""
    """The modules that the source was written for and that are otherwise here, for messages only."""

    @property
    def key(self) -> str:
        """Sha256 (hex) over all that decides the result, and what launches give it."""
        content = asdict(self)
        for name in ("kernel", "config", "folder", "changed"):
            del content[name]
        return hashlib.sha256(json.dumps(["triton binary 2", content], sort_keys=True).encode()).hexdigest()

    def to_bytes(self) -> bytes:
        """For a compiler process."""
        return json.dumps(asdict(self)).encode()

    @classmethod
    def from_bytes(cls, data: bytes) -> CompileJob:
        """The inverse of `to_bytes`."""
        fields = json.loads(data)
        return cls(
            **fields
            | {
                "order": tuple(fields["order"]),
                "signature": tuple((name, type_) for name, type_ in fields["signature"]),
                "divisible": tuple(fields["divisible"]),
                "positions": tuple(fields["positions"]),
                "environment": tuple((name, value) for name, value in fields["environment"]),
            }
        )


def make_job(kernel: ir.TritonKernel, config: ir.TritonConfig, target: ir.Target, folder: str) -> CompileJob:
    """What it takes to compile `kernel` with `config` for `target`.

    Raises KernelError (see `bind`), and CompileError TR202 for a target that is none.
    """
    binding: Binding = bind(kernel, config)
    here = {required.name: module_hash(required.name) for required in kernel.requires}
    return CompileJob(
        kernel=kernel.name,
        config=config_text(config),
        source=kernel.source,
        entry=kernel.entry,
        order=kernel.order,
        signature=binding.signature,
        constants=json.dumps({name: _plain(value) for name, value in binding.constants}),
        divisible=binding.divisible,
        positions=tuple(argument.position for argument in binding.arguments),
        options=json.dumps({name: _plain(value) for name, value in binding.options}),
        capability=capability(target),
        environment=(
            *_versions(kernel.source),
            *((f"module {name}", digest) for name, digest in here.items()),
            *((v, os.environ[v]) for v in _VARIABLES if v in os.environ),
        ),
        folder=folder,
        changed=", ".join(
            f"{r.name} of {r.origin or 'another version'}"
            for r in kernel.requires
            if r.sha256 not in ("", here[r.name])
        ),
    )


def config_text(config: ir.TritonConfig) -> str:
    """A config as it stands in a program's text, shortened."""
    meta = ", ".join(f"{name} = {value}" for name, value in (*config.meta, *config.options))
    return f"{{{meta}}} warps({config.num_warps}) stages({config.num_stages})"


def _plain(value: ir.ConstantValue) -> object:
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    return {"dtype": value.value} if isinstance(value, ir.DType) else value


def constants_of(text: str) -> dict[str, ir.ConstantValue]:
    """The inverse of how a job keeps constants."""
    found: Mapping[str, object] = json.loads(text)
    return {name: _rich(value) for name, value in found.items()}


def _rich(value: object) -> ir.ConstantValue:
    if isinstance(value, list):
        return tuple(map(_rich_scalar, value))
    return _rich_scalar(value)


def _rich_scalar(value: object) -> ir.ScalarConstant:
    if isinstance(value, dict):
        return ir.DType(value["dtype"])
    assert value is None or isinstance(value, bool | int | float | str)  # as `_plain` wrote it
    return value


@cache
def imports(source: str) -> tuple[str, ...]:
    """The modules that a source imports, sorted; none of one that is not Python."""
    try:
        tree = ast.parse(source)
    except SyntaxError:  # reported where it is loaded
        return ()
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names.add(node.module)
    return tuple(sorted(names))


def _versions(source: str) -> tuple[tuple[str, str], ...]:
    """Versions of Triton and of the other libraries that a source imports: their functions become part of the kernel."""
    names = {"triton", *(name.partition(".")[0] for name in imports(source))}
    return tuple((name, version) for name in sorted(names) if (version := _version(name)))


@cache
def _version(name: str) -> str:
    """A library's version, without what it was built for: that changes none of its Python functions."""
    try:
        return _BUILD.sub("", metadata.version(name))
    except metadata.PackageNotFoundError:  # part of the standard library
        return ""
