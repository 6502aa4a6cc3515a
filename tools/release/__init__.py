"""Builds, checks and tags releases of the packages: `python -m tools.release`."""
