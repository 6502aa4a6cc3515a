"""A profile as a table for a terminal."""

from __future__ import annotations

from wrapper_ir.support.quoting import printable
from wrapper_ir_tools.profile.result import OpTime, Profile


def profile_text(profile: Profile, head: int | None = None) -> str:
    """Formats `head` ops, longest first, then the sum, the time of a call, and the measured limits."""
    ops = sorted(profile.ops, key=lambda op: -op.time)
    total = sum(op.time for op in ops)
    rows: list[tuple[str, ...]] = [("us", "%", "kB", "GB/s", "limit", "runs", "op", "source")]
    rows += [_row(op, total) for op in ops[:head]]
    widths = [max(map(len, column)) for column in zip(*rows)]
    lines = [
        "  ".join(c.ljust(w) if i > 5 else c.rjust(w) for i, (c, w) in enumerate(zip(row, widths))).rstrip()
        for row in rows
    ]
    limits = ", ".join(f"{device} {limit / 1e9:.1f} GB/s" for device, limit in profile.limits.items())
    lines.append(
        f"{total * 1e6:.1f} us in {len(ops)} ops, median of {profile.calls} calls; a call in the "
        f"interpreter takes {profile.seconds * 1e6:.1f} us"
    )
    if limits:
        lines.append(f"limit of a copy: {limits}")
    return "\n".join(lines) + "\n"


def _row(op: OpTime, total: float) -> tuple[str, ...]:
    rate = f"{op.bytes / op.time / 1e9:.1f}" if op.time else ""
    share = "" if op.share is None else f"{op.share:.0%}"
    part = f"{op.time / total:.1%}" if total else ""
    name = printable(op.name or op.op.lower())
    where = printable(op.source[0]) if op.source else ""
    return f"{op.time * 1e6:.1f}", part, f"{op.bytes / 1e3:.1f}", rate, share, str(op.count), name, where
