"""Files that go along with questions, against a real server: what is sent, what is kept, and what is refused."""

import base64
import json

import pytest

from tests.runs.conftest import FREE
from tests.runs.test_simulated_users import detail, run
from tui_evals.datasets.attachments import MAX_BYTES, CannotAttach, media_type
from tui_evals.targets import a2a

PNG = b"\x89PNG\r\n\x1a\n" + b"picture"
WAV = b"RIFF\x00\x00\x00\x00WAVEfmt "
PDF = b"%PDF-1.7 \xff"


def ask(project, *files, messages=None, **item):
    for name, content in (("a.png", PNG), ("b.wav", WAV), ("c.pdf", PDF), ("d.csv", b"x,1\n")):
        (project.folder / name).write_bytes(content)
    item = {"testId": "T1", "prompt": "What is it?", "attachments": list(files), **item}
    document = {"schemaVersion": "1.11.0", "default_evaluators": {}, "items": [item]}
    (project.folder / "data.json").write_text(json.dumps({**document, **({"messages": messages} if messages else {})}))


def sent(project):
    return project.server.last()["body"]["messages"]


def test_files_go_along_in_the_form_of_the_protocol_and_are_kept_by_hash(project):
    project.configure(FREE)
    before = [{"role": "system", "content": [{"type": "attachment", "path": "d.csv"}]}]
    ask(project, "a.png", "b.wav", "c.pdf", messages=before)
    run(project)
    table, asked = sent(project)
    assert table["content"] == [{"type": "text", "text": "d.csv:\nx,1\n"}]
    text, picture, sound, page = asked["content"]
    assert text == {"type": "text", "text": "What is it?"}
    assert picture["image_url"]["url"] == f"data:image/png;base64,{base64.b64encode(PNG).decode()}"
    assert sound["input_audio"] == {"data": base64.b64encode(WAV).decode(), "format": "wav"}
    assert page["file"]["filename"] == "c.pdf" and page["file"]["file_data"].startswith("data:application/pdf;base64,")
    kept = json.dumps(detail(project).answer.request)
    assert '"sha256"' in kept and base64.b64encode(PNG).decode() not in kept
    shown = project.do("show", "last", "--item", "T1")
    assert "[a.png, image/png, 15 bytes]" in shown and "[c.pdf, application/pdf" in shown
    count = project.server.counts()["asked"]
    run(project)
    assert project.server.counts()["asked"] == count and detail(project).answer.from_cache
    (project.folder / "a.png").write_bytes(PNG + b"2")
    run(project)
    assert project.server.counts()["asked"] == count + 1 and not detail(project).answer.from_cache


def test_a_file_that_changed_is_never_sent_for_the_one_of_the_run(project):
    project.configure(f"retries = 0\n{FREE}")
    ask(project, "a.png", prompt="[[500]] What?")
    run(project, code=None)
    count = project.server.counts()["asked"]
    (project.folder / "a.png").write_bytes(PNG + b"2")
    project.do("resume", "last", "--errors", code=None)
    one = detail(project)
    assert one.row.code == "agentRequestFailed"
    assert "'a.png' has changed since the run was planned" in one.answer.message
    assert project.server.counts()["asked"] == count


def test_the_responses_api_gets_them_in_its_own_words(project):
    project.configure(FREE, api="responses")
    ask(project, "a.png", "b.wav", "c.pdf")
    run(project, code=None)
    (asked,) = project.server.last()["body"]["input"]
    assert [part["type"] for part in asked["content"]] == ["input_text", "input_image", "input_audio", "input_file"]
    assert asked["content"][1]["image_url"].startswith("data:image/png;base64,")


def test_code_of_the_project_gets_them_too(project):
    (project.folder / "mine.py").write_text(
        "def answer(messages):\n    return messages[-1]['content'][1]['image_url']['url']\n"
    )
    project.configure(f'{FREE}[targets.mine]\nmodel = "python:mine:answer"')
    ask(project, "a.png")
    project.do("run", "data.json", "--target", "mine", "--trust")
    assert detail(project).answer.text.startswith("data:image/png;base64,")


def test_what_cannot_go_along_is_said_with_its_line_and_nothing_is_asked(project):
    project.configure(FREE)
    outside = project.folder.parent / "outside.png"
    outside.write_bytes(PNG)
    (project.folder / "link.png").symlink_to(outside)
    (project.folder / "wrong.png").write_bytes(b"GIF89a")
    (project.folder / "none.bin").write_bytes(b"\xff\x00")
    (project.folder / ".env").write_text("KEY=1")
    with (project.folder / "big.txt").open("wb") as file:
        file.truncate(MAX_BYTES + 1)
    wanted = {
        "../outside.png": "is no path to a file in the dataset's folder",
        str(outside): "is no path to a file in the dataset's folder",
        ".env": "without .. and hidden names",
        "link.png": "leads out of the dataset's folder",
        "http://127.0.0.1/a.png": "is an address. Nothing is downloaded",
        "gone.png": "there is no file 'gone.png'",
        "wrong.png": "is image/gif by its content; name it .gif",
        "none.bin": "is no picture, sound, PDF or text",
        "big.txt": "is larger than the 20 MB",
        ".": "there is no file '.'",
    }
    ask(project, *wanted)
    said = project.do("validate", "data.json", code=None)
    assert [reason for reason in wanted.values() if reason not in said] == [] and "data.json:1: items[0].attach" in said
    assert "leads out" in run(project, code=2) and not project.server.counts()["asked"]
    ask(project, 7, {"path": "a.png", "sha": 1}, {"path": "a.png", "sha256": "0"})
    said = project.do("validate", "data.json", code=None)
    assert "must be the path of a file" in said and "unknown field 'sha'" in said


def test_a_service_gets_files_as_parts_of_a_form_and_in_its_own_json(project):
    ask(project, "a.png", "d.csv")
    section = f'[targets.main.http]\nurl = "{project.server.url.removesuffix("/v1")}/service/'
    config = project.folder / ".evals" / "config.toml"
    config.parent.mkdir(exist_ok=True)
    config.write_text(
        f'{section}form"\nmultipart = {{ message = "{{{{ prompt }}}}", upload = "{{{{ attachments }}}}" }}\n'
    )
    run(project)
    sent_body = project.server.last()["body"]
    assert sent_body["fields"] == {"message": "What is it?\nd.csv:\nx,1\n"}  # a text stands in the question too
    assert sent_body["files"] == [f"a.png: image/png, {len(PNG)}", "d.csv: text/csv, 4"]
    checked = project.do("targets", "check", "main", code=None)
    assert "multipart/form-data" in checked
    config.write_text(f'{section}chat"\nbody = {{ message = "{{{{ prompt }}}}", files = "{{{{ attachments }}}}" }}\n')
    run(project)
    picture, table = project.server.last()["body"]["files"]
    assert picture == {"name": "a.png", "type": "image/png", "data": base64.b64encode(PNG).decode()}
    assert base64.b64decode(table["data"]) == b"x,1\n"


def test_a_function_gets_the_files_of_the_question_it_is_asked(project):
    turns = [{"prompt": "What is it?", "attachments": ["a.png"]}, {"prompt": "And that?", "attachments": ["c.pdf"]}]
    ask(project)
    (project.folder / "data.json").write_text(json.dumps({"schemaVersion": "1.11.0", "items": [{"turns": turns}]}))
    (project.folder / "agent.py").write_text(
        "def answer(attachments):\n"
        "    return ' '.join(f'{file.name} {file.media_type} {len(file.content)}' for file in attachments)\n"
    )
    project.do("run", "data.json", "--target", "python:agent.py:answer", "--without-judges", code=None)
    with project.reader() as reader:
        texts = [reader.detail(row.id).answer.text for row in reader.all_rows(reader.find_run("last").id)]
    assert texts == [f"a.png image/png {len(PNG)}", f"c.pdf application/pdf {len(PDF)}"]


def test_an_agent_gets_a_sound_by_its_bytes():
    sound = {"type": "input_audio", "input_audio": {"data": base64.b64encode(WAV).decode(), "format": "wav"}}
    assert a2a._part(sound) == {"raw": WAV, "media_type": "audio/wav"}


@pytest.mark.parametrize(("name", "content"), [("x.png", b"text"), ("x.mp3", PNG), ("x", PNG), ("x.wav", b"RIFF")])
def test_a_name_that_does_not_fit_the_content_is_refused(name, content):
    with pytest.raises(CannotAttach):
        media_type(name, content)


@pytest.mark.nightly
def test_workers_of_a_cluster_send_files_too(project):
    project.configure(FREE)
    ask(project, "a.png")
    run(project, "--cluster", "local:2")
    assert sent(project)[0]["content"][1]["image_url"]["url"].startswith("data:image/png;base64,")


PRICED = "price = { input_per_million = 1000.0, output_per_million = 0.0 }\n"


def planned(project, *words):
    found = json.loads(project.do("run", "data.json", "--target", "main", "--plan", "--json", *words))
    return found["cost"], found["with_files"]


def test_a_plan_says_that_pictures_are_not_counted_and_counts_texts(project):
    project.configure(PRICED)
    ask(project)
    plain, none = planned(project)
    assert none == 0 and "without the pictures" not in project.do("run", "data.json", "--target", "main", "--plan")
    ask(project, "a.png", "b.wav")
    assert planned(project, "--repeats", 3) == (pytest.approx(3 * plain), 3)
    says = project.do("run", "data.json", "--target", "main", "--plan")
    assert f"about ${plain:.4f}, without the pictures, sounds and PDFs in 1 call, which are not counted" in says
    (project.folder / "long.csv").write_text("1,2\n" * 1_000)
    ask(project, "long.csv")
    assert planned(project) == (pytest.approx(plain + 1.0), 0)
    project.configure(FREE)
    ask(project, "a.png")
    assert planned(project) == (0, 0)


def write(project, item, **root):
    document = {"schemaVersion": "1.11.0", "default_evaluators": {}, "items": [item], **root}
    (project.folder / "data.json").write_text(json.dumps(document))


def test_pictures_in_chats_are_in_every_question_behind_them(project):
    project.configure(PRICED)
    picture = {"type": "image_url", "image_url": {"url": "https://example.com/a.png"}}
    before = [{"role": "user", "content": [{"type": "text", "text": "Look."}, picture]}]
    write(project, {"turns": [{"prompt": "What is it?"}, {"prompt": "And now?", "messages": before}]})
    assert planned(project)[1] == 1
    write(project, {"messages": before, "turns": [{"prompt": "What is it?"}, {"prompt": "And now?"}]})
    assert planned(project)[1] == 2
    run(project)
    assert planned(project) == (0, 0)  # all of it is known


def test_a_plan_counts_what_stands_before_a_question(project):
    project.configure(PRICED)
    question = {"prompt": "What is it?"}
    write(project, question)
    plain, _ = planned(project)
    system = {"role": "system", "content": "Be {{how}}." + "1234" * 996}
    write(project, question, messages=[system], variables={"how": "kind and patient"})
    assert planned(project)[0] == pytest.approx(plain + 1.001)
    write(project, {"turns": [question, question]})
    assert planned(project)[0] > 2 * plain + 0.25  # with the first answer
    write(project, question, tools=[{"type": "function", "function": {"name": "look", "description": "1234" * 1000}}])
    assert planned(project)[0] > plain + 1.0
