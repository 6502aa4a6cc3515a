"""Lists the places where Inductor may write wrapper text, and their handling by capture: `python -m
tools.inventory`.
"""
