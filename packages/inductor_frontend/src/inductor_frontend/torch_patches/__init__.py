"""What is replaced or asked of the insides of torch: each with its reason, and the versions that have it."""
