"""Uses of torch's internals, replaced or read: each with its reason and the versions that have it."""
