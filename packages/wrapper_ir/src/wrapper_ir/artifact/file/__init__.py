"""The `.wir` file: an artifact as a sealed zip whose entries can be mapped into memory.

`container` has zip entries, alignment and the seal; `signing` signatures; `safetensors` the entry of
constants; `files` the layout of an artifact over entries.
"""

from wrapper_ir.artifact.file.files import LoadOptions, load, save
from wrapper_ir.artifact.file.signing import sign

__all__ = ["LoadOptions", "load", "save", "sign"]
