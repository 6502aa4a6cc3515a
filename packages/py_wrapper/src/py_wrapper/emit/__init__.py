"""From a program to the text of a Python module.

| file           | what it writes                                                          |
| -------------- | ----------------------------------------------------------------------- |
| `program.py`   | the whole module                                                        |
| `header.py`    | its docstring, with the table of source ops and kernels                 |
| `prologue.py`  | what is done once, when the module is loaded                            |
| `helpers.py`   | small functions that it may need                                        |
| `function.py`  | one function of the program, with comments naming the source ops        |
| `table.py`     | which function writes which op                                          |
| `memory.py`, `calls.py`, `checks.py`, `control.py` | ops, by family                      |
| `signature.py` | `forward`, the model's own signature                                    |
| `examples.py`  | `example_inputs`, for the module as a script                            |
| `scope.py`, `module.py` | what is known while writing a function, and a module           |
| `names.py`, `writer.py` | Python names; lines and indentation                            |
"""
