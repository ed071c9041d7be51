from __future__ import annotations

from typing import Any

import pytest

from tests.frontends.interpreters import circlet, litert


@pytest.fixture(params=[litert, circlet], ids=["litert", "circlet"])
def make(request: pytest.FixtureRequest) -> Any:
    """Makes an interpreter of one engine; each test runs with both."""
    return request.param
