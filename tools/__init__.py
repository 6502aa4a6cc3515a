"""The repository's own tools. What they run, tests among it, stops where the backend cannot compile a graph: otherwise Inductor
would compile it, and what is measured or compared would be Inductor."""

import os

os.environ["WRAPPER_IR_ON_UNSUPPORTED"] = "error"
