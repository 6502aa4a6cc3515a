"""From a model to an exported program, with all that its own signature says."""
