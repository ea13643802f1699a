"""`python -m tproper` is the command `tproper`."""

from .cli import main

main()
