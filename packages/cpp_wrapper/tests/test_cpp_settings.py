"""The environment."""

from __future__ import annotations

from pathlib import Path

from cpp_wrapper.settings import read_settings


def test_defaults() -> None:
    settings = read_settings({})
    assert settings.cache.folder == Path.home() / ".cache" / "wrapper-ir"
    assert settings.compiler == "g++"
    assert settings.jobs >= 1


def test_own_variables_win() -> None:
    env = {"WRAPPER_IR_CACHE_DIR": "/c", "WRAPPER_IR_CXX": "a", "CXX": "b"}
    settings = read_settings({**env, "WRAPPER_IR_BUILD_JOBS": "3"})
    assert (settings.cache.folder, settings.compiler, settings.jobs) == (Path("/c"), "a", 3)


def test_unusable_number_of_jobs_is_ignored() -> None:
    assert read_settings({"WRAPPER_IR_BUILD_JOBS": "0"}).jobs >= 1
    assert read_settings({"WRAPPER_IR_BUILD_JOBS": "many"}).jobs >= 1
