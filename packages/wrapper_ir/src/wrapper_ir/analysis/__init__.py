"""Analyses of programs: liveness, statistics."""

from wrapper_ir.analysis.liveness import Liveness, analyse_liveness

__all__ = ["Liveness", "analyse_liveness"]
