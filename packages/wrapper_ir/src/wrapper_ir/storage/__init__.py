"""The `.wir` file: an artifact as a sealed zip whose entries can be mapped into memory.

`container` knows zip entries, alignment and the seal; `safetensors` the constants' entry; `files` how an artifact is
laid out over entries.
"""

from wrapper_ir.storage.files import LoadOptions, load, save

__all__ = ["LoadOptions", "load", "save"]
