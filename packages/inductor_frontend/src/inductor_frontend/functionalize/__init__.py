"""Converts an exported program to a functional graph, with the data of its signature."""
