"""Instruction sets: the processor features that each needs, and compiler flags and macros of its kernels.

The flags name a fixed micro-architecture level, never `native`: several hosts may share a cache, so the key
of a library must say where it runs.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from cpp_wrapper.errors import IsaError
from wrapper_ir import ir


@dataclass(frozen=True, slots=True, kw_only=True)
class Isa:
    """One instruction set. `needs` are flags of `/proc/cpuinfo`."""

    needs: frozenset[str]
    flags: tuple[str, ...]
    capability: str = ""
    """The `CPU_CAPABILITY_*` macro that selects torch's vector types; empty for extensions of another set."""


_V3 = frozenset({"avx2", "fma", "f16c", "bmi1", "bmi2", "movbe"})
_V4 = _V3 | {"avx512f", "avx512dq", "avx512vl", "avx512bw", "avx512cd"}

ISAS: dict[str, Isa] = {
    "avx2": Isa(needs=_V3, flags=("-march=x86-64-v3",), capability="AVX2"),
    "avx512": Isa(needs=_V4, flags=("-march=x86-64-v4",), capability="AVX512"),
    "avx512_bf16": Isa(needs=frozenset({"avx512_bf16"}), flags=("-mavx512bf16",)),
    "avx512_vnni": Isa(needs=frozenset({"avx512_vnni"}), flags=("-mavx512vnni",)),
    "amx_tile": Isa(
        needs=frozenset({"amx_tile", "amx_bf16", "amx_int8"}),
        flags=("-mamx-tile", "-mamx-bf16", "-mamx-int8"),
    ),
}


def host_features(cpuinfo: Path = Path("/proc/cpuinfo")) -> frozenset[str]:
    """Returns the processor's features in Linux's names, without those that torch must not use.

    `ATEN_CPU_CAPABILITY` restricts torch; kernels follow.
    """
    import torch  # sources are emitted without it

    features: frozenset[str] = frozenset()
    with cpuinfo.open() as lines:
        for line in lines:
            key, _, value = line.partition(":")
            if key.strip() == "flags":
                features = frozenset(value.split())
                break
    return features - _hidden_features(features, torch.backends.cpu.get_cpu_capability())


def require_host(kernel: str, isa: Iterable[str], features: frozenset[str]) -> None:
    """Raises IsaError CPP202 for an unknown name in `isa`, and CPP201 if `features` lack one that it
    needs.
    """
    for name in isa:
        entry = _lookup(kernel, name)
        if missing := sorted(entry.needs - features):
            raise IsaError(
                "CPP201",
                f"kernel '{kernel}' was written for {name}, but this host lacks {', '.join(missing)}",
                "capture the model again for this host, or run it where the instructions exist",
            )


def choose_source(kernel: ir.CppKernel, features: frozenset[str]) -> ir.CppKernel:
    """Returns the kernel with only the first of its sources that the host can run.

    Raises IsaError CPP202 for an unknown name in any source, and CPP201 if the host can run none.
    """
    sources = kernel.sources
    needs = [required_features(kernel.name, source.isa) for source in sources]
    fitting = (source for source, need in zip(sources, needs) if need <= features)
    source = next(fitting, sources[-1])
    require_host(kernel.name, source.isa, features)
    return replace(kernel, source=source.source, isa=source.isa, variants=())


def isa_build_args(kernel: str, isa: Iterable[str]) -> tuple[str, ...]:
    """Returns compiler flags and macros of a kernel's instruction sets, in a fixed order.

    Raises IsaError CPP202.
    """
    entries = [_lookup(kernel, name) for name in sorted(set(isa))]
    flags = [flag for entry in entries for flag in entry.flags]
    # Only the widest macro: "AVX512" sorts after "AVX2", and the `-march` levels have the same order.
    capabilities = [entry.capability for entry in entries if entry.capability]
    macros = [f"-DCPU_CAPABILITY_{capabilities[-1]}"] if capabilities else []
    return (*flags, *macros)


def required_features(kernel: str, isa: Iterable[str]) -> frozenset[str]:
    """Returns the flags of `/proc/cpuinfo` that instruction sets need. Raises IsaError CPP202."""
    return frozenset[str]().union(*(_lookup(kernel, name).needs for name in isa))


def _lookup(kernel: str, name: str) -> Isa:
    if name not in ISAS:
        raise IsaError(
            "CPP202",
            f"kernel '{kernel}' names the unknown instruction set '{name}'",
            f"known: {', '.join(sorted(ISAS))}",
        )
    return ISAS[name]


def _hidden_features(features: frozenset[str], capability: str) -> frozenset[str]:
    wide = frozenset(f for f in features if f.startswith(("avx512", "amx")))
    match capability:
        case "DEFAULT":
            return wide | _V3
        case "AVX2":
            return wide
        case _:
            return frozenset()
