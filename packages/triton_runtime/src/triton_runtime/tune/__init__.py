"""Tunes kernels: measures candidates, records every time, and chooses from the measurements alone."""

from triton_runtime.tune.candidates import config_key, config_of, neighbours, with_config
from triton_runtime.tune.decide import NOISE, Decision, decide, error_of_mean, middle_mean
from triton_runtime.tune.launch import TunedLaunch
from triton_runtime.tune.measure import MeasureOptions, Timer, attempt, measure, reason
from triton_runtime.tune.measurements import (
    Entry,
    Measurements,
    TuningKey,
    measurements_of,
    with_measurements,
)
from triton_runtime.tune.ranks import gather_over
from triton_runtime.tune.timers import TIMERS, HostTimer, StreamTimer, timer_for
from triton_runtime.tune.timing_cache import DeviceKey, Gather, Source, TimingCache
from triton_runtime.tune.tuner import Derive, LoadEach, TuneOptions, Tuner

__all__ = [
    "NOISE",
    "TIMERS",
    "Decision",
    "Derive",
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
    "attempt",
    "config_key",
    "config_of",
    "decide",
    "error_of_mean",
    "gather_over",
    "measure",
    "measurements_of",
    "middle_mean",
    "neighbours",
    "reason",
    "timer_for",
    "with_config",
    "with_measurements",
]
