"""The sides of `bench_launch`: the same sum, launched by us, by the driver through ctypes and in C, by
`triton.jit` and by Inductor.

A side is a function that performs BURST launches.
"""

from __future__ import annotations

import ctypes
import importlib.util
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from triton_runtime import Binary
from triton_runtime.cuda import CudaDriver, Step, make_sequence
from wrapper_ir import ir, parse_program

BURST = 192
SEQUENCE = 16
ELEMENTS = 1024

C_LOOP = """
typedef int (*Launch)(void*, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void*, void**, void**);
int launch_many(Launch launch, void* function, unsigned grid, unsigned block, unsigned shared, void* stream, void** params,
                int count) {
  int status = 0;
  while (count-- > 0 && !status) status = launch(function, grid, 1, 1, block, 1, 1, shared, stream, params, 0);
  return status;
}
"""

Burst = Callable[[], None]
"""Performs BURST launches."""


@dataclass(frozen=True)
class Case:
    """A kernel that sums tensors: `arguments` counts its inputs, its output and the number of elements."""

    arguments: int

    @property
    def inputs(self) -> int:
        """Number of tensors that it reads."""
        return self.arguments - 2

    @property
    def source(self) -> str:
        """The kernel, for `triton.jit` and for us."""
        names = ", ".join(f"in{i}" for i in range(self.inputs))
        total = " + ".join(f"tl.load(in{i} + at, mask=inside)" for i in range(self.inputs))
        return (
            "import triton\nimport triton.language as tl\n\n\n"
            f"@triton.jit\ndef total({names}, out, n, BLOCK: tl.constexpr):\n"
            "    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)\n    inside = at < n\n"
            f"    tl.store(out + at, {total}, mask=inside)\n"
        )

    @property
    def kernel(self) -> ir.TritonKernel:
        """The definition."""
        names = [f"in{i}" for i in range(self.inputs)]
        params = [f"read f32* {name} divisible(16)" for name in names] + [
            "write f32* out divisible(16)",
            "i32 n",
        ]
        text = (
            f'wir 0.5\ntarget cuda:0\nkernel triton @total{self.arguments} entry "total" ({", ".join(params)})\n'
            f"  order({', '.join([*names, 'out', 'n', 'BLOCK'])})\n  configs({{BLOCK = 256}} warps(4) stages(1))\n"
            f"  grid(ceildiv(n, BLOCK))\n  {{{{{{\n{self.source}\n}}}}}}\nfunc @main() {{\n  return\n}}\n"
        )
        [kernel] = parse_program(text).kernels
        assert isinstance(kernel, ir.TritonKernel)
        return kernel

    def tensors(self) -> list[torch.Tensor]:
        """Inputs, then the output."""
        return [torch.randn(ELEMENTS, device="cuda") for _ in range(self.inputs + 1)]


def repeated(names: dict[str, Any], call: str, count: int) -> Burst:
    """Returns a function that makes a call `count` times, unrolled, as a generated wrapper does."""
    text = (
        f"def burst({', '.join(names)}):\n    def make_burst():\n"
        + f"        {call}\n" * count
        + "    return make_burst\n"
    )
    space: dict[str, Any] = {}
    exec(text, space)
    burst: Burst = space["burst"](**names)
    return burst


def ours(case: Case, load: Callable[[ir.TritonKernel], Any], tensors: list[torch.Tensor]) -> Burst:
    """Our launches."""
    names = {f"a{i}": t for i, t in enumerate(tensors)}
    return repeated({"k": load(case.kernel), **names}, f"k({', '.join(names)}, {ELEMENTS})", BURST)


def our_sequence(
    case: Case, driver: CudaDriver, load: Callable[[ir.TritonKernel], Any], tensors: list[torch.Tensor]
) -> Burst:
    """Our launches, 16 to a native call."""
    step = Step(load(case.kernel), tuple(range(case.arguments)))
    run = make_sequence(driver, [step] * SEQUENCE, len(tensors), (ELEMENTS,))
    names = {f"a{i}": t for i, t in enumerate(tensors)}
    return repeated({"run": run, **names}, f"run({', '.join(names)})", BURST // SEQUENCE)


@dataclass(frozen=True)
class Bare:
    """The same binary, loaded through ctypes, with its arguments in C layout."""

    library: ctypes.CDLL
    function: ctypes.c_void_p
    params: Any  # an array of pointers, whose type ctypes creates
    block: int
    shared: int
    stream: ctypes.c_void_p
    keep: tuple[object, ...]

    @classmethod
    def of(cls, binary: Binary, tensors: list[torch.Tensor]) -> Bare:
        """Loads the binary."""
        library = ctypes.CDLL("libcuda.so.1")
        module, function = ctypes.c_void_p(), ctypes.c_void_p()
        check(library.cuModuleLoadData(ctypes.byref(module), binary.image))
        check(library.cuModuleGetFunction(ctypes.byref(function), module, binary.facts.symbol.encode()))
        values = [ctypes.c_uint64(t.data_ptr()) for t in tensors]
        values += [ctypes.c_uint64(ELEMENTS), ctypes.c_uint64(0), ctypes.c_uint64(0)]
        params = (ctypes.c_void_p * len(values))(*(ctypes.addressof(value) for value in values))
        return cls(
            library=library,
            function=function,
            params=params,
            block=binary.facts.num_warps * binary.facts.warp_size,
            shared=binary.facts.shared_bytes,
            stream=ctypes.c_void_p(torch.cuda.current_stream().cuda_stream),
            keep=(values, tensors),
        )

    def through_ctypes(self) -> Burst:
        """A call of `cuLaunchKernel` for each launch."""
        names = {
            "launch": self.library.cuLaunchKernel,
            "f": self.function,
            "stream": self.stream,
            "params": self.params,
        }
        call = f"launch(f, {ELEMENTS // 256}, 1, 1, {self.block}, 1, 1, {self.shared}, stream, params, None)"
        return repeated(names, call, BURST)

    def in_c(self, folder: Path) -> Burst:
        """One call of a loop in C."""
        source, output = folder / "loop.c", folder / "loop.so"
        source.write_text(C_LOOP)
        subprocess.run(["cc", "-O2", "-shared", "-fPIC", str(source), "-o", str(output)], check=True)
        loop = ctypes.CDLL(str(output)).launch_many
        launch = ctypes.cast(self.library.cuLaunchKernel, ctypes.c_void_p)

        def burst() -> None:
            check(
                loop(
                    launch,
                    self.function,
                    ELEMENTS // 256,
                    self.block,
                    self.shared,
                    self.stream,
                    self.params,
                    BURST,
                )
            )

        return burst


def check(status: int) -> None:
    """Raises for an error of the driver."""
    assert status == 0, f"the CUDA driver failed with {status}"


def triton_jit(case: Case, tensors: list[torch.Tensor], folder: Path) -> Burst:
    """Triton's own launches; it reads a kernel's text from its file."""
    path = folder / f"total{case.arguments}.py"
    path.write_text(case.source)
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    names = {f"a{i}": t for i, t in enumerate(tensors)}
    call = f"k[({ELEMENTS // 256},)]({', '.join(names)}, {ELEMENTS}, BLOCK=256, num_warps=4)"
    return repeated({"k": module.total, **names}, call, BURST)


def inductor(case: Case, tensors: list[torch.Tensor]) -> Burst | None:
    """Launches the kernel that Inductor generates for the same sum, as its generated code does.

    Returns None if Inductor generates another number of kernels or arguments.
    """
    from torch._inductor.codecache import PyCodeCache
    from torch._inductor.runtime.triton_heuristics import CachingAutotuner

    def total(*xs: torch.Tensor) -> torch.Tensor:
        result = xs[0] + 1
        for x in xs[1:]:
            result = result + x
        return result

    before = len(PyCodeCache.modules)
    torch._dynamo.reset()
    torch.compile(total, fullgraph=True)(*tensors[:-1])
    # generated programs, not the files of single kernels, which are loaded, too
    programs = [vars(m) for m in PyCodeCache.modules[before:] if hasattr(m, "call")]
    tuners = {id(v): v for program in programs for v in program.values() if isinstance(v, CachingAutotuner)}
    if len(tuners) != 1:
        print(f"Inductor made {len(tuners)} kernels in {len(programs)} programs", file=sys.stderr)
        return None
    (kernel,) = tuners.values()
    stream = torch._C._cuda_getCurrentRawStream(torch.cuda.current_device())
    names = {f"a{i}": t for i, t in enumerate(tensors)}
    *inputs, output = names
    pointers = [name for name in kernel.triton_meta["signature"] if "_ptr" in name]
    if len(pointers) != len(tensors):
        print(f"Inductor's kernel has the parameters {pointers}", file=sys.stderr)
        return None
    # a long sum is written into a buffer that comes first; the inputs' order does not change a sum
    ordered = [output if "out" in name.partition("_ptr")[0] else inputs.pop(0) for name in pointers]
    call = f"k.run({', '.join(ordered)}, {ELEMENTS}, stream=stream)"
    burst = repeated({"k": kernel, "stream": stream, **names}, call, BURST)
    try:
        burst()
    except TypeError as error:
        print(f"Inductor's kernel takes other arguments: {error}", file=sys.stderr)
        return None
    return burst
