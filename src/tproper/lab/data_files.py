"""What reading data files and fetching them have in common."""

CIFAR_ARCHIVE = "cifar-10-binary.tar.gz"


class DataError(ValueError):
    """A data file is missing, truncated, altered or not of its format."""
