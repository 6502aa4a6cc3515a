"""The second level: the same layout at any fsspec URL, read and never written."""

from __future__ import annotations

import threading
import warnings
from dataclasses import dataclass, field

from triton_runtime.store.entry import EntryKind
from triton_runtime.store.folder import entry_name

__all__ = ["SharedLevel"]


@dataclass(slots=True)
class SharedLevel:
    """Entries below a URL (`file:///nfs/kernels`, `s3://bucket/kernels`, ...): copy a store's folder there to share it.

    A place that cannot be reached is reported once, and not asked again: every kernel would wait for it.
    """

    url: str
    _lost: bool = field(default=False, init=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, init=False)

    def read(self, kind: EntryKind, key: str) -> bytes | None:
        """The bytes of an entry, None where there is none."""
        if self._lost:
            return None
        import fsspec  # only who has a second level pays for it

        try:
            # fsspec has no type information for the file systems it finds by the URL's scheme
            files, root = fsspec.core.url_to_fs(self.url)
            data = files.cat_file(f"{root.rstrip('/')}/{entry_name(kind, key)}")
        except FileNotFoundError:
            return None
        except Exception as error:  # a plug-in's own exceptions, which have no common base
            self._give_up(error)
            return None
        return bytes(data)

    def _give_up(self, error: Exception) -> None:
        with self._lock:
            if self._lost:
                return
            self._lost = True
        warnings.warn(
            f"[TR403] the shared cache {self.url} cannot be read ({type(error).__name__}: {error}); "
            "going on without it",
            RuntimeWarning,
            stacklevel=2,
        )
