"""Run-time checks of a program: the guards of the trace, the assertions of the model, and their symbols."""
