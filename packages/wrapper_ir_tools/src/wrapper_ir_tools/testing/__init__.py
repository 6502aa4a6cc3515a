"""Random valid programs, for tests of everything that reads or changes programs."""

from wrapper_ir_tools.testing.generate import RandomOptions, random_artifact, random_program

__all__ = ["RandomOptions", "random_artifact", "random_program"]
