"""Kernel definitions as typed data.

A definition is self-contained: a runtime compiles and launches it without other lookups. Its identity is
`wrapper_ir.json.kernel_hash.content_hash`, a hash over everything except the name.
"""
