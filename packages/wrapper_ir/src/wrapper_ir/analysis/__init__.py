"""Analyses of programs: one module each; `memo.Analyses` keeps their results for a program."""
