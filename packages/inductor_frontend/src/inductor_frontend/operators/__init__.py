"""Translates extern nodes to calls of operators: arguments, results, and sizes that only the call
determines."""
