"""Protocols of plug-ins (frontends, emitters, machines, kernel runtimes, passes), and their registry."""
