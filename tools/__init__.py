"""Tools of this repository. They refuse graphs that the backend cannot compile.

By default Inductor would compile such graphs, and measurements and comparisons would apply to Inductor.
"""

import os

os.environ["WRAPPER_IR_ON_UNSUPPORTED"] = "error"
