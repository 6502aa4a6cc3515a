"""Run every check over the repository: `python -m tools.checks`. Exit status 1 if any rule is broken."""

from __future__ import annotations

import sys
from pathlib import Path

from tools.checks.circles import find_circles
from tools.checks.faces import find_inner_imports
from tools.checks.figures import find_raised, read_limits
from tools.checks.finding import Check, repository_files
from tools.checks.forbidden_words import find_pickle, find_words
from tools.checks.helpers import find_test_imports
from tools.checks.lengths import find_long
from tools.checks.packages import find_incomplete_packages

_CHECKS: tuple[Check, ...] = (find_words, find_pickle, find_long, find_test_imports, find_inner_imports)


def main() -> int:
    """Prints the findings; returns the exit status."""
    root = Path(__file__).resolve().parents[2]
    sources = list(repository_files(root))
    findings = [finding for source in sources for check in _CHECKS for finding in check(source)]
    findings += find_circles(sources)
    findings += find_incomplete_packages(root)
    findings += find_raised(sources, read_limits())
    for finding in findings:
        print(finding)
    print(f"{len(sources)} files checked, {len(findings)} broken rules")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
