"""Providers of promptfoo that are an address become HTTP targets, which ask the same."""

import json

from tests.imports.test_promptfoo import read
from tui_evals.targets.config_model import faults_in

CONFIG = """
prompts: ['{{ask}}']
tests: [{vars: {ask: Why?}}]
providers:
- id: https
  label: bot
  config:
    url: https://bot.example/chat/{{ topic }}
    method: post
    headers: {Authorization: 'Bearer {{env.BOT_KEY}}', X-Api-Key: sk-not-a-real-key, X-Plain: yes}
    body: {message: '{{prompt}}', session: '{{sessionId}}', deep: [{n: 1, of: 'about {{ topic | dump }}'}]}
    queryParams: {v: '2', q: '{{prompt}}'}
    transformResponse: '(json, text) => json.choices[0]?.message.content'
    sessionParser: data.body.conversation.id
    maxRetries: 3
- id: http://127.0.0.1:9/ask
  config: {body: '{"q": "{{prompt}}"}', transformResponse: 'text'}
- id: http://127.0.0.1:9/code
  config: {body: {q: 1}, transformResponse: 'json.a.map(x => x.b).join("")'}
- id: https
  config: {method: GET}
"""


def test_an_address_is_an_http_target() -> None:
    found, losses = read(CONFIG)
    whole, plain, code = found.targets
    assert whole.name == "bot" and whole.model.startswith("http:bot.example/chat/")
    assert whole.http == {
        "url": "https://bot.example/chat/{{ topic }}?v=2&q={{prompt}}",
        "method": "POST",
        "headers": {"Authorization": "Bearer env:BOT_KEY", "X-Plain": "yes"},
        "body": {
            "message": "{{prompt}}",
            "session": "{{session}}",
            "deep": [{"n": 1, "of": "about {{ topic | tojson }}"}],
        },
        "answer": "$.choices[0].message.content",
        "session": "$.conversation.id",
    }
    assert plain.http == {"url": "http://127.0.0.1:9/ask", "body": {"q": "{{prompt}}"}}
    assert "answer" not in code.http
    assert faults_in({"targets": {"a": {"http": json.loads(json.dumps(whole.http))}}}) == {}
    left_out = {loss.what for loss in losses.of("left out")}
    assert left_out >= {"the header X-Api-Key", "maxRetries of the provider", "the provider https"}
    assert "sk-not-a-real-key" not in repr((found, losses))
