"""Where upstream may write wrapper text, and what capture makes of each place. `python -m tools.inventory` lists it."""
