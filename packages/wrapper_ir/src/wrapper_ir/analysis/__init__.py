"""Analyses of programs, one module each; `memo.Analyses` caches their results for a program."""
