"""Draws a memory report as a PNG picture with the package Pillow (`wrapper-ir-tools[report]`)."""

from __future__ import annotations

import colorsys
import io
import zlib
from collections.abc import Callable

from wrapper_ir.errors import ReportError
from wrapper_ir_passes.analysis.stats import shown_bytes
from wrapper_ir_tools.report.memory import FunctionMemory, HeldStorage, MemoryReport

try:
    from PIL import Image, ImageDraw, ImageFont
except ImportError as error:
    raise ReportError(
        "WIR271", "a picture needs the package Pillow", hint="pip install 'wrapper-ir-tools[report]'"
    ) from error

_WIDTH, _HEIGHT = 1400, 900
_LEFT, _RIGHT = 110, 1380
_CURVE = (90, 290)
_MAP = (330, 850)
_PEAK, _LINE, _TEXT, _AREA = "#d03030", "#cccccc", "#222222", "#9db8ea"


def report_png(report: MemoryReport) -> bytes:
    """Draws main: bytes held during each op, and below it each storage over its ops and addresses. Marks the
    peak.
    """
    image = Image.new("RGB", (_WIDTH, _HEIGHT), "white")
    _Picture(ImageDraw.Draw(image), report).draw()
    out = io.BytesIO()
    image.save(out, "PNG")
    return out.getvalue()


class _Picture:
    def __init__(self, pen: ImageDraw.ImageDraw, report: MemoryReport) -> None:
        self.pen, self.report = pen, report
        self.main: FunctionMemory = report.functions[0]
        self.font = ImageFont.load_default(15)
        self.small = ImageFont.load_default(12)

    def draw(self) -> None:
        """Draws the whole picture."""
        main, report = self.main, self.report
        facts = (
            f"held {shown_bytes(report.held_peak)}",
            f"live {shown_bytes(report.live)}",
            f"bound {shown_bytes(report.bound)}",
            f"{report.allocations} allocations",
        )
        self.pen.text((_LEFT, 14), f"Memory of one call of @{main.name}", _TEXT, self.font)
        self.pen.text((_LEFT, 38), "   ".join(facts), _TEXT, self.small)
        y_of = self._axis(_CURVE, max(main.held))
        for at, n in enumerate(main.held):
            if n:
                self.pen.rectangle((self._x(at), y_of(n), self._x(at + 1), y_of(0)), _AREA)
        place = self._axis(_MAP, max((s.address + s.bytes for s in main.storages), default=0))
        for storage in sorted(main.storages, key=lambda s: s.kind == "pool"):
            self._storage(storage, place)
        self._peak()
        for part in range(9):
            at = len(main.held) * part // 8
            self.pen.text((self._x(at), _MAP[1] + 8), str(at), _TEXT, self.small, anchor="ma")
        self.pen.text(
            ((_LEFT + _RIGHT) / 2, _MAP[1] + 26), "ops in program order", _TEXT, self.small, anchor="ma"
        )

    def _x(self, at: float) -> float:
        return _LEFT + (_RIGHT - _LEFT) * at / max(1, len(self.main.held))

    def _axis(self, rows: tuple[int, int], most: int) -> Callable[[int], float]:
        """Draws the lines and labels of an axis of bytes; returns the function from bytes to its
        coordinate."""
        top, bottom = rows

        def place(n: int) -> float:
            return bottom - (bottom - top) * n / max(1, most)

        for quarter in range(5):
            n = most * quarter // 4
            self.pen.line((_LEFT, place(n), _RIGHT, place(n)), _LINE)
            label = shown_bytes(n).partition("(")[2].rstrip(")") or f"{n} B"
            self.pen.text((_LEFT - 8, place(n)), label, _TEXT, self.small, anchor="rm")
        return place

    def _storage(self, storage: HeldStorage, place: Callable[[int], float]) -> None:
        box = (
            self._x(storage.begin),
            place(storage.address + storage.bytes),
            self._x(storage.end),
            place(storage.address),
        )
        if storage.kind == "pool":
            self.pen.rectangle(box, None, _TEXT, 2)
        else:
            self.pen.rectangle(box, _color(storage), "#555555")
        name = f"%{storage.name}"
        if box[3] - box[1] < 14 or self.pen.textlength(name, self.small) > box[2] - box[0] - 6:
            return
        # its first slot has the other corner
        if storage.kind == "pool":
            self.pen.text((box[2] - 4, box[3] - 3), name, _TEXT, self.small, anchor="rs")
        else:
            self.pen.text((box[0] + 3, box[1] + 1), name, _TEXT, self.small)

    def _peak(self) -> None:
        at = self.main.peak_op
        x = self._x(at + 0.5)
        self.pen.line((x, _CURVE[0] - 10, x, _MAP[1]), _PEAK, 2)
        anchor, shift = ("rs", -6) if at > len(self.main.held) / 2 else ("ls", 6)
        label = f"peak {shown_bytes(self.main.held[at])} at op {at}"
        self.pen.text((x + shift, _CURVE[0] - 4), label, _PEAK, self.small, anchor=anchor)


def _color(storage: HeldStorage) -> tuple[int, int, int]:
    """One hue per module, the same in every picture."""
    key = (*storage.modules, storage.kind)[0]
    red, green, blue = colorsys.hls_to_rgb(zlib.crc32(key.encode()) % 360 / 360, 0.72, 0.6)
    return int(red * 255), int(green * 255), int(blue * 255)
