"""How tests hold that input is refused: by the class of the error and the argument that it names, not by its words."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

import tproper as tp


@contextmanager
def refused(argument: str) -> Iterator[pytest.ExceptionInfo[tp.InputError]]:
    """The body raises an `InputError` about this argument."""
    with pytest.raises(tp.InputError) as caught:
        yield caught
    assert caught.value.argument == argument, caught.value
