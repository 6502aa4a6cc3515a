"""Rules from ops to steps: one function per class, one file per family."""
