"""The `.wir` file: an artifact as a sealed zip whose entries can be mapped into memory.

`container` knows zip entries, alignment and the seal; `signing` who wrote a file; `safetensors` the constants' entry;
`files` how an artifact is laid out over entries.
"""

from wrapper_ir.artifact.file.files import LoadOptions, load, save
from wrapper_ir.artifact.file.signing import sign

__all__ = ["LoadOptions", "load", "save", "sign"]
