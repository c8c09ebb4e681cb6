"""The configuration file, the environment files, and what a word on the command line means."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tui_evals.targets.base import ConfigurationError, Price, TargetConfig
from tui_evals.targets.config import RunDefaults, Settings, find_target, is_model, load_settings
from tui_evals.targets.environment import environment

FULL = """
[run]
targets = ["gpt"]
concurrency = 20
repeats = 3
max_cost = 5
[judge]
target = "gpt"
[targets.gpt]
model = "openai/gpt-4o-mini"
base_url = "http://127.0.0.1:8000/v1"
api_key = "env:OPENAI_API_KEY"
params = { temperature = 0, max_tokens = 512 }
concurrency = 50
requests_per_minute = 600
tokens_per_minute = 200000
timeout = 30
price = { input_per_million = 0.15, output_per_million = 0.60 }
via = "litellm"
[targets.own]
model = "python:agent:answer"
[ui]
theme = "textual-dark"
"""


def settings_of(root, text, **options):
    (root / ".evals").mkdir(exist_ok=True)
    (root / ".evals" / "config.toml").write_text(text)
    return load_settings(root, **options)


def test_every_setting_is_read(tmp_path):
    gpt = TargetConfig(
        name="gpt",
        model="openai/gpt-4o-mini",
        base_url="http://127.0.0.1:8000/v1",
        api_key="env:OPENAI_API_KEY",
        params={"temperature": 0, "max_tokens": 512},
        concurrency=50,
        requests_per_minute=600,
        tokens_per_minute=200000,
        timeout=30,
        price=Price(0.15, 0.60),
        via="litellm",
    )
    own = TargetConfig(name="own", model="python:agent:answer", concurrency=20)
    assert settings_of(tmp_path, FULL) == Settings(
        run=RunDefaults(targets=("gpt",), concurrency=20, repeats=3, max_cost=5.0),
        judge="gpt",
        targets={"gpt": gpt, "own": own},
        ui={"theme": "textual-dark"},
    )


def test_all_is_optional(tmp_path):
    assert load_settings(tmp_path) == settings_of(tmp_path, "") == settings_of(tmp_path, "[judge]") == Settings()


SECRET = "sk-canary-0123456789"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[runs]", "there is no setting runs (did you mean 'run'?); known here are run, judge, store, targets, ui"),
        ("[run]\ntarget = 1", "there is no setting run.target (did you mean 'targets'?)"),
        (
            "[targets.a]\nmodle = 'demo'",
            "config.toml:1: targets.a.model is missing; line 2: there is no setting targets.a.modle (did you mean",
        ),
        (
            "[targets.a]\nmodel = 'demo'\nprice = { input = 1, output_per_million = 1 }",
            "there is no setting targets.a.price.input; known here are input_per_million, output_per_million",
        ),
        ("[run]\nconcurrency = 0", "run.concurrency should be greater than or equal to 1"),
        ("[run]\nrepeats = '3'", "run.repeats should be a valid integer"),
        ("[run]\nmax_cost = nan", "run.max_cost should be a finite number"),
        ("[run]\ntargets = 'gpt'", "run.targets should be a valid list"),
        ("targets = 1", "targets should be"),
        ("[targets]\ngpt = 1", "targets.gpt should be"),
        ("[targets.a]\nmodel = 'demo'\nvia = 'x'", "targets.a.via should be 'auto' or 'litellm'"),
        ("[targets.a]\nmodel = 'demo'\ntimeout = 0", "targets.a.timeout should be greater than 0"),
        ("[targets.a]\nmodel = 'gpt'", "targets.a.model: a model is written as provider/name"),
        ("[targets.a]\nmodel = 'replay:'", "targets.a.model: a model is written as"),
        ("[targets.'a,b']\nmodel = 'demo'", "targets.a,b: the name of a target must hold no comma"),
        (f"[targets.a]\nmodel = 'demo'\napi_key = '{SECRET}'", "targets.a.api_key must name an environment variable"),
        (
            f"[targets.a]\nmodel = 'demo'\napi_key = 'env:{SECRET}'",
            "targets.a.api_key must name an environment variable",
        ),
        (f"[targets.a]\nmodel = 'demo'\nparams.api_key = '{SECRET}'", "targets.a.params must hold no key or password"),
        (
            f"[targets.a]\nmodel = 'demo'\nparams.headers = [{{ Authorization = '{SECRET}' }}]",
            "targets.a.params must hold no key or password",
        ),
        ("[targets.a]\nmodel = 'demo'\nparams.day = 2031-04-14", "targets.a.params must hold text, finite numbers"),
        ("[targets.a]\nmodel = 'demo'\nparams.top_p = inf", "targets.a.params must hold text, finite numbers"),
        (f"[targets.a]\nmodel = 'a/b'\nbase_url = 'http://me:{SECRET}@host/v1'", "targets.a.base_url must hold no key"),
        (f"[targets.a]\nmodel = 'a/b'\nbase_url = 'http://host/v1?apikey={SECRET}'", "base_url must hold no key"),
        ("[targets.a]\nmodel = 'a/b'\nbase_url = 'wss://host/v1'", "targets.a.base_url is a websocket"),
        ("[targets.a.http]\nurl = 'ws://host/v1'", "targets.a.http.url is a websocket, which tui-evals does not speak"),
        ("[targets.a]\nmodel = 'a/b'\nbase_url = 'host:8000'", "targets.a.base_url must be an address such as http://"),
        ("[targets.a]\nmodel = 'a/b'\nbase_url = 'http://[oops'", "targets.a.base_url"),
        (f"[targets.a\nmodel = '{SECRET}'", "is not valid TOML"),
    ],
)
def test_a_fault_names_the_file_and_the_setting_and_no_secret(tmp_path, text, said):
    with pytest.raises(ConfigurationError) as raised:
        settings_of(tmp_path, text, whole=True)
    message = str(raised.value)
    assert said in message
    assert str(tmp_path / ".evals" / "config.toml") in message
    assert "canary" not in message
    assert "\n" not in message


@pytest.mark.parametrize("url", ["env:MY_URL", "https://host/v1?api-version=preview", "http://[::1]:8000/v1"])
def test_an_address_may_be_a_reference_or_hold_a_query(tmp_path, url):
    read = settings_of(tmp_path, f"[targets.a]\nmodel = 'plain-name'\nbase_url = '{url}'")
    assert read.targets["a"].base_url == url


@pytest.mark.parametrize("raw", [b"\xff\xfe", b"a = '\xe9'"])
def test_a_file_that_is_no_text_is_a_sentence(tmp_path, raw):
    (tmp_path / ".evals").mkdir()
    (tmp_path / ".evals" / "config.toml").write_bytes(raw)
    with pytest.raises(ConfigurationError, match=r"config\.toml cannot be read"):
        load_settings(tmp_path, whole=True)


HEADS = [
    "[run]",
    "[judge]",
    "[targets.a]",
    "[targets]",
    "[targets.a.price]",
    "[ui]",
    "[[targets]]",
    "[run.targets]",
    "",
]
KEYS = [
    "targets",
    "target",
    "model",
    "base_url",
    "api_key",
    "params",
    "price",
    "via",
    "timeout",
    "ui",
    "concurrency",
    "x",
]
VALUES = [
    "1",
    "-1",
    "nan",
    "'demo'",
    "'http://h/v1'",
    "'http://['",
    "'env:A'",
    "[]",
    "['a']",
    "{}",
    "{ a = 1 }",
    "2031-04-14",
]
LINES = st.builds("{} = {}".format, st.sampled_from(KEYS), st.sampled_from(VALUES)) | st.sampled_from(HEADS)


@given(st.lists(LINES, max_size=6).map("\n".join) | st.text(max_size=40))
def test_any_text_is_settings_or_a_configuration_error(tmp_path_factory, text):
    root = tmp_path_factory.getbasetemp() / "any"
    root.mkdir(exist_ok=True)
    try:
        assert isinstance(settings_of(root, text), Settings)
    except ConfigurationError as problem:
        assert "config.toml" in str(problem)


@pytest.mark.parametrize(
    ("word", "known"),
    [
        ("openai/gpt-4o-mini", True),
        ("hosted_vllm/meta-llama/Llama-3", True),
        ("ollama_chat/llama3:8b", True),
        ("bedrock/anthropic.claude-v2:1", True),
        ("replay:answers.csv", True),
        ("python:agent:answer", True),
        ("command:./agent.sh --fast", True),
        ("demo", True),
        ("gpt-4o", False),
        ("replay:", False),
        ("command: ", False),
        ("/x", False),
        ("x/", False),
        ("", False),
    ],
)
def test_a_word_is_a_model_by_its_spelling(word, known):
    assert is_model(word) == known
    settings = Settings(run=RunDefaults(concurrency=7))
    if known:
        assert find_target(word, settings) == TargetConfig(name=word, model=word, concurrency=7)
        assert find_target(word, Settings()) == TargetConfig(name=word, model=word)
    else:
        with pytest.raises(ConfigurationError):
            find_target(word, settings)


def test_a_section_goes_before_a_spelling_and_the_nearest_is_named():
    section = TargetConfig(name="demo", model="openai/x")
    settings = Settings(targets={"demo": section, "gpt": TargetConfig(name="gpt", model="openai/y")})
    assert find_target("demo", settings) is section
    with pytest.raises(ConfigurationError, match=r"^wss://host/chat is a websocket, which tui-evals does not speak"):
        find_target("wss://host/chat", settings)
    with pytest.raises(ConfigurationError, match=r"there is no target gtp in .*demo, gpt \(did you mean 'gpt'\?\)"):
        find_target("gtp", settings)


def _only(name):
    return f"ONLY_{name.upper().translate(str.maketrans('./', '__'))}"


@pytest.fixture
def files(tmp_path, monkeypatch):
    monkeypatch.delenv("WHO", raising=False)

    def write(*names):
        for name in names:
            file = tmp_path / name
            file.parent.mkdir(exist_ok=True)
            file.write_text(f"WHO={name}\n{_only(name)}=1\n")
        return tmp_path

    return write


@pytest.mark.parametrize(
    ("written", "name", "who", "remark"),
    [
        ([], None, None, None),
        ([".env"], None, None, None),
        ([".env.local"], None, ".env.local", None),
        ([".env.local", ".env.local.user"], None, ".env.local.user", None),
        (["env/.env.local", "env/.env.local.user", ".env.local.user"], None, "env/.env.local.user", None),
        ([".env.dev", ".env.dev.user", "env/.env.dev"], None, ".env.dev.user", None),
        ([".env.local", ".env.dev", ".env.dev.user"], None, ".env.local", ".env.dev does not"),
        (["env/.env.local", ".env.dev"], None, "env/.env.local", ".env.dev does not"),
        (
            [".env.prod", "env/.env.test", ".env.example"],
            None,
            None,
            "but .env.prod, .env.test; choose with --env NAME",
        ),
        ([".env.local", ".env.local.user", "env/.env.prod"], "prod", "env/.env.prod", None),
        ([".env.local", ".env.local.user", ".env.dev"], "prod", ".env.local.user", "--env prod adds nothing"),
        ([".env.prod"], "prod", None, "--env prod adds nothing"),
    ],
)
def test_environment_files_are_layered(files, written, name, who, remark):
    values, remarks = environment(files(*written), name, {"WHO", *map(_only, written)})
    assert values.get("WHO") == who
    assert len(remarks) == bool(remark)
    assert remark is None or remark in remarks[0]


def test_layers_add_up_and_the_process_wins(files, monkeypatch):
    root = files(".env.local", ".env.local.user", "env/.env.prod")
    names = {"ONLY__ENV_LOCAL", "ONLY__ENV_LOCAL_USER", "ONLY_ENV__ENV_PROD"}
    assert names <= environment(root, "prod", names)[0].keys()
    monkeypatch.setenv("WHO", "process")
    assert environment(root, "prod", ("WHO",))[0]["WHO"] == "process"


STEERING = [
    "PYTHONPATH",
    "LD_PRELOAD",
    "DYLD_INSERT_LIBRARIES",
    "PATH",
    "HTTPS_PROXY",
    "SSL_CERT_FILE",
    "TUI_EVALS_TRUST",
]


@pytest.mark.parametrize("name", [*STEERING, "ANYTHING"])
def test_a_file_of_the_project_sets_only_what_belongs_to_providers_or_is_named(tmp_path, name, monkeypatch):
    monkeypatch.delenv(name, raising=False)
    (tmp_path / ".env.local").write_text(f"{name}=x\nOPENAI_API_KEY=k\n")
    values, remarks = environment(tmp_path, None, STEERING)
    assert name not in values
    assert values["OPENAI_API_KEY"] == "k"
    assert f".env.local may not set {name}: " in remarks[0]
    assert values.file_of("OPENAI_API_KEY") == tmp_path / ".env.local"
    monkeypatch.setenv(name, "of the process")
    assert environment(tmp_path)[0][name] == "of the process"


def test_values_are_taken_as_they_stand_and_nothing_enters_the_process(tmp_path):
    import os

    before = dict(os.environ)
    (tmp_path / ".env.local").write_text(
        "FIRST=1\nexport KEY='a b'\nEMPTY=\nBARE\nREFERS=${HOME}/x\n!!! sk-canary\nLAST=1\n", encoding="utf-8-sig"
    )
    names = ("FIRST", "KEY", "EMPTY", "BARE", "REFERS", "LAST")
    values, remarks = environment(tmp_path, None, names)
    assert [values.get(name) for name in names[1:]] == [
        "a b",
        "",
        None,
        "${HOME}/x",
        "1",
    ]
    assert values["FIRST"] == "1"
    assert remarks == (f"{tmp_path / '.env.local'}, line 6: not NAME=value, passed over",)
    assert dict(os.environ) == before


def test_an_environment_file_that_is_no_text_is_a_sentence(tmp_path):
    (tmp_path / ".env.local").write_bytes(b"A=\xff")
    with pytest.raises(ConfigurationError, match=r"\.env\.local cannot be read: it is not UTF-8 text"):
        environment(tmp_path)


def test_a_fault_in_one_target_is_an_error_of_that_target_alone(tmp_path):
    text = (
        '[targets.good]\nmodel = "demo"\n[targets.bad]\nmodel = "openai/m"\ntimeout = 0\n[targets.odd]\nmodel = "gpt"'
    )
    settings = settings_of(tmp_path, text)
    assert find_target("good", settings).model == "demo" and set(settings.targets) == {"good"}
    for name, said in (
        ("bad", r"config\.toml:5: targets\.bad\.timeout"),
        ("odd", r"config\.toml:7: targets\.odd\.model"),
    ):
        with pytest.raises(ConfigurationError, match=said):
            find_target(name, settings)


def test_parameters_that_a_setting_does_are_refused_with_that_setting(tmp_path):
    for param, said in (
        ("stream = true", "stream = true"),
        ("n = 3", "--repeats"),
        ("messages = []", "dataset"),
        ("model = 'x'", "-P model=a,b"),
    ):
        settings = settings_of(tmp_path, f"[targets.m]\nmodel = 'openai/m'\nparams = {{ {param} }}")
        with pytest.raises(ConfigurationError, match=said):
            find_target("m", settings)
    assert "m" in settings_of(tmp_path, "[targets.m]\nmodel = 'openai/m'\nparams = { n = 1 }").targets
    own = "[targets.m.http]\nurl = 'https://host/chat'\n[targets.m.params]\nstream = true"
    assert "m" in settings_of(tmp_path, own).targets


def test_a_swept_model_is_the_model_that_is_asked():
    settings = Settings()
    found = [find_target(f"openai/m@model={model}", settings) for model in ("gpt-4o", "openai/gpt-4o-mini")]
    assert [config.model for config in found] == ["openai/gpt-4o", "openai/gpt-4o-mini"]
    assert [config.params for config in found] == [{}, {}]
    kept = Settings(targets={"m": TargetConfig(name="m", model="openai/m", api_key="env:KEY")})
    with pytest.raises(ConfigurationError, match="a section of its own"):
        find_target("m@model=anthropic/claude-x", kept)
    with pytest.raises(ConfigurationError, match="no model of a provider"):
        find_target("demo@model=x", settings)
    with pytest.raises(ConfigurationError, match="--repeats"):
        find_target("openai/m@n=3", settings)
