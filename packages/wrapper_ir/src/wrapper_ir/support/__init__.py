"""Utilities independent of programs: lazy imports, files, quoting, tokens, versions of stored forms."""
