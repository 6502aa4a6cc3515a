"""The command `wir`, the debugger, explanations, pages, reports, profiles, diffs, and random test
programs."""
