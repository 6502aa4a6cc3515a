"""Where Inductor may write wrapper text, and what capture makes of each place. `python -m tools.inventory` lists it."""
