"""Kernel definitions as typed data.

A definition holds all that a runtime needs to compile and launch: nothing is looked up elsewhere. Its identity is
`wrapper_ir.json.kernel_hash.content_hash`, a hash over everything but the name.
"""
