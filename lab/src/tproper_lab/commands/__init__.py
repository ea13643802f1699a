"""The commands that the lab adds to `tproper`: options in one file, the work in another, imported when it starts."""
