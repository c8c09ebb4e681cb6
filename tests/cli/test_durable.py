"""`durable = true`: every commit is on the disk before anything goes on, whoever writes."""

import json
from pathlib import Path

import pytest

from tests.cli.helpers import asked
from tui_evals.store import writer_thread
from tui_evals.targets.base import ConfigurationError
from tui_evals.targets.config import load_settings


@pytest.mark.parametrize(("text", "synchronous"), [("", 1), ("[store]\ndurable = true\n", 2)])
def test_the_setting_decides_how_every_command_commits(shell, folder, dataset, answers, monkeypatch, text, synchronous):
    seen, connect = [], writer_thread.connect

    def watched(path, **given):
        connection = connect(path, **given)
        seen.extend(connection.execute("PRAGMA synchronous").fetchone())
        return connection

    monkeypatch.setattr(writer_thread, "connect", watched)
    Path(".evals").mkdir()
    Path(".evals/config.toml").write_text(text)
    file, target = dataset(asked(2), {"ExactMatch": {}}), answers(["right", "right"])
    assert shell("run", file, "--target", target, "--quiet").code == 0
    assert shell("label", "last", "#1", "pass").code == 0
    assert len(seen) >= 2 and set(seen) == {synchronous}
    assert json.loads(shell("runs", "--json").out)[0]["status"] == "finished"


def test_what_is_wrong_in_the_section_is_a_sentence_with_its_line(folder):
    Path(".evals").mkdir()
    for text, sentence in (
        ('[store]\ndurable = "yes"\n', "config.toml:2: store.durable should be a valid boolean"),
        ("[store]\ndurabel = true\n", "there is no setting store.durabel (did you mean 'durable'?)"),
    ):
        Path(".evals/config.toml").write_text(text)
        with pytest.raises(ConfigurationError) as problem:
            load_settings(folder)
        assert sentence in str(problem.value)
