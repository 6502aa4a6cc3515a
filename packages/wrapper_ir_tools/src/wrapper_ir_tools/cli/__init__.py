"""The `wir` command: one module a family of commands, `main` the group of all."""
