"""A profile as JSON, and as a flame chart for Perfetto, chrome://tracing and speedscope."""

from __future__ import annotations

import dataclasses
import json
from itertools import groupby

from wrapper_ir_tools.profile.result import OpTime, Profile, Span

_MICRO = 1e6


def profile_json(profile: Profile) -> str:
    """The profile as JSON; its schema is `schema/profile.schema.json`."""
    return json.dumps(dataclasses.asdict(profile), indent=2) + "\n"


def profile_trace(profile: Profile) -> str:
    """Formats the last call as a trace in Chrome's format: a slice for each run of an op, nested in slices of
    modules.

    Format: https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU
    """
    events = [
        _slice(profile.ops[s.op].name or profile.ops[s.op].op, s.begin, s.seconds, _facts(profile.ops[s.op]))
        for s in profile.spans
    ]
    return json.dumps(
        {"traceEvents": [*_modules(profile, profile.spans, 0), *events], "displayTimeUnit": "ns"}
    )


def _facts(op: OpTime) -> dict[str, object]:
    place = {
        "op": f"@{op.function} op {op.op_index}: {op.op}",
        "kernel": op.name,
        "source": ", ".join(op.source),
    }
    return {**place, "bytes": op.bytes, "device_seconds": op.device_seconds, "share": op.share}


def _modules(profile: Profile, spans: tuple[Span, ...], depth: int) -> list[dict[str, object]]:
    """Builds slices of modules: one for consecutive ops whose module path agrees up to this depth, with
    nested slices.
    """
    slices: list[dict[str, object]] = []
    for path, group in groupby(spans, lambda s: _path(profile.ops[s.op])[: depth + 1]):
        group_spans = tuple(group)
        if len(path) > depth:
            end = group_spans[-1].begin + group_spans[-1].seconds
            slices.append(_slice(".".join(path), group_spans[0].begin, end - group_spans[0].begin, {}))
            slices += _modules(profile, group_spans, depth + 1)
    return slices


def _path(op: OpTime) -> tuple[str, ...]:
    return tuple(op.modules[0].split(".")) if op.modules and op.modules[0] else ()


def _slice(name: str, begin: float, seconds: float, facts: dict[str, object]) -> dict[str, object]:
    times = {"ts": begin * _MICRO, "dur": seconds * _MICRO}
    return {"ph": "X", "name": name, "cat": "wir", "pid": 0, "tid": 0, **times, "args": facts}
