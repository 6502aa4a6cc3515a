"""One cache on disk for all packages: entries by key, found whole or not at all, by any number of processes.

```python
store = open_cache(read_settings()).store("python")
with store.ensure(key, write_files) as entry:
    run(entry.folder / "main.py")
data = store.make(key, compute_bytes)
```

| module          | holds                                                                |
| --------------- | -------------------------------------------------------------------- |
| `settings.py`   | what the environment says                                            |
| `store.py`      | `Store`, the entries of one namespace, and `Cache`, all namespaces   |
| `level.py`      | one folder on a local disk: find, publish, remove, lock              |
| `places.py`     | which folder is read and which is written; owners                    |
| `manifest.py`   | what an entry says about its files, and whether they are those       |
| `shared.py`     | levels that are read and never written                               |
| `archive.py`    | entries as one file, for another cache                               |
| `eviction.py`   | what goes when the cache is too large                                |
| `statistics.py` | counts of this process and of all processes                          |
| `locks.py`      | locks that end with their process                                    |
"""

from wrapper_ir_runtime.cache.eviction import Trimmed
from wrapper_ir_runtime.cache.level import Entry
from wrapper_ir_runtime.cache.manifest import DamagedEntry
from wrapper_ir_runtime.cache.settings import CacheSettings, parse_size, read_settings
from wrapper_ir_runtime.cache.statistics import StoreStatistics
from wrapper_ir_runtime.cache.store import Cache, Store, open_cache

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
