"""Rules of this repository that no general tool knows. `python -m tools.checks` runs them all (`make lint`)."""
