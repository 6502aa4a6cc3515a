"""Facts about library operators: which may be called, which exist for a device, which write into a given tensor."""
