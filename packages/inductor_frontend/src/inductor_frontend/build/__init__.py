"""From recorded events to a program: one file for each kind of event."""

from inductor_frontend.build.constant_table import ConstantRole
from inductor_frontend.build.program import BuildContext, GraphProgram, build_program

__all__ = ["BuildContext", "ConstantRole", "GraphProgram", "build_program"]
