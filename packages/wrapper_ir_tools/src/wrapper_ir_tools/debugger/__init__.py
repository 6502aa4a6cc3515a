"""Programs under control: stepping, hunting bad values, comparing runs, replaying parts, shrinking failures.

Everything here runs on the interpreter and its machines, so that it works on an artifact alone.
"""
