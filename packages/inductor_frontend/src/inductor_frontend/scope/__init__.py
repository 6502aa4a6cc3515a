"""The function being built: the names of Inductor as values, sizes, constants and streams of a program."""
