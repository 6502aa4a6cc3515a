"""C++ and Triton kernels, and their launches."""
