"""Clusters of failures: which they are, what they hold, and what became of them since an earlier run."""

from dataclasses import replace

import pytest

from tests.compare.labelled_runs import labelled_run, score
from tests.compare.planted_faults import faulty_run
from tui_evals.compare import failure_map
from tui_evals.compare.failure_map import cluster_of, keep_failure_map, read_changes, read_failure_map
from tui_evals.compare.runs import read_comparison
from tui_evals.present.failure_map import (
    change_text,
    cluster_text,
    headline,
    map_lines,
    read_example,
)
from tui_evals.store import failures, lookup
from tui_evals.store.filters import parse_filter
from tui_evals.store.reader import Reader
from tui_evals.store.writer import Writer

pytestmark = pytest.mark.story


async def test_four_planted_faults_are_four_clusters_with_what_they_have_in_common(tmp_path):
    path, run = await faulty_run(tmp_path)
    with Reader(path) as reader:
        found = read_failure_map(reader, run)
        texts = [cluster_text(cluster) for cluster in found.clusters]
    assert [(text.count, text.what.partition(" · ")[0], text.where) for text in texts] == [
        ("900", "error", "target small"),
        ("300", "Length", "prompt friendly"),
        ("150", "Includes", "category refunds"),
        ("129", "Relevance", ""),
    ]
    assert "refuses connections" in texts[0].what
    assert [text.share for text in texts] == ["50 %", "33 %", "17 %", "14 %"]


async def test_an_answer_with_several_failures_is_in_each_cluster_and_the_headline_says_so(tmp_path):
    path, run = await faulty_run(tmp_path)
    with Reader(path) as reader:
        found = read_failure_map(reader, run)
    both = set(found.clusters[1].answers) & set(found.clusters[2].answers)
    assert both
    assert found.failures == sum(cluster.count for cluster in found.clusters) > found.failing
    assert f"{found.failing:,} of 1,800 answers fail, {found.failures:,} times" in headline(found)


async def test_changes_are_held_against_the_run_before_and_keys_stay(tmp_path):
    path, healthy = await faulty_run(tmp_path, 30, healthy=True)
    _, first = await faulty_run(tmp_path, 30)
    _, second = await faulty_run(tmp_path, 30)
    _, longer = await faulty_run(tmp_path, 60)
    with Reader(path) as reader:
        maps = [read_failure_map(reader, run) for run in (healthy, first, second, longer)]
    assert maps[0].clusters == ()
    assert {change_text(cluster) for cluster in maps[1].clusters} == {"new"}
    assert {change_text(cluster) for cluster in maps[2].clusters} == {"0"}
    assert [one.key for one in maps[1].clusters] == [one.key for one in maps[2].clusters]
    assert {change_text(cluster).split()[-1] for cluster in maps[3].clusters} == {"points"}
    assert cluster_of(maps[2], maps[1].clusters[0].key[:6]) == maps[2].clusters[0]
    assert maps[2].earlier.key == first.key


async def test_a_large_run_is_read_over_several_connections_with_the_same_map(tmp_path, monkeypatch):
    path, _ = await faulty_run(tmp_path, 30)
    _, run = await faulty_run(tmp_path, 30)
    with Reader(path) as reader:
        whole = read_failure_map(reader, run)
        monkeypatch.setattr(failure_map, "MADE_AHEAD", 1)
        assert read_failure_map(reader, run) == whole
        items = reader.dataset(run).items
        assert lookup.asked_items(reader.query, run, [3, 29, 3, 30]) == {number: items[number] for number in (3, 29)}
        # More than a function of SQLite takes arguments.
        assert lookup.asked_items(reader.query, run, range(200)) == dict(enumerate(items))


async def test_the_map_of_a_large_run_is_kept_until_something_changes(tmp_path, monkeypatch):
    monkeypatch.setattr(failure_map, "MADE_AHEAD", 1)
    path, _ = await faulty_run(tmp_path, 30)
    _, run = await faulty_run(tmp_path, 30)
    with Writer(path) as writer, Reader(path) as reader:
        made = read_failure_map(reader, run)
        keep_failure_map(writer, made)
        writer.flush()
        of_cluster = reader.ids(run.id, parse_filter(f"cluster:{made.clusters[1].key[:8]}"))
        with monkeypatch.context() as patched:
            patched.setattr(failure_map, "FailureGroups", None)  # nothing is grouped again
            patched.setattr(failures, "FailureGroups", None)
            assert read_failure_map(reader, run) == made
            assert reader.ids(run.id, parse_filter(f"cluster:{made.clusters[1].key[:8]}")) == of_cluster
        assert sorted(of_cluster) == list(made.clusters[1].answers)

        writer.label(made.clusters[1].answers[0], "pass", "ada")
        assert reader.kept_failures(run) is None

        keep_failure_map(writer, read_failure_map(reader, run))
        writer.flush()
        assert reader.kept_failures(run) is not None
        monkeypatch.setattr(failures, "RULES", failures.RULES + 1)
        assert reader.kept_failures(run) is None
        writer.delete_run(run)
        assert reader.session(failures.kept_name(run.id)) is None


async def test_a_map_that_came_with_a_store_of_others_is_not_believed(tmp_path, monkeypatch):
    """The chain of a run covers its rows, and not a map that was kept of them."""
    monkeypatch.setattr(failure_map, "MADE_AHEAD", 1)
    path, run = await faulty_run(tmp_path, 30)
    with Writer(path) as writer, Reader(path) as reader:
        made = read_failure_map(reader, run)
        keep_failure_map(writer, replace(made, clusters=(), failing=0, failures=0))
        writer.flush()
        assert read_failure_map(reader, run).failing == 0, "what this user kept is used"
    monkeypatch.setattr(Reader, "is_foreign", True)
    with Reader(path) as reader:
        assert read_failure_map(reader, run) == made
        assert reader.ids(run.id, parse_filter(f"cluster:{made.clusters[0].key[:8]}"))


async def test_what_broke_or_was_fixed_is_grouped_by_what_is_judged_otherwise(tmp_path):
    path, before = await faulty_run(tmp_path, 60, healthy=True)
    _, after = await faulty_run(tmp_path, 60)
    with Reader(path) as reader:
        for runs, kind in (((before, after), "broken"), ((after, before), "fixed")):
            comparison = read_comparison(reader, [run.id for run in runs])
            changes = read_changes(reader, comparison)
            assert list(changes) == [kind]
            assert [one.evaluator for one in changes[kind]] == ["Length", "Includes", "Relevance"]
            assert changes[kind][0].columns == ("big · friendly",)
            listed = [number for one in changes[kind] for number in one.lines]
            assert len(listed) == len(set(listed))
            assert set(listed) == {at for at, line in enumerate(comparison.lines) if kind in line.kinds}
            assert "words, more than 30" in changes[kind][0].lines[min(changes[kind][0].lines)]


async def test_reasons_that_differ_in_a_deciding_word_stay_apart_and_rare_ones_go_together(tmp_path):
    reasons = ["has 3 words, fewer than 5"] * 10 + ["has 9 words, more than 5"] * 10
    reasons += [f"{first} {second} broke" for first in ("alpha", "beta") for second in ("kilo", "lima", "mike")]
    scores = [[score(value=0.0, result="fail", reason=reason)] for reason in reasons]
    path, run = await labelled_run(tmp_path, scores)
    with Reader(path) as reader:
        clusters = read_failure_map(reader, reader.run(run.id)).clusters
    assert [(one.count, one.reason) for one in clusters[:2]] == [
        (10, "has 3 words, fewer than 5"),
        (10, "has 9 words, more than 5"),
    ]
    assert sum(one.count for one in clusters) == len(reasons)


async def test_an_example_has_the_question_the_expectation_the_answer_and_the_reason(tmp_path):
    path, run = await faulty_run(tmp_path, 30)
    with Reader(path) as reader:
        found = read_failure_map(reader, run)
        includes = next(one for one in found.clusters if one.evaluator == "Includes")
        example = read_example(reader, run, includes)
        dead = read_example(reader, run, found.clusters[0])
    assert example.parts == (
        ("asked", "Until when may a customer of Q2 return item 1?"),
        ("expected", "Within 14 days, unused, with the receipt."),
        ("answer", "You may return item 1 within 14 days of delivery."),
        ("why", 'Includes 0: "11 days" is not in the answer'),
    )
    assert dead.said == ""
    assert "refuses connections" in dead.why


@pytest.mark.parametrize("room", [80, 120, 160])
async def test_the_lines_after_a_run_fit_and_are_at_most_twenty(tmp_path, room):
    path, run = await faulty_run(tmp_path, 30)
    with Reader(path) as reader:
        lines = map_lines(reader, read_failure_map(reader, run), room=room)
    assert 0 < len(lines) <= 20
    assert max(map(len, lines[2:])) <= room
    assert all(any(word in line for line in lines) for word in ("small", "friendly", "refunds", "Relevance"))
