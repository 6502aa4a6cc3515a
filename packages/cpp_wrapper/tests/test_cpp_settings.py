"""The environment."""

from __future__ import annotations

from pathlib import Path

from cpp_wrapper.settings import read_settings


def test_defaults_are_in_the_users_cache_directory() -> None:
    settings = read_settings({})
    assert settings.cache_dir == Path.home() / ".cache" / "wrapper-ir"
    assert settings.compiler == "g++"
    assert settings.jobs >= 1


def test_xdg_cache_home_is_honoured() -> None:
    assert read_settings({"XDG_CACHE_HOME": "/x"}).cache_dir == Path("/x/wrapper-ir")


def test_own_variables_win() -> None:
    env = {"WRAPPER_IR_CACHE_DIR": "/c", "XDG_CACHE_HOME": "/x", "WRAPPER_IR_CXX": "a", "CXX": "b"}
    settings = read_settings({**env, "WRAPPER_IR_BUILD_JOBS": "3"})
    assert (settings.cache_dir, settings.compiler, settings.jobs) == (Path("/c"), "a", 3)


def test_unusable_number_of_jobs_is_ignored() -> None:
    assert read_settings({"WRAPPER_IR_BUILD_JOBS": "0"}).jobs >= 1
    assert read_settings({"WRAPPER_IR_BUILD_JOBS": "many"}).jobs >= 1
