"""The command `wir`, debugger, explanations, pages, reports, profiles, comparison, and random programs for tests."""
