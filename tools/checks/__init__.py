"""Rules specific to this repository. `python -m tools.checks` runs them all (`make lint`)."""
