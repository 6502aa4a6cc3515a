"""What the documentation site adds to the pages of `docs/`: `make site`."""
