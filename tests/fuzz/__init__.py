"""Random cases against references and against rules: `make fuzz`, or `python -m tests.fuzz`."""
