"""The cache on disk of compiled kernels, tuning records and choices: found whole or not at all, by any process."""

from triton_runtime.store.entry import EntryKind
from triton_runtime.store.statistics import StoreStatistics
from triton_runtime.store.store import Store, StoreOptions

__all__ = ["EntryKind", "Store", "StoreOptions", "StoreStatistics"]
