"""On-disk cache of all packages, shared by any number of processes. An entry is found complete or not at all.

```python
store = open_cache(read_settings()).store("python")
with store.ensure(key, write_files) as entry:
    run(entry.folder / "main.py")
data = store.make(key, compute_bytes)
```

| module          | contents                                                             |
| --------------- | -------------------------------------------------------------------- |
| `settings.py`   | configuration from the environment                                   |
| `store.py`      | `Store`, the entries of one namespace, and `Cache`, all namespaces   |
| `process.py`    | `open_cache`, one cache of the process for each configuration        |
| `level.py`      | one folder on a local disk: find, publish, remove, lock              |
| `places.py`     | selection of folders to read and to write, by owner                  |
| `manifest.py`   | sizes and hashes of an entry's files, and their verification         |
| `shared.py`     | read-only levels                                                     |
| `archive.py`    | entries as one file, for another cache                               |
| `eviction.py`   | removal of entries when the cache is too large                       |
| `statistics.py` | counts of this process and of all processes                          |
| `locks.py`      | locks that are released when their process ends                      |
"""

from wrapper_ir_runtime.cache.eviction import Trimmed
from wrapper_ir_runtime.cache.level import Entry
from wrapper_ir_runtime.cache.manifest import DamagedEntry
from wrapper_ir_runtime.cache.process import open_cache
from wrapper_ir_runtime.cache.settings import CacheSettings, parse_size, read_settings
from wrapper_ir_runtime.cache.statistics import StoreStatistics
from wrapper_ir_runtime.cache.store import Cache, Store

__all__ = [
    "Cache",
    "CacheSettings",
    "DamagedEntry",
    "Entry",
    "Store",
    "StoreStatistics",
    "Trimmed",
    "open_cache",
    "parse_size",
    "read_settings",
]
