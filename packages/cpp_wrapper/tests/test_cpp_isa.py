"""Instruction sets: detection, flags, refusals."""

from __future__ import annotations

from pathlib import Path

import pytest

from cpp_wrapper.errors import IsaError
from cpp_wrapper.kernels.isa import ISAS, host_features, isa_build_args, require_host

CPUINFO = """processor\t: 0
flags\t\t: fpu fma avx2 f16c bmi1 bmi2 movbe
power management:

processor\t: 1
flags\t\t: fpu
"""


def test_features_are_those_of_the_first_processor(tmp_path: Path) -> None:
    cpuinfo = tmp_path / "cpuinfo"
    cpuinfo.write_text(CPUINFO)
    features = host_features(cpuinfo)
    assert {"fpu", "fma", "avx2"} <= features
    require_host("k", ("avx2",), features)


def test_a_host_without_the_instructions_is_refused() -> None:
    with pytest.raises(IsaError, match=r"CPP201.*'k'.*avx512.*lacks avx512bw, avx512cd, avx512dq") as caught:
        require_host("k", ("avx512",), frozenset({"avx2", "fma", "f16c", "bmi1", "bmi2", "movbe"}))
    assert caught.value.code == "CPP201"


def test_unknown_set_is_refused_with_the_known_ones() -> None:
    with pytest.raises(IsaError, match=r"CPP202.*'vliw'(.|\n)*avx512"):
        require_host("k", ("vliw",), frozenset())


@pytest.mark.parametrize(
    ("isa", "expected"),
    [
        ((), ()),
        (("avx2",), ("-march=x86-64-v3", "-DCPU_CAPABILITY_AVX2")),
        (("avx512", "avx512_vnni"), ("-march=x86-64-v4", "-mavx512vnni", "-DCPU_CAPABILITY_AVX512")),
        (("avx512_vnni", "avx512"), ("-march=x86-64-v4", "-mavx512vnni", "-DCPU_CAPABILITY_AVX512")),
        (("avx512", "avx2"), ("-march=x86-64-v3", "-march=x86-64-v4", "-DCPU_CAPABILITY_AVX512")),
    ],
)
def test_flags_name_a_fixed_level(isa: tuple[str, ...], expected: tuple[str, ...]) -> None:
    assert isa_build_args("k", isa) == expected


@pytest.mark.parametrize(
    ("capability", "hidden"), [("DEFAULT", {"avx2", "avx512f"}), ("AVX2", {"avx512f", "amx_tile"})]
)
def test_what_torch_may_not_use_kernels_may_not_either(
    capability: str, hidden: set[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cpuinfo = tmp_path / "cpuinfo"
    cpuinfo.write_text("flags : sse2 avx2 avx512f amx_tile\n")
    monkeypatch.setattr("torch.backends.cpu.get_cpu_capability", lambda: capability)
    features = host_features(cpuinfo)
    assert "sse2" in features
    assert not features & hidden


def test_no_flag_depends_on_the_building_host() -> None:
    assert not any("native" in flag for isa in ISAS.values() for flag in isa.flags)
