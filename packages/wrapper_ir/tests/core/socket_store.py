"""A store over a socket, as a launcher without torch could provide: one line of JSON per request and
answer."""

from __future__ import annotations

import base64
import json
import socket
import socketserver
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from packages.wrapper_ir.tests.core.store_bus import Bus


class _Handler(socketserver.StreamRequestHandler):
    """Serves the requests of one client in order."""

    def handle(self) -> None:
        """Answers until the client disconnects."""
        assert isinstance(self.server, _Server)
        store = self.server.bus.store(0)
        for line in self.rfile:
            request = json.loads(line)
            key: str = request["key"]
            answer: int | str | None = None
            match request["do"]:
                case "add":
                    answer = store.add(key, request["amount"])
                case "set":
                    store.set(key, base64.b64decode(request["value"]))
                case "has":
                    answer = store.has(key)
                case "get":
                    with suppress(TimeoutError):  # the answer is null then
                        answer = base64.b64encode(store.get(key)).decode()
                case unknown:
                    raise ValueError(f"no such request: {unknown}")
            self.wfile.write(json.dumps(answer).encode() + b"\n")


class _Server(socketserver.ThreadingTCPServer):
    daemon_threads = True
    request_queue_size = 1024

    def __init__(self, bus: Bus) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.bus = bus


class SocketStore:
    """See `wrapper_ir_runtime.GroupStore`."""

    def __init__(self, port: int, rank: int, size: int) -> None:
        self.rank, self.size = rank, size
        self._socket = socket.create_connection(("127.0.0.1", port))
        self._answers = self._socket.makefile("rb")

    def _ask(self, do: str, key: str, **more: object) -> object:
        self._socket.sendall(json.dumps({"do": do, "key": key, **more}).encode() + b"\n")
        answer: object = json.loads(self._answers.readline())
        return answer

    def add(self, key: str, amount: int) -> int:
        """See `GroupStore`."""
        return int(str(self._ask("add", key, amount=amount)))

    def set(self, key: str, value: bytes) -> None:
        """See `GroupStore`."""
        self._ask("set", key, value=base64.b64encode(value).decode())

    def has(self, key: str) -> bool:
        """See `GroupStore`."""
        return self._ask("has", key) is True

    def get(self, key: str) -> bytes:
        """See `GroupStore`."""
        answer = self._ask("get", key)
        if answer is None:
            raise TimeoutError(key)
        return base64.b64decode(str(answer))

    def close(self) -> None:
        """Ends the connection."""
        self._answers.close()
        self._socket.close()


@contextmanager
def serve(bus: Bus) -> Iterator[int]:
    """Serves a bus and yields its port."""
    with _Server(bus) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield int(server.server_address[1])
        finally:
            server.shutdown()
            thread.join()
