"""Loads the fixtures of tests/support, where everything is that more than one test module uses."""

import pytest
from hypothesis import HealthCheck, settings

# How long an example or its making takes says nothing on a busy machine.
settings.register_profile("suite", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("suite")

pytest.register_assert_rewrite("tests.support")

pytest_plugins = [
    "tests.support.bench",
    "tests.support.command_line",
    "tests.support.migration",
    "tests.support.office",
    "tests.support.published_figures",
    "tests.support.servers",
]
