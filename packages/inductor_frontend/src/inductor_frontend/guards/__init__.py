"""What a program checks: the guards of the trace, the checks of the model, and the symbols that both are about."""
