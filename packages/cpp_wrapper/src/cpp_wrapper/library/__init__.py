"""Libraries of whole programs: built from emitted sources, and loaded.

| file         | what it decides                                              |
| ------------ | ------------------------------------------------------------ |
| `api.py`     | `cpp_wrapper.emit` and `cpp_wrapper.build`                   |
| `build.py`   | what is compiled, in parallel, and what the cache has of it  |
| `image.py`   | the form of a library's file                                 |
| `package.py` | the form of a package, an archive around that file           |
| `project.py` | sources as a CMake project                                   |
| `load.py`    | how code and constants get from a file into the process      |
| `operators.py` | what a library calls against what torch has                |
| `python.py`  | a callable with the model's own signature over a library     |
"""
