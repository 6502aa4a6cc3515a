"""Small programs by feature, through stock `torch.compile` and through the backend wrapper_ir: nothing may
differ.
"""
