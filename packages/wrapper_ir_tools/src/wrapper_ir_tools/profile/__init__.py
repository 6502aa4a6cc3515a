"""Measures the time of a program op by op.

The result is data, a table, a flame chart, or tables of metrics.
"""

from wrapper_ir_tools.profile.files import profile_json, profile_trace
from wrapper_ir_tools.profile.measure import ProfileOptions, bandwidth, profile_artifact
from wrapper_ir_tools.profile.metrics import write_metric_tables
from wrapper_ir_tools.profile.result import OpTime, Profile, Span
from wrapper_ir_tools.profile.text import profile_text
from wrapper_ir_tools.profile.timing import TimingMachine

__all__ = [
    "OpTime",
    "Profile",
    "ProfileOptions",
    "Span",
    "TimingMachine",
    "bandwidth",
    "profile_artifact",
    "profile_json",
    "profile_text",
    "profile_trace",
    "write_metric_tables",
]
