"""Translates a recording to a program, event by event."""
