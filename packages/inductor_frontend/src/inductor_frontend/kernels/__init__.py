"""Kernels and their launches, of C++ and of Triton."""
