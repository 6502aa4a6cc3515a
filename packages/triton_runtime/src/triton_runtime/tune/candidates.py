"""The configs among which a tuner chooses, and their names in records."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

from triton_runtime.errors import TuningError
from wrapper_ir import ir
from wrapper_ir.expr import print_expr

_MAX_WARPS = 32
_MAX_STAGES = 8


def config_key(config: ir.TritonConfig) -> str:
    """A text that identifies a config: `XBLOCK=128 warps=4 stages=1`."""
    parts = [f"{name}={_text(value)}" for name, value in config.meta]
    parts += [f"warps={config.num_warps}", f"stages={config.num_stages}"]
    parts += [f"{name}:{_text(value)}" for name, value in config.options]
    parts += [f"grid({', '.join(map(print_expr, config.grid))})"] if config.grid else []
    return " ".join(parts)


def _text(value: ir.ConstantValue) -> str:
    if isinstance(value, tuple):
        return f"({','.join(map(_text, value))})"
    return value.value if isinstance(value, ir.DType) else repr(value)


def config_of(kernel: ir.TritonKernel, key: str) -> ir.TritonConfig | None:
    """The config with the name `key`: one of the kernel's, or one with other numbers; otherwise None."""
    numbers = {}
    for part in key.split():
        name, _, value = part.partition("=")
        if value.isdecimal():
            numbers[name] = int(value)
    for listed in kernel.configs:
        meta = tuple(
            (n, v if isinstance(v, bool | str | None) else numbers.get(n, v)) for n, v in listed.meta
        )
        warps, stages = numbers.get("warps", 0), numbers.get("stages", 0)
        candidate = dataclasses.replace(listed, meta=meta, num_warps=warps, num_stages=stages)
        if config_key(candidate) == key:
            return candidate
    return None


def measured_config(kernel: ir.TritonKernel, key: str) -> ir.TritonConfig:
    """The config of measurements with the name `key`. Raises TuningError TR601 if the kernel lacks it."""
    config = config_of(kernel, key)
    if config is None:
        raise TuningError(
            "TR601", f"the measurements have a config that @{kernel.name} does not: {key}", hint="tune again"
        )
    return config


def with_config(kernel: ir.TritonKernel, config: ir.TritonConfig) -> ir.TritonKernel:
    """The kernel with only this config."""
    return dataclasses.replace(kernel, configs=(config,), derive=())


def neighbours(config: ir.TritonConfig) -> Iterator[ir.TritonConfig]:
    """Configs that differ in one number, for coordinate descent, in a fixed order.

    A meta-parameter or the warps are doubled or halved, or a stage is added or removed.
    """
    for i, (name, value) in enumerate(config.meta):
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            continue
        for other in (value * 2, value // 2):
            if other >= 1 and other != value:
                meta = (*config.meta[:i], (name, other), *config.meta[i + 1 :])
                yield dataclasses.replace(config, meta=meta)
    for warps in (config.num_warps * 2, config.num_warps // 2):
        if 1 <= warps <= _MAX_WARPS:
            yield dataclasses.replace(config, num_warps=warps)
    for stages in (config.num_stages + 1, config.num_stages - 1):
        if 1 <= stages <= _MAX_STAGES:
            yield dataclasses.replace(config, num_stages=stages)
