"""Emits a program as C++ source without torch's headers: it calls torch's stable C shim.

| file            | contents                                                              |
| --------------- | --------------------------------------------------------------------- |
| `program.py`    | all files of a library                                                |
| `function.py`   | one function of the program, in parts of a bounded length             |
| `table.py`      | the writer of each family of steps                                    |
| `memory.py`, `calls.py`, `checks.py`, `control.py` | steps, by family                   |
| `debug.py`, `placement.py`, `symbolic.py` | steps, by family                            |
| `numbers.py`    | expressions                                                           |
| `operators.py`  | calls of operators: by the C shim or by the dispatcher                |
| `shims.py`      | the C shim: its functions by operator (`text/shims.txt`, `shims_cuda.txt`) |
| `gpu.py`        | kernels of the device, and their launches                             |
| `scalars.py`    | `Scalar` arguments of operators                                       |
| `constants.py`  | locations and tensors of constants                                    |
| `scope.py`      | state while emitting a function and a program                         |
| `version.py`    | the edition of the metadata                                           |
| `text/`         | the files that are the same in every library                          |
"""
