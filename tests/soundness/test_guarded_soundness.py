"""Soundness of hostile programs: corrupted ones, and invalid ones, in sizes, ranges, aliases, extents,
offsets, callees and arguments.

Each is refused by the verifier, raises a coded error, or has equal results in the interpreter, in emitted
Python, as an FX graph and as a C++ library. Guard pages surround every buffer, and kernels access all that
they may.
"""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.common.input_engines import artifact_of, engines
from tests.soundness.guarded.allocator import build
from wrapper_ir.errors import VerificationError, WirError, code_of

ROOT = Path(__file__).parents[2]


def outcomes(kind: str, first: int, count: int, names: str) -> list[str]:
    """The outcome of each program."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.soundness.guarded.worker", kind, str(first), str(count), names],
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
        cwd=ROOT,
    )
    lines = done.stdout.splitlines()
    assert done.returncode == 0, f"{done.stdout[-2000:]}\n{done.stderr[-3000:]}"
    assert [line.split(" ", 1)[0] for line in lines] == [str(n) for n in range(first, first + count)]
    return lines


def check(lines: list[str]) -> Counter[str]:
    """Counts the refused, stopped and executed ones; fails for wrong ones."""
    wrong = [line for line in lines if "WRONG" in line]
    assert not wrong, "\n\n".join(line[:3000] for line in wrong)
    return Counter(line.split(" ")[1] for line in lines)


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "first", "ran"), [("hostile", 0, 10), ("corrupted", 60, 3)])
def test_hostile_programs(kind: str, first: int, ran: int) -> None:
    found = check(outcomes(kind, first, 60, "python,fx,cpp"))
    assert found["refused"] > 20, found
    assert found["error"] > 0, found
    assert found["ran"] >= ran, found  # the test is about programs that the verifier lets through


@pytest.mark.conformance
@pytest.mark.parametrize("hundred", range(20))
def test_two_thousand_hostile_programs(hundred: int) -> None:
    check(outcomes("hostile", 100 * hundred, 100, "python,fx,fx hop,cpp"))


@pytest.mark.conformance
@pytest.mark.parametrize("hundred", range(10))
def test_a_thousand_corrupted_programs(hundred: int) -> None:
    check(outcomes("corrupted", 100 * hundred, 100, "python,fx,fx hop,cpp"))


GUARDED = """import ctypes, os, torch
from tests.soundness.guarded.allocator import install
pages = install()
for code in {codes!r}:
    t = torch.ones(100)
    if os.fork() == 0:
        exec(code)
        os._exit(pages.damaged())
    print(os.waitstatus_to_exitcode(os.wait()[1]))
"""


@pytest.mark.slow
def test_the_guard_pages_guard() -> None:
    """Reads and writes past the end (400 bytes, rounded up to 64), before the start, in the padding, and
    after the lifetime; and valid accesses.
    """
    build()
    codes = {
        "assert t.data_ptr() % 64 == 0; t.add_(1); del t": 0,
        "ctypes.string_at(t.data_ptr() + 448, 1)": -11,
        "ctypes.memset(t.data_ptr() + 448, 0, 1)": -11,
        "ctypes.string_at(t.data_ptr() - 4096, 1)": -11,
        "p = t.data_ptr(); del t; ctypes.string_at(p, 1)": -11,
        "ctypes.memset(t.data_ptr() + 401, 0, 1)": 1,
        "ctypes.memset(t.data_ptr() + 401, 0, 1); del t": -6,
        "ctypes.memset(t.data_ptr() - 1, 0, 1); del t": -6,
        "try: torch.empty(1 << 40)\nexcept RuntimeError: os._exit(7)": 7,
    }
    script = GUARDED.format(codes=list(codes))
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False, cwd=ROOT
    )
    assert [int(line) for line in done.stdout.split()] == list(codes.values()), done.stderr[-2000:]


# Any: inputs and results
Make = Callable[[], list[Any]]


def same_everywhere(text: str, make: Make, folder: Path) -> None:
    """Refused, or in each engine a coded error, or in each the same."""
    try:
        artifact = artifact_of(text)
    except VerificationError:
        return
    found: dict[str, str] = {}
    for name, run in engines(artifact, folder).items():
        try:
            result = run(make())
            found[name] = repr(result if isinstance(result, tuple) else (result,))
        except Exception as error:
            if not code_of(error):
                raise
            found[name] = "a coded error"
    assert len(set(found.values())) == 1, found


STACKED = """symbol u0 : int unbacked
symbol u1 : int unbacked

extern "aten::clone(Tensor self, *, MemoryFormat? memory_format=None) -> Tensor"
extern "aten::relu(Tensor self) -> Tensor"

func @main(%x: f32[16]) {
  %n, %r = while @more do @body carried(0, %x) stacked : int, f32[3, 16]
  drop %x
  %v = view %r + 128 : f32[16]
  %y = call aten::relu(%v) : f32[16]
  drop %v
  free %r
  return %y
}

func @more(%k: int, %x: f32[16]) {
  drop %x
  define u0 = item(%k)
  return u0 < 3
}

func @body(%k: int, %x: f32[16]) {
  define u1 = item(%k)
  %y = call aten::clone(%x) : f32[16]
  drop %x
  return u1 + 2, %y
}
"""


def test_stacked_trips_are_as_many_as_declared(tmp_path: Path) -> None:
    for run in engines(artifact_of(STACKED), tmp_path).values():
        with pytest.raises(WirError, match="WIR92"):
            run([torch.ones(16)])


def test_numbers_beyond_64_bits(tmp_path: Path) -> None:
    """A constant one is refused; others have a code in every engine."""
    text = (
        "symbol s0 : int unbacked\n\nfunc @main(%n: int) {\n  define s0 = item(%n) * 2\n  return s0 % 8\n}\n"
    )
    for n in ([3], [1 << 62], [(1 << 63) - 1]):
        same_everywhere(text, n.copy, tmp_path / str(n[0]))


@pytest.mark.parametrize(
    "e", ["8 % (s0 - 8)", "8 // (s0 - 8)", "ceildiv(8, s0 - 8)", "s0 / (s0 - 8)", "sqrt(7.5 - s0)"]
)
def test_numbers_without_a_value(e: str, tmp_path: Path) -> None:
    text = "symbol s0 : int unbacked\n\nfunc @main(%n: int) {\n  define s0 = item(%n)\n  return EXPR\n}\n"
    same_everywhere(text.replace("EXPR", e), lambda: [8], tmp_path)


def test_arguments_that_want_gradients(tmp_path: Path) -> None:
    text = """extern "aten::add.out(Tensor self, Tensor other, *, Scalar alpha=1, Tensor(a!) out) -> Tensor(a!)"

func @main(%x: f32[4]) {
  %y = alloc f32[4]
  call aten::add.out(%x, %x, alpha=1, out=%y)
  drop %x
  return %y
}
"""
    run = engines(artifact_of(text), tmp_path)["fx, direct, flat"]
    assert torch.equal(torch.as_tensor(run([torch.ones(4, requires_grad=True)])[0]), torch.full((4,), 2.0))


def test_storage_of_another_dtype(tmp_path: Path) -> None:
    text = "func @main(%x: i64[4], %y: f32[8]) {\n  set_storage %x, %y\n  drop %x\n  return %y\n}\n"
    same_everywhere(text, lambda: [torch.ones(4, dtype=torch.int64), torch.ones(8)], tmp_path)


def test_storage_of_its_own(tmp_path: Path) -> None:
    same_everywhere(
        "func @main(%x: f32[4]) {\n  set_storage %x, %x\n  return %x\n}\n", lambda: [torch.ones(4)], tmp_path
    )


UNALIGNED = """kernel cpp @k entry "k" (write f32* out divisible(64)) {{{
extern "C" void k(float* out) { *out = 1; }
}}}

func @main() {
  %s = alloc_storage 128
  %v = view %s + 16 : f32[1]
  launch @k(%v)
  free %s
  return 1
}
"""


def test_a_pointer_that_is_less_aligned_than_the_kernel_says() -> None:
    with pytest.raises(VerificationError):
        artifact_of(UNALIGNED)
