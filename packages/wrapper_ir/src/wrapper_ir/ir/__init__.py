"""The program model: types, values, kernels, ops, functions, and the calling convention around them."""
