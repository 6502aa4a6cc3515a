"""How each op becomes steps: one function a class, one file a family."""
