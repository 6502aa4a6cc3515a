"""Builds the documentation site around the pages of `docs/`: `make site`."""
