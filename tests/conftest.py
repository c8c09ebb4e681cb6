"""Nothing of the person who runs the tests leaks into them."""

import pytest
from hypothesis import settings

# How long an example takes is for the benchmarks to say, not for a test to fail by.
settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")


@pytest.fixture(autouse=True)
def clean_world(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> None:
    home = tmp_path_factory.mktemp("home")
    for name in ("HOME", "XDG_STATE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_CACHE_HOME"):
        monkeypatch.setenv(name, str(home))
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL", "NO_COLOR", "TUI_EVALS_DB"):
        monkeypatch.delenv(name, raising=False)
