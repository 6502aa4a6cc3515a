"""Real model configurations through `torch.compile`, ours beside stock."""
