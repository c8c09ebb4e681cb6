"""A search with answers, and the same as a job: both tell what they retrieved. It needs nothing but Python.

`python service.py` listens on port 8766 of this machine. POST /ask answers at once; POST /jobs begins a job, and
GET /jobs/NAME says how it stands.
"""

import json
import os
import re
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count

PAGES = {
    "returns": "Parcels can be returned within 30 days of delivery, free of charge.",
    "delivery": "Parcels arrive within three working days. Express parcels arrive on the next day.",
    "payment": "We take cards, transfers and vouchers. A voucher is valid for two years.",
}
NUMBERS = count(1)
JOBS: dict[str, list[dict]] = {}
"""What each job still says, one reply after the other."""


def found(question: str) -> list[dict]:
    """The pages that share words with the question, best first."""
    words = set(re.findall(r"\w{4,}", question.lower()))
    ranked = [(len(words & set(re.findall(r"\w{4,}", text.lower()))), name) for name, text in PAGES.items()]
    best = [(shared, name) for shared, name in sorted(ranked, reverse=True) if shared]
    return [{"body": PAGES[name], "page": name, "rank": shared / len(words)} for shared, name in best]


def answer(question: str) -> dict:
    """The first sentence of the best page, with all that was found."""
    hits = found(question)
    text = hits[0]["body"].partition(". ")[0].rstrip(".") + "." if hits else "I do not know."
    call = {"tool": "search", "input": {"question": question}, "output": [hit["page"] for hit in hits], "ms": 3}
    return {"reply": {"text": text, "thoughts": f"{len(hits)} pages fit"}, "hits": hits, "trace": [call]}


class Search(BaseHTTPRequestHandler):
    """The two ways of asking."""

    def do_POST(self) -> None:
        """Answer, or begin a job."""
        question = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["question"]
        if self.path == "/ask":
            self.reply(answer(question))
            return
        name = f"job-{next(NUMBERS)}"
        JOBS[name] = [{"status": "running"}, {"status": "completed", **answer(question)}]
        self.reply({"job": name, "status": "queued"})

    def do_GET(self) -> None:
        """Say how a job stands."""
        says = JOBS[self.path.removeprefix("/jobs/")]
        self.reply(says.pop(0) if len(says) > 1 else says[0])

    def reply(self, data: dict) -> None:
        """Send JSON."""
        body = json.dumps(data).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Say nothing of each call."""


if __name__ == "__main__":
    server = ThreadingHTTPServer(("127.0.0.1", int(os.environ.get("PORT", "8766"))), Search)
    sys.stdout.write(f"listening on http://127.0.0.1:{server.server_port}/ask\n")
    sys.stdout.flush()
    server.serve_forever()
