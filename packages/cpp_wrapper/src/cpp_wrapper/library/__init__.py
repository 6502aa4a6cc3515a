"""Libraries of whole programs: built from emitted sources, and loaded.

| file       | what it decides                                              |
| ---------- | ------------------------------------------------------------ |
| `build.py` | what is compiled, in parallel, and what the cache has of it  |
| `load.py`  | a callable with the model's own signature over a library     |
"""
