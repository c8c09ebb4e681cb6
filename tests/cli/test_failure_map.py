"""`show --map`: what failed in a run, and the filter that lists a cluster."""

import json

from tests.compare.planted_faults import faulty_run


async def test_the_map_names_the_faults_and_its_filter_lists_a_cluster(tmp_path, monkeypatch, shell):
    await faulty_run(tmp_path, 30)
    monkeypatch.chdir(tmp_path)
    shown = shell("show", "last", "--map")
    assert shown.code == 0
    assert all(word in shown.out for word in ("target small", "prompt friendly", "category refunds", "Relevance"))
    data = json.loads(shell("show", "last", "--map", "--json").out)
    assert [cluster["count"] for cluster in data["clusters"]] == [90, 30, 15, 12]
    assert data["clusters"][1]["mostly"] == {"prompt": ["friendly"]}
    for cluster in data["clusters"]:
        listed = json.loads(shell("show", "last", "--only", f"cluster:{cluster['key'][:8]}", "--json").out)
        assert [answer["id"] for answer in listed["answers"]] == cluster["answers"]
    assert shell("show", "last", "--map", "--by", "target").code == 2
    assert shell("show", "last", "--only", "cluster:zebra").code == 2


async def test_the_map_of_a_run_without_failures_says_so(tmp_path, monkeypatch, shell):
    await faulty_run(tmp_path, 3, healthy=True)
    monkeypatch.chdir(tmp_path)
    assert "No failures in 18 answers." in shell("show", "last", "--map").out
