"""What the interpreter runs first in a process that a test starts (`conftest.py` puts this folder on its path).

Importing torch makes half a million objects, which Python's collector would walk some ten times then, and again at the end:
a third of the processor time of a process that does little else. It still collects, less often.
"""

from __future__ import annotations

import atexit
import gc

gc.set_threshold(50_000)
atexit.register(gc.freeze)
