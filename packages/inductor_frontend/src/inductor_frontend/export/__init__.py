"""Exports a model, and preserves its call signature."""
