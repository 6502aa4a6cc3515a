"""Writes the generated pages of the documentation: `python -m tools.docs` (`make docs`)."""
