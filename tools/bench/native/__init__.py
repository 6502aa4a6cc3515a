"""The benchmark of libraries without torch against other runtimes: models, their exports, and a C++ driver of
each runtime.
"""
