"""One browser for all tests of pages."""

import pytest
from chromium import Browser


@pytest.fixture(scope="session")
def browser():
    with Browser() as opened:
        yield opened
