"""Runs an emitted module as a script: creates inputs, calls the program and reports the time."""

from __future__ import annotations

import argparse
import inspect
import statistics
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

Namespace = dict[str, Any]  # Any: a module's globals
Call = Callable[[], Sequence[object]]


class Torch(Protocol):
    """The parts of the `torch` module, which the script passes, that are used here."""

    profiler: Any  # Any: a module

    def set_num_threads(self, threads: int, /) -> None:
        """Sets the number of threads that operators use."""


def run_script(module: Namespace, torch: Torch, argv: Sequence[str] | None = None) -> None:
    """Parses the command line and runs `module["boxed"]` on `module["example_inputs"]()`."""
    make: Callable[..., list[object]] = module["example_inputs"]
    options = _parser(module, make).parse_args(argv)
    symbols = {name: getattr(options, name) for name in _symbols(make)}  # one option a symbol
    if options.threads:
        torch.set_num_threads(options.threads)
    inputs = make(options.seed, **symbols)

    def call() -> Sequence[object]:
        results: Sequence[object] = module["boxed"](list(inputs))
        return results

    for number, result in enumerate(call()):
        print(f"result {number}: {_describe(result)}")
    times = _times(call, options.repeat)
    print(
        f"{len(times)} calls: best {min(times):.2f} us, median {statistics.median(times):.2f} us, "
        f"worst {max(times):.2f} us"
    )
    if options.profile:
        _profile(module, torch, call, options)


def _parser(module: Namespace, make: Callable[..., list[object]]) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        description=module.get("__doc__"), formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--repeat", type=int, default=100, help="calls to time (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="seed of the inputs (default: %(default)s)")
    parser.add_argument("--threads", type=int, default=0, help="threads of operators (default: torch's own)")
    parser.add_argument(
        "--profile", action="store_true", help="profile with a range for every kernel and operator"
    )
    parser.add_argument(
        "--trace", default="", metavar="FILE", help="with --profile: write a trace for a viewer"
    )
    for name, default in _symbols(make).items():
        parser.add_argument(
            f"--{name}", type=type(default), default=default, help="size (default: %(default)s)"
        )
    return parser


def _symbols(make: Callable[..., list[object]]) -> dict[str, int | float]:
    parameters = inspect.signature(make).parameters
    return {name: p.default for name, p in parameters.items() if name != "seed"}


def _times(call: Call, repeat: int) -> list[float]:
    """Returns the microseconds of each call, after three warm-up calls."""
    for _ in range(3):
        call()
    times: list[float] = []
    for _ in range(max(1, repeat)):
        start = time.perf_counter()
        call()
        times.append((time.perf_counter() - start) * 1e6)
    return times


def _describe(result: object) -> str:
    shape = getattr(result, "shape", None)  # a tensor of any library
    if shape is None:
        return repr(result)
    return f"{getattr(result, 'dtype', '')} {list(shape)}"  # a tensor


def _ranged(name: str, function: Callable[..., object], torch: Torch) -> Callable[..., object]:
    def call(*args: object, **kwargs: object) -> object:
        scope: AbstractContextManager[object] = torch.profiler.record_function(name)
        with scope:
            return function(*args, **kwargs)

    return call


def _profile(module: Namespace, torch: Torch, call: Call, options: argparse.Namespace) -> None:
    """Profiles calls, with a range for each kernel and each operator of the module."""
    kernels: dict[str, object] = module.get("kernels", {})
    names = {name for name, value in module.items() if any(value is k for k in kernels.values())}
    names |= {name for name, value in module.items() if type(value).__name__ == "OpOverload"}
    plain = {name: module[name] for name in names}
    module.update({name: _ranged(name, function, torch) for name, function in plain.items()})
    try:
        with torch.profiler.profile() as profile:
            for _ in range(max(1, min(options.repeat, 100))):
                call()
    finally:
        module.update(plain)
    print(profile.key_averages().table(sort_by="self_cpu_time_total", row_limit=30, max_name_column_width=70))
    if options.trace:
        profile.export_chrome_trace(options.trace)
        print(f"trace: {options.trace}")
