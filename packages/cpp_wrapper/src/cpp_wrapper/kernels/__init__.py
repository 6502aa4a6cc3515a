"""C++ CPU kernels: compiled, cached and launched.

| file           | contents                                                            |
| -------------- | ------------------------------------------------------------------- |
| `runtime.py`   | the `KernelRuntime`, which calls the modules below                  |
| `options.py`   | options of the caller                                               |
| `isa.py`       | instruction sets: features that they need, compiler flags           |
| `toolchain.py` | the compiler, its flags, the fingerprint of both                    |
| `source.py`    | translation units: their kernels and text                           |
| `compile.py`   | one compiler run, and its error message                             |
| `build.py`     | builds of missing kernels, shared with other processes              |
| `libraries.py` | entries of the cache: libraries, notes of kernels, headers          |
| `binding.py`   | Python callables, through `launcher.cpp`                            |
"""
