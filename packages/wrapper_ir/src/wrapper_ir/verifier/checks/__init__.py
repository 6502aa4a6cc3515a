"""The named checks, one a file, in the order in which they run."""

from wrapper_ir.verifier.checks.calls import Calls
from wrapper_ir.verifier.checks.collectives import Collectives
from wrapper_ir.verifier.checks.definitions import Definitions
from wrapper_ir.verifier.checks.externs import Externs, check_externs
from wrapper_ir.verifier.checks.initialised import Initialised
from wrapper_ir.verifier.checks.kernel_defs import check_kernels
from wrapper_ir.verifier.checks.kernels import Kernels
from wrapper_ir.verifier.checks.layout import LayoutCheck
from wrapper_ir.verifier.checks.lifetimes import Lifetimes
from wrapper_ir.verifier.checks.pools import Pools
from wrapper_ir.verifier.checks.program import check_program
from wrapper_ir.verifier.checks.replay import Replay
from wrapper_ir.verifier.checks.resized import Resized
from wrapper_ir.verifier.checks.scopes import Scopes
from wrapper_ir.verifier.checks.shapes import Shapes
from wrapper_ir.verifier.checks.sizes import Sizes
from wrapper_ir.verifier.checks.slot_items import SlotItems
from wrapper_ir.verifier.checks.streams import Streams
from wrapper_ir.verifier.checks.structure import Structure, check_calls
from wrapper_ir.verifier.checks.symbols import Symbols
from wrapper_ir.verifier.checks.symmetric import Symmetric
from wrapper_ir.verifier.checks.symmetric_arguments import SymmetricArguments
from wrapper_ir.verifier.checks.types import Types

__all__ = ["FIRST", "SECOND", "check_calls", "check_externs", "check_kernels", "check_program"]

FIRST = (Structure, Definitions, Types, Symbols, Scopes)
"""Checks that assume nothing about the function."""

SECOND = (
    Sizes,
    LayoutCheck,
    SlotItems,
    Lifetimes,
    Initialised,
    Resized,
    Kernels,
    Externs,
    Shapes,
    Calls,
    Streams,
    Collectives,
    Pools,
    Symmetric,
    SymmetricArguments,
    Replay,
)
"""Checks that use the alias analysis, which assumes that definitions are valid."""
