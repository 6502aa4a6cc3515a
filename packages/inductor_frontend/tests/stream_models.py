"""Models that enter streams, and order them in each of torch's ways."""

from __future__ import annotations

from typing import Any

import torch


# Any: torch's classes are untyped
def stream(priority: int = 0) -> Any:
    return torch.cuda.Stream(priority=priority)  # type: ignore[no-untyped-call]


def event() -> Any:
    return torch.cuda.Event()  # type: ignore[no-untyped-call]


def beside(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    side = stream()
    done = event()
    start = torch.relu(x)
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        left = start.sin() @ w
        done.record()
    right = start.cos() @ w
    done.wait()
    return left + right


class Branches(torch.nn.Module):
    """Two streams write the parts of one result; a buffer is written once they have met."""

    seen: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        self.layers = torch.nn.ModuleList(torch.nn.Linear(8, 8) for _ in range(2))
        self.register_buffer("seen", torch.zeros(8))

    def forward(self, x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        found = []
        streams = [stream() for _ in self.layers]
        for side, layer in zip(streams, self.layers):
            side.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(side):
                found.append(layer(x).relu())
        for side in streams:
            torch.cuda.current_stream().wait_stream(side)
        self.seen.add_(found[0].sum(0))
        return torch.cat(found, 1) @ torch.cat([w, w])


def read_elsewhere_alone(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    side, done = stream(), event()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        left = x.sin() @ w
        done.record()
    done.wait()
    return left.cos()


def to_and_fro(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    side, current = stream(), torch.cuda.current_stream()
    for _ in range(3):
        x = x.sin()
        side.wait_stream(current)
        with torch.cuda.stream(side):
            x = (x @ w).relu()
        current.wait_stream(side)
    return x


def of_two_events(x: torch.Tensor, w: torch.Tensor) -> tuple[torch.Tensor, ...]:
    side, begun, done = stream(), event(), event()
    a = x.sin() @ w
    begun.record()
    b = x.cos() @ w
    with torch.cuda.stream(side):
        side.wait_event(begun)
        c = a.relu() @ w
        done.record(side)
    d = b.tanh()
    torch.cuda.current_stream().wait_event(done)
    return c + 1, d, c @ d


def waited_for_by_the_host(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    side, done = stream(), event()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        a = x @ w
        done.record()
    done.synchronize()
    return a.cos()


def in_place(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    side, current = stream(), torch.cuda.current_stream()
    kept = torch.zeros_like(x)
    side.wait_stream(current)
    with torch.cuda.stream(side):
        kept.add_(x @ w)
    current.wait_stream(side)
    return kept.mul_(2)


def written_by_another(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    side, current = stream(), torch.cuda.current_stream()
    side.wait_stream(current)
    with torch.cuda.stream(side):
        x.add_(w)
    current.wait_stream(side)
    return x.sin()


PATTERNS = [
    beside,
    read_elsewhere_alone,
    to_and_fro,
    of_two_events,
    waited_for_by_the_host,
    in_place,
    written_by_another,
]
