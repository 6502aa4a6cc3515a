"""Tunes kernels: measures candidates honestly, records every time, and chooses from the record alone."""

# Every module's own `__all__` says what is public; naming it here again would be a second list.
from triton_runtime.tune.candidates import *
from triton_runtime.tune.decide import *
from triton_runtime.tune.launch import *
from triton_runtime.tune.measure import *
from triton_runtime.tune.ranks import *
from triton_runtime.tune.record import *
from triton_runtime.tune.timers import *
from triton_runtime.tune.timing_cache import *
from triton_runtime.tune.tuner import *
