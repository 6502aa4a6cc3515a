"""Modules that know nothing of programs: lazy imports, files, quoting, tokens, versions of stored forms."""
