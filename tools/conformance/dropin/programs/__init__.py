"""The programs, a file a feature."""
