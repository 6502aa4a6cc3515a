"""Read-only roots: folders, and URLs that fsspec supports."""

from __future__ import annotations

import threading
import warnings
from dataclasses import dataclass, field
from pathlib import Path

from wrapper_ir.errors import StoreWarning
from wrapper_ir_runtime.cache.level import relative_folder
from wrapper_ir_runtime.cache.manifest import MANIFEST, check_bytes, parse_manifest


@dataclass(slots=True)
class SharedLevel:
    """Entries below a folder or a URL (`file:///nfs/kernels`, `s3://bucket/kernels`).

    To share a cache, copy its folder there. A root that cannot be reached is reported once (WIR255) and not
    queried again, since every entry would wait for it.
    """

    root: str
    _lost: bool = field(default=False, init=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, init=False)

    def fetch(self, namespace: str, name: str) -> dict[str, bytes] | None:
        """Returns the files of an entry, or None if it does not exist. Raises DamagedEntry."""
        folder = relative_folder(namespace, name)
        manifest = self._read(f"{folder}/{MANIFEST}")
        if manifest is None:
            return None
        described = parse_manifest(manifest, name)
        files: dict[str, bytes] = {}
        for file in described:
            data = self._read(f"{folder}/{file}")
            check_bytes(file, data or b"", described)
            files[file] = data or b""
        return files

    def _read(self, path: str) -> bytes | None:
        if self._lost:
            return None
        try:
            return self._read_url(path) if "://" in self.root else Path(self.root, path).read_bytes()
        except FileNotFoundError:
            return None
        except Exception as error:  # exceptions of plug-ins have no common base
            self._give_up(error)
            return None

    def _read_url(self, path: str) -> bytes:
        import fsspec  # optional: needed only for URLs

        # fsspec has no types for file systems that it selects by the URL's scheme
        files, root = fsspec.core.url_to_fs(self.root)
        return bytes(files.cat_file(f"{root.rstrip('/')}/{path}"))

    def _give_up(self, error: Exception) -> None:
        with self._lock:
            if self._lost:
                return
            self._lost = True
        way = "; pip install 'wrapper-ir-runtime[shared]'" if isinstance(error, ImportError) else ""
        message = f"the shared cache {self.root} cannot be read ({type(error).__name__}: {error}{way})"
        warnings.warn(StoreWarning("WIR255", f"{message}; going on without it"), stacklevel=2)
