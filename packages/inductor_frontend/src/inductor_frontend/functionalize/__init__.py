"""From an exported program to a functional graph, and what a signature says around it."""
