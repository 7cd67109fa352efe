"""Loads the fixtures of tests/support, where everything is that more than one test module uses."""

import pytest

pytest.register_assert_rewrite("tests.support")

pytest_plugins = [
    "tests.support.bench",
    "tests.support.command_line",
    "tests.support.migration",
    "tests.support.office",
    "tests.support.published_figures",
    "tests.support.servers",
]
