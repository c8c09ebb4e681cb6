"""The filter that is printed with a cause, held to the answers that the raw rows have for it."""

import asyncio
from collections import defaultdict

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.store.helpers import cells, judged, new_run, said
from tui_evals.present.answers import cause_filter
from tui_evals.store import run_figures
from tui_evals.store.database import open_store
from tui_evals.store.filters import parse_filter
from tui_evals.store.reader import Reader
from tui_evals.store.writer import Writer

MESSAGES = ("the backend is down", "no such model", 'answered "x" instead of yes', "50% of \\ the [quota] is used up")
WHAT = st.one_of(
    st.tuples(
        st.just("error"), st.sampled_from(("timeout", "agentRequestFailed", "noReply")), st.sampled_from(MESSAGES)
    ),
    st.tuples(st.just("unjudged"), st.just("Match"), st.sampled_from(MESSAGES)),
    st.tuples(st.just("unjudged"), st.just("Tone"), st.sampled_from(("no verdict in the reply", "timeout"))),
    st.tuples(st.just("cut"), st.sampled_from(("length", "content_filter")), st.just("")),
    st.just(("answered", "", "")),
)


@settings(max_examples=40, deadline=None)
@given(st.lists(WHAT, min_size=1, max_size=10))
def test_the_filter_of_a_cause_finds_its_answers_and_no_others(tmp_path_factory, kinds):
    path = open_store(tmp_path_factory.mktemp("causes") / "evals.db")
    expected = defaultdict(set)
    with Writer(path) as writer, Reader(path) as reader:
        run = writer.plan(new_run(), cells(len(kinds)))

        async def answer_all():
            for answer, what in zip(reader.ids(run.id), kinds, strict=True):
                kind, word, message = what
                expected[what].add(answer)
                if kind == "error":
                    await writer.answered(answer, said(None, code=word, message=message), "error")
                    continue
                await writer.answered(answer, said(finish_reason=word if kind == "cut" else "stop"), "answered")
                scores = [judged(key=word, score=None, result="error", reason=message)] if kind == "unjudged" else []
                await writer.scored(answer, 1, [*scores, judged(key="Other")], "partial" if scores else "pass", None)

        asyncio.run(answer_all())
        causes = run_figures.causes(reader, run.id)
        found = [{*reader.ids(run.id, parse_filter(cause_filter(cause, causes)))} for cause in causes]
    assert [len(one) for one in found] == [cause.count for cause in causes]
    assert sorted(map(sorted, found)) == sorted(sorted(ids) for what, ids in expected.items() if what[0] != "answered")
