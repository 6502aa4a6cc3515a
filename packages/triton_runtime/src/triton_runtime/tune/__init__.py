"""Tunes kernels: measures candidates, records every time, and chooses from the measurements alone."""

from triton_runtime.tune.candidates import config_key, measured_config, neighbours, with_config
from triton_runtime.tune.decide import NOISE, decide, middle_mean
from triton_runtime.tune.launch import TunedLaunch
from triton_runtime.tune.measure import MeasureOptions, Timer, measure
from triton_runtime.tune.measurements import (
    Entry,
    Measurements,
    TuningKey,
    measurements_of,
    with_measurements,
)
from triton_runtime.tune.ranks import gather_over
from triton_runtime.tune.timers import HostTimer, StreamTimer, timer_for
from triton_runtime.tune.timing_cache import DeviceKey, Gather, Source, TimingCache
from triton_runtime.tune.tuner import LoadEach, TuneOptions, Tuner

__all__ = [
    "NOISE",
    "DeviceKey",
    "Entry",
    "Gather",
    "HostTimer",
    "LoadEach",
    "MeasureOptions",
    "Measurements",
    "Source",
    "StreamTimer",
    "Timer",
    "TimingCache",
    "TuneOptions",
    "TunedLaunch",
    "Tuner",
    "TuningKey",
    "config_key",
    "decide",
    "gather_over",
    "measure",
    "measured_config",
    "measurements_of",
    "middle_mean",
    "neighbours",
    "timer_for",
    "with_config",
    "with_measurements",
]
