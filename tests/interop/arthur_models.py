"""What arthur-bench gives for bertscore, hedging_language and specificity, for `tests/golden/arthur_models.json`.

    python tests/interop/arthur_models.py > tests/golden/arthur_models.json

It needs a Python of its own: arthur-bench with --no-deps, and beside it pydantic<2, pandas<2.1, numpy<2,
textstat==0.7.3, pyphen==0.14.0, wordfreq==3.1.1, nltk, tqdm, torch==2.2.2, transformers==4.29.2, tokenizers==0.13.3,
huggingface-hub<0.20, bert-score==0.3.13 with --no-deps, matplotlib, fastapi, requests_toolbelt and pyjwt. Nothing is
downloaded by it, and nothing is sent.

* Its model, microsoft/deberta-v3-base, lies on a hub and in no package registry. So the model is `tiny_bert.py`, whose
  weights are a formula: what is compared is all but the weights (tokens, layer, matching, weighting).
* Its tagger reads data that nltk.download fetches and that is in no package. So each sentence below is tagged by hand
  as the Penn Treebank's rules have it, and its own code counts NNP and CD. Tokens, vague words and frequencies are its
  own.
"""

from __future__ import annotations

import importlib.machinery
import json
import os
import sys
import tempfile
from pathlib import Path
from unittest.mock import MagicMock

HERE = Path(__file__).resolve().parent
ABSENT = [
    *("evaluate", "langchain", "langchain.chains", "langchain.chat_models", "langchain.chat_models.base"),
    *("langchain.prompts", "langchain.prompts.chat", "langchain.schema", "tiktoken", "tiktoken.core", "amplitude"),
]
PAIRS = [
    ("the cat sat on the mat", "the cat sat on the mat"),
    ("the dog ran away", "the cat sat on the mat"),
    ("the cat", "the cat sat on the mat"),
    ("the cat sat on the mat and the dog ran away", "the cat sat"),
    ("As an AI language model, I don't have personal opinions, emotions, or beliefs.", "i have opinions"),
    ("as an ai language model i don't have beliefs", "the dog ran away"),
    ("unknown words only here", "the mat"),
    ("日本語", "the cat"),
]
WEIGHTS = (0.1, 0.0, 0.5, 1.0)
TAGGED = [
    "in/IN 1902/CD the chemist Marie/NNP Curie/NNP isolated 0.1/CD g of radium in Paris/NNP ./.",
    "it usually takes some time , and most people like it that way ./.",
    "the meeting with Anna/NNP Schmidt/NNP in Oslo/NNP is on May/NNP 5/CD at 10:30/CD ./.",
    "roughly 12/CD of the 40/CD samples failed ./.",
    "axolotls regenerate amputated limbs completely ./.",
    "about this we could say something nice , sure ./.",
    "the answer is 42/CD",
    "it may be good or bad , but certain it is not ./.",
    "Berlin/NNP is the capital ./.",
    "she bought three/CD apples ./.",
    "we met in paris/NNP last year ./.",
]
"""Sentences whose names (NNP) and numbers (CD) are marked; the other tags count for nothing."""


def pairs_of(sentence: str) -> list[tuple[str, str]]:
    """The tokens of a sentence with their tags."""
    return [
        (word.rpartition("/")[0], word.rpartition("/")[2]) if "/" in word else (word, "") for word in sentence.split()
    ]


def main() -> None:
    """Print the vectors."""
    os.environ["BENCH_TELEMETRY_DISABLED"] = "1"
    import tiny_bert

    sys.path[:] = [place for place in sys.path if Path(place or ".").resolve() != HERE]  # a file here has its name
    for name in ABSENT:
        module = MagicMock()
        module.__spec__, module.__path__ = importlib.machinery.ModuleSpec(name, None), []
        sys.modules[name] = module
    import bert_score.utils
    import nltk
    from arthur_bench.scoring.bertscore import BERTScore
    from arthur_bench.scoring.hedging_language import HedgingLanguage
    from arthur_bench.scoring.specificity import Specificity

    rows = []
    with tempfile.TemporaryDirectory() as folder:
        model = tiny_bert.make(Path(folder), limited=True)
        bert_score.utils.model2layers[model] = tiny_bert.LAYERS
        for weight in WEIGHTS:
            scorer = BERTScore(model_type=model, precision_weight=weight)
            found = scorer.run_batch([pair[0] for pair in PAIRS], [pair[1] for pair in PAIRS])
            for (candidate, reference), one in zip(PAIRS, found, strict=True):
                args = {"candidate": candidate, "reference": reference, "precision_weight": weight}
                rows.append({"function": "bertscore", "args": args, "expected": one.score})
        hedging = HedgingLanguage(model_type=model)
        for (candidate, _), one in zip(PAIRS, hedging.run_batch([pair[0] for pair in PAIRS]), strict=True):
            args = {"candidate": candidate}
            rows.append({"function": "hedging_language", "args": args, "expected": one.score})
    nltk.download = lambda *_: True
    specificity = Specificity()
    for sentence in TAGGED:
        tags = pairs_of(sentence)
        nltk.word_tokenize = lambda text, tags=tags: [word for word, _ in tags]
        nltk.pos_tag = lambda tokens, tags=tags: tags
        text = " ".join(word for word, _ in tags).replace(" .", ".").replace(" ,", ",")
        parts = [specificity.get_num_vague_words(text), specificity.get_mean_word_freq(text)]
        (whole,) = specificity.run_batch([text])
        names = ("not_vague", "rarity", "names_and_numbers", "score")
        expected = dict(zip(names, (*parts, specificity.get_pn_and_num(text), whole.score), strict=True))
        rows.append({"function": "specificity", "args": {"candidate": text}, "expected": expected})
    about = "Computed by arthur-bench itself (tests/interop/arthur_models.py); no expected value was written by hand."
    print(json.dumps({"about": about, "rows": rows}, ensure_ascii=False, indent=1))


if __name__ == "__main__":
    main()
