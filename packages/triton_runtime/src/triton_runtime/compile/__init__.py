"""Compiles a kernel with a config to a binary; the target device need not be present.

`job` describes a compilation, `compiler` runs it in this process, and `pool` runs it in worker processes.
`service` compiles many jobs at once, using a store first, and this process (`local`) until the workers are
ready.
"""
