"""One compilation as data: exactly the inputs that determine the result."""

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
from wrapper_ir.support.python_syntax import parse_module
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
"""Environment variables that change Triton's output."""

_BUILD = re.compile(r"\+(cpu|cu\d+|rocm[\d.]+|xpu)$")
"""Build tags of a version."""

Json = dict[str, object]


@dataclass(frozen=True, slots=True, kw_only=True)
class CompileJob:
    """Input of a compiler process. `constants` and `options` are JSON; `config` is only for messages.

    `environment` has versions of the compiler and of the libraries that the source imports, hashes of the
    modules that it requires, and relevant variables.
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
    """For each argument of the compiled kernel, its index among the arguments of a launch."""
    options: str
    capability: int
    environment: tuple[tuple[str, str], ...]
    folder: str
    """Folder for source files."""
    changed: str = ""
    """Required modules that differ from the versions that the source was written for; only for messages."""

    @property
    def key(self) -> str:
        """Sha256 (hex) of everything that determines the result and its launches."""
        content = asdict(self)
        for name in ("kernel", "config", "folder", "changed"):
            del content[name]
        return hashlib.sha256(json.dumps(["triton binary 2", content], sort_keys=True).encode()).hexdigest()

    def to_bytes(self) -> bytes:
        """Serializes the job for a compiler process."""
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
    """Describes the compilation of `kernel` with `config` for `target`.

    Raises KernelError (see `bind`), and CompileError TR202 for an unsupported target.
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
    """A config as in a program's text, shortened."""
    meta = ", ".join(f"{name} = {value}" for name, value in (*config.meta, *config.options))
    return f"{{{meta}}} warps({config.num_warps}) stages({config.num_stages})"


def _plain(value: ir.ConstantValue) -> object:
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    return {"dtype": value.value} if isinstance(value, ir.DType) else value


def constants_of(text: str) -> dict[str, ir.ConstantValue]:
    """Parses the constants of a job."""
    constants: Mapping[str, object] = json.loads(text)
    return {name: _rich(value) for name, value in constants.items()}


def _rich(value: object) -> ir.ConstantValue:
    if isinstance(value, list):
        return tuple(map(_rich_scalar, value))
    return _rich_scalar(value)


def _rich_scalar(value: object) -> ir.ScalarConstant:
    if isinstance(value, dict):
        return ir.DType(value["dtype"])
    # `_plain` wrote it
    assert value is None or isinstance(value, bool | int | float | str)
    return value


@cache
def imports(source: str) -> tuple[str, ...]:
    """The modules that a source imports, sorted; empty if it is not valid Python."""
    try:
        tree = parse_module(source)
    # loading the source reports it
    except SyntaxError:
        return ()
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names.add(node.module)
    return tuple(sorted(names))


def _versions(source: str) -> tuple[tuple[str, str], ...]:
    """Versions of Triton and of the other libraries that a source imports: their functions are inlined."""
    names = {"triton", *(name.partition(".")[0] for name in imports(source))}
    return tuple((name, version) for name in sorted(names) if (version := _version(name)))


@cache
def _version(name: str) -> str:
    """A library's version without its build tag, which changes none of its Python functions."""
    try:
        return _BUILD.sub("", metadata.version(name))
    # part of the standard library
    except metadata.PackageNotFoundError:
        return ""
