"""The subcommands of `tproper`, one file each; `cli.py` puts them together."""
