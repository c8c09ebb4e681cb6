"""Evaluators of a project on their way to workers: what travels, what is refused, and who decides about trust."""

from __future__ import annotations

import base64
import json
import multiprocessing
import os
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.evaluators.helpers import Judge, score
from tui_evals.evaluators.base import Evaluator, Options, verdict_score
from tui_evals.evaluators.registry import Registry, built_in, load_registry
from tui_evals.evaluators.trust import MAX_BYTES, MAX_FILES, Trust, code_digest, has_digest
from tui_evals.runs.executors.cluster import code as cluster_code
from tui_evals.runs.executors.cluster import code as cluster_parcel
from tui_evals.runs.executors.cluster.code import pack_evaluators, unpack_evaluators
from tui_evals.targets.base import ConfigurationError

ALL = {"TUI_EVALS_TRUST": "all"}
CODE = (
    "class Mine:\n    def __init__(self, **settings): pass\n"
    "    def __call__(self, response, **others):\n"
    "        from pathlib import Path\n"
    "        return {'score': float(response == Path('words/wanted.txt').read_text()), 'reason': 'looked'}\n"
)
METRIC = '---\nname: nice\n---\nuser:\nHow nice is {{output}}? Reply {"score": 0-100}.\n'


class Project:
    """A project with evaluators of its own, and what they become on a worker."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.prompts = root / "prompts"
        self.prompts.mkdir(parents=True)

    def evaluator(self, name: str = "mine", wanted: str = "yes") -> Path:
        folder = self.root / "custom-evaluators" / name
        (folder / "words").mkdir(parents=True)
        (folder / f"{name}.py").write_text(CODE)
        (folder / "words" / "wanted.txt").write_text(wanted)
        return folder

    def metric(self, name: str = "nice", text: str = METRIC) -> Path:
        file = self.prompts / f"{name}.metric.prompty"
        file.write_text(text)
        return file

    @property
    def registry(self) -> Registry:
        return load_registry(self.root, Trust(), self.prompts)

    def packed(self, *used: str) -> dict[str, Any]:
        return pack_evaluators(self.registry, self.root, self.prompts, used)


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path / "project")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "worker" / "code"


def sealed(files: Mapping[str, bytes], mark: str | None = None) -> dict[str, Any]:
    encoded = {name: base64.b64encode(data).decode() for name, data in files.items()}
    return {"digest": mark or code_digest(files), "files": encoded}


def parcel(**parts: Any) -> dict[str, Any]:
    return {"custom": {}, "metrics": {}, "broken": {}, "installed": {}, **parts}


def mark_of(data: Mapping[str, Any], name: str = "mine") -> str:
    return str(data["custom"][name]["digest"])


# what travels


def test_a_parcel_is_json_and_judges_on_a_worker_as_at_home(project: Project, folder: Path) -> None:
    project.evaluator()
    project.metric()
    sent = json.loads(json.dumps(project.packed("mine", "nice", "Equals")))
    found = unpack_evaluators(sent, folder, ALL)
    home = load_registry(project.root, Trust(always=True), project.prompts)
    for answer in ("yes", "no"):
        there, here = (score(known.find("mine"), response=answer) for known in (found, home))
        assert there == here and there.result is not None
    judge = Judge('{"score": 70}')
    assert score(found.find("nice"), {}, judge, response="an answer").score == 70
    assert "an answer" in judge.prompt
    assert found.own == ("mine",)
    assert built_in().items() <= found.by_name.items()


def test_a_file_of_javascript_judges_on_a_worker_as_at_home(project: Project, folder: Path) -> None:
    place = project.root / "custom-evaluators" / "script"
    place.mkdir(parents=True)
    (place / "script.js").write_text("module.exports = (output) => output === 'yes';\n")
    there = unpack_evaluators(json.loads(json.dumps(project.packed("script"))), folder, ALL)
    assert score(there.by_name["script"], response="yes").result == "pass"
    assert score(there.by_name["script"], response="no").result == "fail"


def test_only_what_the_used_evaluators_need_travels(project: Project) -> None:
    (project.root / ".env.local").write_text("KEY=canary")
    (project.root / "secret.txt").write_text("canary")
    (project.prompts / "prompt.prompty").write_text("user:\ncanary")
    own, other = project.evaluator(), project.evaluator("other", "canary")
    for hidden in (".env", ".netrc", ".git/config", "words/.env", "__pycache__/mine.pyc"):
        (own / hidden).parent.mkdir(exist_ok=True)
        (own / hidden).write_text("canary")
    project.metric("unused", "user:\ncanary")
    sent = project.packed("mine", "Equals")
    assert list(sent["custom"]) == ["mine"] and not sent["metrics"]
    assert sorted(sent["custom"]["mine"]["files"]) == ["mine.py", "words/wanted.txt"]
    texts = [base64.b64decode(text) for text in sent["custom"]["mine"]["files"].values()]
    assert not any(b"canary" in text for text in texts)
    assert str(other) not in json.dumps(sent)


def test_built_in_evaluators_alone_need_nothing(project: Project, folder: Path) -> None:
    sent = project.packed("Equals", "accuracy", "EXACT_MATCH")
    assert sent == parcel()
    assert unpack_evaluators(sent, folder, {}).by_name.keys() == load_registry().by_name.keys()
    assert not folder.exists()


@pytest.mark.parametrize("target", ["outside.txt", "project/.env", "project/custom-evaluators/mine/.env"])
def test_a_link_that_leads_to_something_else_does_not_travel(project: Project, tmp_path: Path, target: str) -> None:
    own = project.evaluator()
    (tmp_path / target).write_text("canary")
    (own / "words" / "more.txt").symlink_to(tmp_path / target)
    with pytest.raises(ConfigurationError, match=r"'mine' cannot be sent .*more.txt leads to .*replace the link"):
        project.packed("mine")
    assert project.packed("Equals") == parcel()


def test_a_link_inside_the_folder_travels_as_the_file_it_means(project: Project) -> None:
    own = project.evaluator()
    (own / "words" / "same.txt").symlink_to("wanted.txt")
    files = project.packed("mine")["custom"]["mine"]["files"]
    assert files["words/same.txt"] == files["words/wanted.txt"]


def test_a_folder_that_is_a_link_out_of_the_project_does_not_travel(project: Project, tmp_path: Path) -> None:
    project.evaluator().rename(tmp_path / "elsewhere")
    (project.root / "custom-evaluators" / "mine").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ConfigurationError, match="copy that folder into the project"):
        project.packed("mine")


def test_a_metric_that_is_a_link_to_something_hidden_does_not_travel(project: Project) -> None:
    (project.root / ".env").write_text("KEY=canary")
    (project.prompts / "nice.metric.prompty").symlink_to(project.root / ".env")
    with pytest.raises(ConfigurationError, match="'nice' cannot be sent"):
        project.packed("nice")


def test_metrics_beside_a_prompt_outside_the_project_travel(project: Project, tmp_path: Path) -> None:
    beside = tmp_path / ".shared" / "prompts"
    beside.mkdir(parents=True)
    (beside / "nice.metric.prompty").write_text(METRIC)
    sent = pack_evaluators(load_registry(project.root, Trust(), beside), project.root, beside, ["nice"])
    assert list(sent["metrics"]) == ["nice"]


def test_a_file_of_secrets_stops_the_parcel(project: Project) -> None:
    (project.evaluator() / "prod.env").write_text("KEY=canary")
    with pytest.raises(ConfigurationError, match=r"prod\.env looks like a file of secrets; keep it out"):
        project.packed("mine")


def test_a_name_that_is_not_utf8_stops_the_parcel(project: Project) -> None:
    name = os.fsencode(project.evaluator()) + b"/\xff.txt"
    with open(name, "w") as stream:
        stream.write("x")
    with pytest.raises(ConfigurationError, match="not UTF-8; rename it"):
        project.packed("mine")


@pytest.mark.story
@pytest.mark.parametrize("trouble", ["huge", "many", "missing"])
def test_what_cannot_be_read_at_home_is_the_same_error_on_a_worker(
    project: Project, folder: Path, trouble: str
) -> None:
    own = project.evaluator()
    if trouble == "huge":
        with (own / "big.bin").open("wb") as stream:
            stream.truncate(MAX_BYTES + 1)
    elif trouble == "many":
        for number in range(MAX_FILES + 1):
            (own / f"{number}.txt").touch()
    else:
        (own / "mine.py").unlink()
    sent = project.packed("mine")
    assert len(json.dumps(sent)) < 2_000
    there = score(
        unpack_evaluators(sent, folder, ALL).find("mine"), {"threshold": 1, "options": {"a": 1}}, response="yes"
    )
    here = score(project.registry.find("mine"), response="yes")
    assert there == here and there.details == {"code": "evaluatorLoadError"}


def test_a_huge_metric_stops_the_parcel(project: Project) -> None:
    with project.metric().open("wb") as stream:
        stream.truncate(MAX_BYTES + 1)
    with pytest.raises(ConfigurationError, match="larger than 16 MB"):
        project.packed("nice")


def test_a_metric_that_is_gone_is_an_error_on_a_worker(project: Project, folder: Path) -> None:
    file, known = project.metric(), project.registry
    file.unlink()
    sent = pack_evaluators(known, project.root, project.prompts, ["nice"])
    found = unpack_evaluators(sent, folder, {}).find("nice")
    assert found.judged
    record = score(found, {"judge": "gpt", "threshold": 50}, Judge("100"), response="yes")
    assert record.result == "error" and "nice.metric.prompty cannot be used" in record.reason


def test_a_package_that_the_worker_lacks_is_an_error_that_names_it(project: Project, folder: Path) -> None:
    class Foreign(Evaluator):
        """An evaluator of somebody's package."""

        name = "Foreign"
        family = "theirs"
        judged = True
        Options = Options

        def score(self, evidence: object) -> Any:
            return verdict_score(True, "fine")

    Foreign.__module__ = "acme_evals.tone"
    known = Registry({**built_in(), "Foreign": Foreign})
    sent = json.loads(json.dumps(pack_evaluators(known, project.root, None, ["Foreign"])))
    found = unpack_evaluators(sent, folder, ALL).find("Foreign")
    record = score(found, {"any": [1], "weight": 0.5, "negate": True}, Judge("x"), response="yes")
    assert record.result == "error" and found.judged
    assert "'Foreign' comes with the package acme_evals" in record.reason and "install it there" in record.reason


def test_an_evaluator_of_the_project_wins_over_an_installed_one_of_the_worker(
    project: Project, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project.evaluator()
    project.metric()
    sent = project.packed("mine", "nice")
    theirs = {name: built_in()["Equals"] for name in ("mine", "nice", "other")}
    monkeypatch.setattr(cluster_code, "load_registry", lambda: Registry({**built_in(), **theirs}, problems=("one",)))
    found = unpack_evaluators(sent, folder, ALL)
    assert score(found.find("mine"), response="yes").result == "pass"
    assert found.find("nice").judged
    assert found.find("other") is theirs["other"] and found.problems == ("one",)


# trust


def test_code_that_nobody_trusts_is_neither_written_nor_run(project: Project, folder: Path) -> None:
    project.evaluator()
    sent = project.packed("mine")
    for environment in ({}, {"TUI_EVALS_TRUST": ""}, {"TUI_EVALS_TRUST": "1,true," + "0" * 64}):
        found = unpack_evaluators(sent, folder, environment)
        record = score(found.find("mine"), {"threshold": 0.5, "negate": True}, response="yes")
        assert (record.score, record.result, record.details) == (None, "error", {"code": "evaluatorLoadError"})
        for word in ("'mine'", mark_of(sent), "TUI_EVALS_TRUST=", "tui-evals trust", os.uname().nodename):
            assert word in record.reason
        assert found.own == ("mine",)
    assert not folder.exists()


def test_the_driver_cannot_say_that_its_code_is_trusted(project: Project, folder: Path) -> None:
    project.evaluator()
    sent = project.packed("mine")
    with pytest.raises(ConfigurationError, match="refused"):
        unpack_evaluators({**sent, "trusted": True}, folder, {})
    sent["custom"]["mine"]["trusted"] = True
    with pytest.raises(ConfigurationError, match="refused"):
        unpack_evaluators(sent, folder, {})


@pytest.mark.parametrize("said", ["all", "ALL", "{0}", " {0} ", "{1},{0}", "{1}, all"])
def test_a_worker_is_told_what_to_trust_by_its_environment(project: Project, folder: Path, said: str) -> None:
    project.evaluator()
    sent = project.packed("mine")
    environment = {"TUI_EVALS_TRUST": said.format(mark_of(sent), "0" * 64)}
    assert score(unpack_evaluators(sent, folder, environment).find("mine"), response="yes").result == "pass"


def test_what_the_workers_user_trusts_anywhere_is_trusted(project: Project, folder: Path) -> None:
    own = project.evaluator()
    sent = project.packed("mine")
    Trust().trust(own)
    assert score(unpack_evaluators(sent, folder, {}).find("mine"), response="yes").result == "pass"
    (own / "words" / "wanted.txt").write_text("changed")
    assert score(unpack_evaluators(project.packed("mine"), folder, {}).find("mine"), response="yes").result == "error"


def test_a_broken_list_of_trust_is_an_error_unless_the_environment_speaks(
    project: Project, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project.evaluator()
    sent = project.packed("mine")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    Trust().trust(project.root / "custom-evaluators" / "mine")
    (tmp_path / "tui_evals" / "trusted.json").write_text("{")
    record = score(unpack_evaluators(sent, folder, {}).find("mine"), response="yes")
    assert record.result == "error" and "delete it and trust your code again" in record.reason
    assert score(unpack_evaluators(sent, folder, ALL).find("mine"), response="yes").result == "pass"


def test_code_changed_on_the_workers_disk_does_not_run_and_is_mended_next_time(project: Project, folder: Path) -> None:
    project.evaluator()
    sent = project.packed("mine")
    kind = unpack_evaluators(sent, folder, ALL).find("mine")
    (folder / mark_of(sent) / "mine.py").write_text("raise SystemExit")
    record = score(kind, response="yes")
    assert record.result == "error" and "new or changed" in record.reason
    assert score(unpack_evaluators(sent, folder, ALL).find("mine"), response="yes").result == "pass"
    assert [path.name for path in folder.iterdir()] == [mark_of(sent)]


def test_code_of_answers_runs_only_where_the_worker_allows_it(
    project: Project, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = unpack_evaluators(project.packed("PythonUnitTests"), folder, ALL)
    options = {"test": "assert answer == 1"}
    monkeypatch.delenv("TUI_EVALS_ALLOW_CODE", raising=False)
    assert score(known.find("PythonUnitTests"), options, response="answer = 1").result == "error"
    monkeypatch.setenv("TUI_EVALS_ALLOW_CODE", "1")
    assert score(known.find("PythonUnitTests"), options, response="answer = 1").result == "pass"


# parcels that lie


def test_a_digest_that_lies_is_refused_and_nothing_is_written(project: Project, folder: Path) -> None:
    project.evaluator()
    project.metric()
    sent = project.packed("mine", "nice")
    for part, name in (("custom", "mine"), ("metrics", "nice")):
        lie = json.loads(json.dumps(sent))
        lie[part][name]["digest"] = "0" * 64
        with pytest.raises(ConfigurationError, match=f"'{name}' should have the digest"):
            unpack_evaluators(lie, folder, ALL)
    other = json.loads(json.dumps(sent))
    other["custom"]["mine"]["files"]["mine.py"] = base64.b64encode(b"import evil").decode()
    with pytest.raises(ConfigurationError, match="should have the digest"):
        unpack_evaluators(other, folder, {"TUI_EVALS_TRUST": mark_of(sent)})
    assert not folder.exists()


NAMES = ["", ".", "..", "/", "/etc/x", "//x", "../x", "a/../../x", "a/..", "./a", "a//b", "a/", "x\0y", "\ud800"]
HIDDEN = [".env", "a/.env", ".git/config", "__pycache__/mine.pyc", "a/__pycache__/b", "mine.py/inside", "~/../x/."]
HARMFUL = st.one_of(
    st.sampled_from(NAMES + HIDDEN),
    st.lists(st.sampled_from(["..", ".", "", "a", ".b"]), min_size=1, max_size=6)
    .filter(lambda parts: set(parts) != {"a"})
    .map("/".join),
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(name=HARMFUL)
def test_a_file_with_a_harmful_name_is_refused(tmp_path: Path, name: str) -> None:
    sent = parcel(custom={"mine": sealed({"mine.py": b"", name: b"harm"})})
    with pytest.raises(ConfigurationError, match=r"'mine' has a file "):
        unpack_evaluators(sent, tmp_path / "code", ALL)
    assert list(tmp_path.iterdir()) == []


PLAIN = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="/\0"), min_size=1, max_size=20).filter(
    lambda part: part[0] != "." and part != "__pycache__" and len(part.encode()) < 200
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(files=st.dictionaries(st.lists(PLAIN, min_size=2, max_size=3).map("/".join), st.binary(max_size=60), max_size=4))
def test_files_with_plain_names_arrive_as_they_were(tmp_path: Path, files: dict[str, bytes]) -> None:
    names = {name for name in files if not any(other.startswith(f"{name}/") for other in files)}
    whole = {"mine.py": b"", **{name: files[name] for name in names}}
    place = tmp_path / "code" / code_digest(whole)
    unpack_evaluators(parcel(custom={"mine": sealed(whole)}), tmp_path / "code", ALL)
    arrived = {path.relative_to(place).as_posix(): path.read_bytes() for path in place.rglob("*") if path.is_file()}
    assert arrived == whole


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
PARTS = st.fixed_dictionaries({part: st.dictionaries(st.text(max_size=4), JSON, max_size=2) for part in parcel()})


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(sent=JSON.filter(lambda value: isinstance(value, dict)) | PARTS)
def test_whatever_is_no_parcel_is_refused_with_a_sentence(tmp_path: Path, sent: dict[str, Any]) -> None:
    if sent == parcel():
        return
    with pytest.raises(ConfigurationError, match="were refused and none of them was run"):
        unpack_evaluators(sent, tmp_path / "code", ALL)
    assert not (tmp_path / "code").exists()


@pytest.mark.parametrize("name", ["Equals", "equals", "EXACT_MATCH", "a b", "1x", "", "../mine", "é"])
def test_code_cannot_take_the_name_of_another_evaluator_or_none(folder: Path, name: str) -> None:
    with pytest.raises(ConfigurationError, match="refused"):
        unpack_evaluators(parcel(custom={name: sealed({f"{name}.py": b""})}), folder, ALL)
    assert not folder.exists()


@pytest.mark.parametrize("part", ["metrics", "broken", "installed"])
def test_nothing_sent_replaces_a_built_in_evaluator(folder: Path, part: str) -> None:
    away = {"judged": False, "scope": "answer", "why": "gone"}
    entry = sealed({"Equals.metric.prompty": b"user:\nx"}) if part == "metrics" else away
    with pytest.raises(ConfigurationError, match="name of a built-in evaluator"):
        unpack_evaluators(parcel(**{part: {"Equals": entry}}), folder, ALL)


@pytest.mark.story
def test_a_parcel_of_too_much_is_refused(folder: Path) -> None:
    many = {"mine.py": b"", **{f"{number}.txt": b"" for number in range(MAX_FILES)}}
    with pytest.raises(ConfigurationError, match="more than 1000 files or 16 MB"):
        unpack_evaluators(parcel(custom={"mine": sealed(many)}), folder, ALL)
    with pytest.raises(ConfigurationError, match="more than 1000 files or 16 MB"):
        unpack_evaluators(parcel(custom={"mine": sealed({"mine.py": bytes(MAX_BYTES + 1)})}), folder, ALL)
    exactly = {"mine.py": b"", **{f"{number}.txt": b"" for number in range(MAX_FILES - 1)}}
    assert unpack_evaluators(parcel(custom={"mine": sealed(exactly)}), folder, ALL).own == ("mine",)


@pytest.mark.parametrize("text", ["not base64!", "YQ", "YQ==\n", "é"])
def test_a_file_that_is_not_base64_is_refused(folder: Path, text: str) -> None:
    sent = parcel(custom={"mine": {"digest": "0" * 64, "files": {"mine.py": text}}})
    with pytest.raises(ConfigurationError, match="is not base64"):
        unpack_evaluators(sent, folder, ALL)


def test_code_without_its_main_file_is_refused(folder: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"'mine' has no file 'mine\.py'"):
        unpack_evaluators(parcel(custom={"mine": sealed({"other.py": b""})}), folder, ALL)


# the worker's disk


def test_two_evaluators_of_one_digest_share_a_folder(folder: Path) -> None:
    files = {f"{name}.py": CODE.encode() for name in ("mine", "twin")} | {"words/wanted.txt": b"yes"}
    found = unpack_evaluators(parcel(custom={"mine": sealed(files), "twin": sealed(files)}), folder, ALL)
    assert [path.name for path in folder.iterdir()] == [code_digest(files)]
    assert [score(found.find(name), response="yes").result for name in ("mine", "twin")] == ["pass", "pass"]


def test_a_metric_and_code_may_have_one_name_and_the_code_wins(folder: Path) -> None:
    code = sealed({"mine.py": CODE.encode(), "words/wanted.txt": b"yes"})
    metric = sealed({"mine.metric.prompty": METRIC.encode()})
    found = unpack_evaluators(parcel(custom={"mine": code}, metrics={"mine": metric}), folder, ALL)
    assert score(found.find("mine"), response="yes").result == "pass"


def test_what_is_unpacked_is_the_users_alone(project: Project, folder: Path) -> None:
    project.evaluator()
    sent = project.packed("mine")
    folder.mkdir(parents=True, mode=0o755)
    unpack_evaluators(sent, folder, ALL)
    assert {stat.S_IMODE(path.stat().st_mode) for path in (folder, folder / mark_of(sent))} == {0o700}


def test_what_is_there_is_used_again(project: Project, folder: Path) -> None:
    project.evaluator()
    sent = project.packed("mine")
    unpack_evaluators(sent, folder, ALL)
    (folder / mark_of(sent) / ".first").touch()
    unpack_evaluators(sent, folder, ALL)
    assert (folder / mark_of(sent) / ".first").exists()


def test_whoever_comes_second_leaves_the_folder_of_the_first_in_place(
    project: Project, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project.evaluator()
    sent = project.packed("mine")
    unpack_evaluators(sent, folder, ALL)
    (folder / mark_of(sent) / ".first").touch()
    seen = iter([False])
    monkeypatch.setattr(
        cluster_parcel, "has_digest", lambda path, mark: next(seen, None) is None and has_digest(path, mark)
    )
    unpack_evaluators(sent, folder, ALL)
    assert (folder / mark_of(sent) / ".first").exists()
    assert [path.name for path in folder.iterdir()] == [mark_of(sent)]


@pytest.mark.parametrize("leftover", ["empty folder", "half a folder", "file", "dead link", "link away"])
def test_a_wrong_leftover_gives_way(project: Project, folder: Path, tmp_path: Path, leftover: str) -> None:
    project.evaluator()
    sent = project.packed("mine")
    place = folder / mark_of(sent)
    folder.mkdir(parents=True)
    if leftover == "file":
        place.write_text("x")
    elif "link" in leftover:
        place.symlink_to(tmp_path if leftover == "link away" else tmp_path / "absent")
    else:
        place.mkdir()
        if leftover == "half a folder":
            (place / "mine.py").write_text(CODE)
    assert score(unpack_evaluators(sent, folder, ALL).find("mine"), response="yes").result == "pass"
    assert [path.name for path in folder.iterdir()] == [place.name] and not place.is_symlink()
    assert project.root.exists()


@pytest.mark.parametrize("obstacle", ["a file above", "a file in place"])
def test_a_folder_that_cannot_be_written_is_a_sentence(project: Project, tmp_path: Path, obstacle: str) -> None:
    project.evaluator()
    (tmp_path / "code").write_text("in the way")
    folder = tmp_path / "code" / "inner" if obstacle == "a file above" else tmp_path / "code"
    with pytest.raises(ConfigurationError, match=r"cannot be kept in .*code.*: .*; see that the folder can be written"):
        unpack_evaluators(project.packed("mine"), folder, ALL)


def test_a_full_disk_is_a_sentence_and_leaves_nothing(
    project: Project, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project.evaluator()
    sent = project.packed("mine")

    def full(self: Path, data: bytes) -> int:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(Path, "write_bytes", full)
        with pytest.raises(ConfigurationError, match=r"No space left .*has room, then resume"):
            unpack_evaluators(sent, folder, ALL)
    assert list(folder.iterdir()) == []
    assert unpack_evaluators(sent, folder, ALL).own == ("mine",)


def test_a_disk_that_mangles_what_is_written_is_a_sentence(
    project: Project, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project.evaluator()
    write = Path.write_bytes
    monkeypatch.setattr(Path, "write_bytes", lambda self, data: write(self, data + b"\r"))
    with pytest.raises(ConfigurationError, match="what was written there reads otherwise"):
        unpack_evaluators(project.packed("mine"), folder, ALL)


def _unpack_when_told(gate: Any, sent: dict[str, Any], folder: Path, rounds: int) -> None:
    for number in range(rounds):
        gate.wait(60)
        unpack_evaluators(sent, folder / str(number), ALL)
        gate.wait(60)
        assert [path.name for path in (folder / str(number)).iterdir()] == [mark_of(sent)]


@pytest.mark.nightly
def test_processes_that_unpack_at_once_all_find_it_whole(project: Project, folder: Path) -> None:
    own = project.evaluator()
    for number in range(20):
        (own / f"{number}.txt").write_text(str(number))
    sent = project.packed("mine")
    spawned = multiprocessing.get_context("spawn")
    gate = spawned.Barrier(2)
    processes = [spawned.Process(target=_unpack_when_told, args=(gate, sent, folder, 20)) for _ in range(2)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(120)
    assert [process.exitcode for process in processes] == [0, 0]
    assert score(unpack_evaluators(sent, folder / "0", ALL).find("mine"), response="yes").result == "pass"
