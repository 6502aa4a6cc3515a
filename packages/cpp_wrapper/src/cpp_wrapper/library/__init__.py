"""Libraries of whole programs: built from emitted sources, and loaded.

| file             | contents                                                   |
| ---------------- | ---------------------------------------------------------- |
| `api.py`         | `cpp_wrapper.emit` and `cpp_wrapper.build`                 |
| `build.py`       | parallel builds, with objects from the cache               |
| `batch.py`       | many programs in one build                                 |
| `debug_build.py` | libraries with debugging information                       |
| `image.py`       | the file format of libraries                               |
| `package.py`     | packages, archives that contain a library                  |
| `project.py`     | sources as a CMake project                                 |
| `load.py`        | loading of code and constants                              |
| `operators.py`   | comparison of a library's operators with torch's           |
| `bridges.py`     | operators that the stable dispatcher does not accept       |
| `groups.py`      | process groups and their memory                            |
| `python.py`      | a callable with the model's signature                      |
| `failures.py`    | errors of libraries as exceptions                          |
"""
