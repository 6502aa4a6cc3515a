"""Writes a program as the text of a Python module.

| file           | content                                                                 |
| -------------- | ----------------------------------------------------------------------- |
| `program.py`   | the whole module                                                        |
| `header.py`    | its docstring, with the table of source ops and kernels                 |
| `prologue.py`  | code that runs once, when the module is loaded                          |
| `helpers.py`   | small functions that a module may need                                  |
| `function.py`  | one function of the program, with comments naming the source ops        |
| `table.py`     | table of the modules that write each family of steps                    |
| `memory.py`, `calls.py`, `checks.py`, `control.py` | ops, by family                      |
| `signature.py` | `forward`, with the model's signature                                   |
| `examples.py`  | `example_inputs`, for the module as a script                            |
| `scope.py`, `module.py` | state while writing a function, and a module                   |
| `names.py`, `writer.py` | Python names; lines and indentation                            |
"""
