"""A program with its constants, calling convention, kernels and texts; its file is in `file/`."""

from wrapper_ir.artifact.model import *
