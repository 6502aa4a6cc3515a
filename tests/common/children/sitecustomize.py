"""Runs first in a process that a test starts (`conftest.py` puts this folder on its path).

Importing torch creates half a million objects. Python's collector would then traverse them some ten times,
and again at the end: a third of the processor time of a small process. It still collects, less often.
"""

from __future__ import annotations

import atexit
import gc

gc.set_threshold(50_000)
atexit.register(gc.freeze)
