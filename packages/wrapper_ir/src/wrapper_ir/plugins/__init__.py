"""Protocols of other packages (frontends, emitters, machines, kernel runtimes, passes) and how they are found."""
