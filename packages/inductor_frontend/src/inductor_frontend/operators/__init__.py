"""Extern nodes as calls of operators: arguments, results, and sizes that only a call knows."""
