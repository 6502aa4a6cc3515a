"""Random valid programs, for tests of all code that reads or changes programs."""

from wrapper_ir_tools.testing.generate import random_artifact, random_program
from wrapper_ir_tools.testing.world import RandomOptions

__all__ = ["RandomOptions", "random_artifact", "random_program"]
