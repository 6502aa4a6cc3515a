"""Packages on a CUDA device: built with and without a visible device, through our loader and torch's."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import torch
from packages.py_wrapper.tests.stream_program import STREAMS
from torch import Tensor
from torch.utils import _pytree as pytree

import cpp_wrapper
from cpp_wrapper._compat import torch_library_dir
from inductor_frontend import capture
from tests.common import choices
from tests.common.torch_versions import since
from tests.common.zoo import ZOO
from tests.cpp.collective_programs import GATHERED, HEAD, REDUCED
from tests.cpp.cpp_case import FAST
from wrapper_ir import parse_program
from wrapper_ir.artifact import bare_artifact

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(
        not torch.cuda.is_available(), reason="packages run on a CUDA device, and there is none"
    ),
]
MODELS = ("mlp", "gpt2", "bert", "llama", "convnet", "moe", "vit")
SHAPES = ("static", "dynamic")
TOLERANCE = 2e-3
"""Matmuls on the device add up in another order, and eager mode fuses nothing."""
_AT_ONCE = 6


# Any: the arguments and outputs of any model
def on_device(tree: Any) -> Any:
    return pytree.tree_map(lambda x: x.cuda() if isinstance(x, Tensor) else x, tree)


def tensors(outputs: Any) -> list[Tensor]:
    return [x for x in pytree.tree_leaves(outputs) if isinstance(x, Tensor)]


def same(found: Any, want: Any) -> None:
    mine, theirs = tensors(found), tensors(want)
    assert {x.device for x in mine} == {x.device for x in theirs}
    torch.testing.assert_close(mine, theirs, rtol=TOLERANCE, atol=TOLERANCE)


def here() -> str:
    major, minor = torch.cuda.get_device_capability()
    return f"sm_{major}{minor}"


def _build(folder: Path, name: str, shapes: str, archs: tuple[str, ...]) -> Path:
    package = folder / f"{name}-{shapes}-{len(archs)}.pt2"
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-m", "tests.cpp.gpu_worker", str(package), name, shapes, *archs],
        cwd=Path(__file__).parents[2],
        env={**os.environ, "CUDA_VISIBLE_DEVICES": "", "WRAPPER_IR_BUILD_JOBS": "4"},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        pytest.fail(f"{name}-{shapes}: {done.stderr[-3000:]}", pytrace=False)
    return package


Packages = dict[tuple[str, str, int], Future[Path]]


@pytest.fixture(scope="module")
def packages(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Packages]:
    """Packages that are built at the same time, by name, shapes and number of architectures."""
    folder = tmp_path_factory.mktemp("packages")
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        made: Packages = {
            ("mlp", "static", 2): pool.submit(_build, folder, "mlp", "static", (here(), "sm_80"))
        }
        made["gpt2", "persistent", 1] = pool.submit(_build, folder, "gpt2", "persistent", (here(),))
        for name in MODELS:
            for shapes in SHAPES:
                made[name, shapes, 1] = pool.submit(_build, folder, name, shapes, (here(),))
        yield made
        for future in made.values():
            future.cancel()


@pytest.mark.parametrize("shapes", SHAPES)
@pytest.mark.parametrize("name", MODELS)
def test_a_package_from_elsewhere_equals_eager(packages: Packages, name: str, shapes: str) -> None:
    package = packages[name, shapes, 1].result()
    case = ZOO[name]()
    program = cpp_wrapper.load(package)
    stock = torch._inductor.aoti_load_package(str(package))
    calls = [(case.args, case.kwargs or {}), *([case.other] if shapes == "dynamic" and case.other else [])]
    model = case.model.cuda()
    with torch.no_grad():
        for args, kwargs in map(on_device, calls):
            want = model(*args, **kwargs)
            same(program(*args, **kwargs), want)
            same(program(*args, **kwargs), want)
            same(stock(*args, **kwargs), want)


@pytest.mark.parametrize("name", ["mlp", "gpt2"])
def test_a_package_that_is_built_here_equals_eager(name: str, tmp_path: Path) -> None:
    case = ZOO[name]()
    args, kwargs = on_device(case.args), on_device(case.kwargs or {})
    model = case.model.cuda()
    package = cpp_wrapper.build(capture(model, args, kwargs), tmp_path / "m.pt2")
    with torch.no_grad():
        want = model(*args, **kwargs)
        same(cpp_wrapper.load(package)(*args, **kwargs), want)
        same(torch._inductor.aoti_load_package(str(package))(*args, **kwargs), want)


def test_one_package_for_two_architectures(packages: Packages) -> None:
    package = packages["mlp", "static", 2].result()
    case = ZOO["mlp"]()
    args = on_device(case.args)
    same(cpp_wrapper.load(package)(*args), case.model.cuda()(*args))


@pytest.mark.parametrize("shapes", ["static", "persistent"])
def test_streams_of_the_caller_threads_and_graphs(packages: Packages, shapes: str) -> None:
    """A call is queued on the caller's stream and does not wait; the caller's graphs capture it."""
    program = cpp_wrapper.load(packages["gpt2", shapes, 1].result())
    case = ZOO["gpt2"]()
    kwargs = on_device(case.kwargs)
    with torch.no_grad():
        want = case.model.cuda()(**kwargs)
    side = torch.cuda.Stream()  # type: ignore[no-untyped-call]  # torch's own
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        torch.cuda._sleep(200_000_000)  # type: ignore[no-untyped-call]  # torch's own
        found = program(**kwargs)
        assert not side.query()  # the call has returned, and its work is queued
    side.synchronize()
    same(found, want)
    failures: list[BaseException] = []

    def work() -> None:
        try:
            stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]  # torch's own
            with torch.cuda.stream(stream):
                for _ in range(50):
                    result = program(**kwargs)
                    stream.synchronize()
                    same(result, want)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures, failures[0]
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        recorded = program(**kwargs)
    for x in tensors(recorded):
        x.zero_()
    program(**kwargs)  # in other memory than the graph's
    graph.replay()
    torch.cuda.synchronize()
    same(recorded, want)


@pytest.mark.skipif(
    not (torch.distributed.is_available() and torch.distributed.is_nccl_available()), reason="needs NCCL"
)
@pytest.mark.parametrize("text", [REDUCED, *([] if since("2.13") else [GATHERED])])
def test_collectives(text: str, tmp_path: Path) -> None:
    """Collectives of one process: through the shim, and by the dispatcher if it accepts names of groups."""
    program = parse_program(f'wir 0.5\ntarget cuda:0 arch "{here()}"\n{HEAD}{text}')
    package = cpp_wrapper.build(bare_artifact(program), tmp_path / "m.so", FAST)
    store = f"file://{tmp_path}/store"
    torch.distributed.init_process_group("nccl", init_method=store, rank=0, world_size=1)
    try:
        x, f = torch.arange(4.0, device="cuda"), cpp_wrapper.load(package)
        side = torch.cuda.Stream()  # type: ignore[no-untyped-call]  # torch's own
        with torch.cuda.stream(side):
            (found,) = f(x)
        side.synchronize()
        assert torch.equal(found, x)
    finally:
        torch.distributed.destroy_process_group()


@pytest.mark.parametrize("rows", [2, 33, 100])
def test_descriptors_of_tensors(rows: int, tmp_path: Path) -> None:
    artifact = choices.program(choices.DESCRIBED, "cuda:0")
    x = torch.randn(rows, 48, device="cuda")
    (found,) = cpp_wrapper.load(cpp_wrapper.build(artifact, tmp_path / "m.so", FAST))(x)
    torch.testing.assert_close(found, 2 * x)


def test_sizes_choose_among_kernels(tmp_path: Path) -> None:
    program = cpp_wrapper.load(
        cpp_wrapper.build(choices.program(choices.choosing(by_sizes=True), "cuda:0"), tmp_path / "m.so", FAST)
    )
    for count in (2, 16, 100, 1024, 4096):
        x = torch.randn(count, device="cuda")
        torch.testing.assert_close(program(x)[0], 2 * x)


def test_values_are_shown_and_saved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    text = "func @main(%x: f32[3]) {\n  debug print %x\n  debug save %x\n  return %x\n}\n"
    program = parse_program(f'wir 0.5\ntarget cuda:0 arch "{here()}"\n{text}')
    f = cpp_wrapper.load(cpp_wrapper.build(bare_artifact(program), tmp_path / "m.so", FAST))
    monkeypatch.chdir(tmp_path)
    f(torch.tensor([1.5, 2.5, 3.5], device="cuda"))
    assert capfd.readouterr().out == "x\n  f32[3] strides [1] on cuda:0\n  [1.5, 2.5, 3.5]\n"
    (file,) = tmp_path.glob("*.safetensors")
    assert torch.frombuffer(bytearray(file.read_bytes()[-12:]), dtype=torch.float32).tolist() == [
        1.5,
        2.5,
        3.5,
    ]


@pytest.mark.skipif(shutil.which("cmake") is None, reason="needs cmake")
def test_a_program_without_python(packages: Packages, tmp_path: Path) -> None:
    build, example = tmp_path / "build", Path(__file__).parents[2] / "examples" / "cpp_runner"
    options = (
        f"-DCMAKE_PREFIX_PATH={cpp_wrapper.cmake_prefix_path()}",
        f"-DTORCH_LIBRARY_DIR={torch_library_dir()}",
    )
    for step in (("-S", str(example), "-B", str(build), *options), ("--build", str(build))):
        subprocess.run(["cmake", *step], check=True)
    case = ZOO["gpt2"]()
    (ids,) = tensors(case.kwargs)
    (tmp_path / "ids").write_bytes(ids.numpy().tobytes())
    package = packages["gpt2", "static", 1].result()
    sizes = [str(n) for n in ids.shape]
    command: list[str | Path] = [
        build / "run_package",
        "--device",
        "cuda:0",
        package,
        tmp_path / "y",
        tmp_path / "ids",
        *sizes,
    ]
    subprocess.run(command, check=True)
    found = torch.frombuffer(bytearray((tmp_path / "y").read_bytes()), dtype=torch.float32)
    with torch.no_grad():
        (want,) = tensors(case.model.cuda()(**on_device(case.kwargs)))
    torch.testing.assert_close(found.view(want.shape), want.cpu(), rtol=TOLERANCE, atol=TOLERANCE)


def test_memory_is_flat(packages: Packages) -> None:
    package = packages["mlp", "static", 1].result()
    args = on_device(ZOO["mlp"]().args)
    program = cpp_wrapper.load(package)
    program(*args)
    before = torch.cuda.memory_allocated()
    for _ in range(200):
        program(*args)
    assert torch.cuda.memory_allocated() == before
    other = cpp_wrapper.load(package)
    del other, program
    assert torch.cuda.memory_allocated() <= before


def test_streams_of_the_program(tmp_path: Path) -> None:
    x, w = (torch.randn(512, 512, device="cuda:0") for _ in range(2))
    program = cpp_wrapper.load(
        cpp_wrapper.build(bare_artifact(parse_program(STREAMS)), tmp_path / "m.so", FAST)
    )
    for _ in range(20):
        sums, host, counts = program(x, w)
        torch.testing.assert_close(sums, x @ w + w @ x)
        torch.testing.assert_close(host, (x @ w + w @ x).cpu())
        assert not counts.any()


def test_wrong_inputs_are_named(packages: Packages) -> None:
    package = packages["mlp", "static", 1].result()
    (x,) = on_device(ZOO["mlp"]().args)
    program, stock = cpp_wrapper.load(package), torch._inductor.aoti_load_package(str(package))
    with pytest.raises(Exception, match=r"on cuda:0, got .* on cpu"):
        program(x.cpu())
    with pytest.raises(RuntimeError):
        stock(x.cpu())
    same(program(x), stock(x))


def test_as_the_emitter_of_torch_compile(tmp_path: Path) -> None:
    case = ZOO["mlp"]()
    model, args = case.model.cuda(), on_device(case.args)
    compiled = torch.compile(model, backend="wrapper_ir", options={"emitter": "cpp", "cache": str(tmp_path)})
    for run in (model, compiled):
        model.zero_grad()
        run(*args).square().mean().backward()
        grads = [p.grad.clone() for p in model.parameters() if p.grad is not None]
        if run is model:
            want = grads
    torch.testing.assert_close(grads, want, rtol=TOLERANCE, atol=TOLERANCE)
