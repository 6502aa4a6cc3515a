"""C++ CPU kernels: compiled, cached and launched.

| file           | what it decides                                                     |
| -------------- | ------------------------------------------------------------------- |
| `runtime.py`   | the `KernelRuntime`: the order of all below                         |
| `options.py`   | what a caller may choose                                            |
| `isa.py`       | instruction sets: what they need of the host, their flags           |
| `toolchain.py` | the compiler, its flags, the fingerprint of both                    |
| `source.py`    | which kernels share a translation unit, and its text                |
| `compile.py`   | one compiler run, and the message when it fails                     |
| `build.py`     | what to build and what others are building                          |
| `libraries.py` | what the cache holds: libraries, notes of kernels, headers          |
| `binding.py`   | Python callables, through `launcher.cpp`                            |
"""
