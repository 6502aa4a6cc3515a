"""From a program to C++ source that needs no header of torch: it calls torch's stable C shim.

| file            | what it writes                                                        |
| --------------- | --------------------------------------------------------------------- |
| `program.py`    | all files of a library                                                |
| `function.py`   | one function of the program, in parts of a bounded length             |
| `table.py`      | which function writes which step                                      |
| `memory.py`, `calls.py`, `checks.py`, `control.py`, `debug.py`, `placement.py`, `symbolic.py` | steps, by family |
| `refusals.py`   | what this edition does not write                                      |
| `operators.py`  | calls of operators: by the C shim or by the dispatcher    |
| `shims.py`     | the C shim: its functions by operator (`text/shims.txt`, `shims_cuda.txt`) |
| `gpu.py`       | kernels of the device, and how they are launched                      |
| `scalars.py`    | numbers that operators take, where C functions take them otherwise    |
| `constants.py`  | where constants lie, and how their tensors are made                   |
| `scope.py`      | what is known while writing a function, and the program               |
| `version.py`    | the edition of the metadata                                           |
| `text/`         | the parts that are the same in every library                          |
"""
