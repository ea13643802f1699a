"""The command `tproper`: one file per command; `main` puts them together.

Imports from every package above it; no other imports from here. Commands read options, call the library, and print.

A command of another package, which an entry point of the group ``tproper.commands`` names, may use what these use:
`say` prints a line for people; `check_writable` refuses, before the work, a file that could not be written after it;
`one_of` and `at_least` refuse other values of an option.
"""

from ..tables import at_least, one_of
from .errors import check_writable, say
from .main import main

__all__ = ["at_least", "check_writable", "main", "one_of", "say"]
