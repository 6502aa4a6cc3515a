"""The function being built: maps Inductor's names to values, sizes, constants and streams of a program."""
