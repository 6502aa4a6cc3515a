"""Random operators that draw once: later runs and other programs reuse the draws of the first run."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from wrapper_ir import ir
from wrapper_ir.plugins.protocols import Machine


@dataclass(frozen=True, slots=True)
class Draw:
    """The outcome of one call of a random operator: the contents of arguments that it wrote, and its result.

    `same_as` is an index if the result is one of these arguments.
    """

    contents: tuple[object, ...]
    result: object
    same_as: int | None


class RandomCalls:
    """The `call` hook of one interpreter. `draws` may be shared; `at` is the index of the next draw."""

    def __init__(self, machine: Machine[Any], draws: list[Draw]) -> None:  # Any: its tensors
        self._machine = machine
        self._draws = draws
        self.at = 0

    def __call__(
        self,
        extern: ir.ExternDef,
        args: Sequence[object],
        kwargs: Mapping[str, object],
        call: Callable[[], object],
    ) -> object:
        """Draws, or replays a recorded draw; calls any other operator directly."""
        if ir.ExternTag.RANDOM not in extern.tags:
            return call()
        targets = _written(extern, args, kwargs)
        position, self.at = self.at, self.at + 1
        if position < len(self._draws):
            return self._replay(self._draws[position], targets)
        result = call()
        same = next((i for i, t in enumerate(targets) if t is result), None)
        copy = None if same is not None else self._copy(result)
        self._draws.append(Draw(tuple(map(self._machine.clone, targets)), copy, same))
        return result

    def _replay(self, draw: Draw, targets: Sequence[object]) -> object:
        for target, content in zip(targets, draw.contents, strict=True):
            self._machine.copy(target, content, False)
        return self._copy(draw.result) if draw.same_as is None else targets[draw.same_as]

    def _copy(self, result: object) -> object:
        match result:
            case list() | tuple():
                return type(result)(map(self._copy, result))
            case _:
                return self._machine.clone(result) if self._machine.is_tensor(result) else result


def _written(extern: ir.ExternDef, args: Sequence[object], kwargs: Mapping[str, object]) -> list[object]:
    schema = ir.ExternInfo.of(extern).schema
    by_position = [a for a in schema.args if not a.keyword_only]
    bound = [*zip(by_position, args), *((schema.argument(name), value) for name, value in kwargs.items())]
    return [value for arg, value in bound if arg.written and value is not None]
