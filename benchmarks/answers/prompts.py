"""Every prompt of the benchmark: what a reader is asked, and what a judge is.

`plain` is our own. The two others have the words of the papers, so that their figures can be set beside published ones:

- `longmemeval`: `src/generation/run_generation.py` (without steps) and `src/evaluation/evaluate_qa.py` of
  github.com/xiaowu0162/LongMemEval, MIT licence. Its score is the judge's.
- `locomo`: `QA_PROMPT` in `task_eval/evaluate_gpts.py` of github.com/snap-research/locomo, CC BY-NC 4.0: not for
  commercial use, and here for its two sentences only. Its score is F1 over stems; it has no judge. Adversarial
  questions are multiple choice there, with a wrong option that our files lack, and are not asked.
"""

from __future__ import annotations

from dataclasses import dataclass

from benchmarks.harness.data import Query

__all__ = ["PROTOCOLS", "Protocol", "judge_prompt"]

JUDGE = """\
Here are a question, the reference (the right answer, or the passages that hold it) and an answer that somebody gave.

Question: {question}

Reference: {key}

Answer: {answer}

Is the answer right? It is if it says what the reference says to the question, in whatever words, and nothing that \
contradicts it. An answer on the same topic that leaves out or changes what was asked for is wrong. Reply yes or no."""

# Of LongMemEval, by the type of question.
GIVEN = "I will give you a question, a correct answer, and a response from a model. Please answer yes if the response \
contains the correct answer. Otherwise, answer no. "
PARTIAL = "If the response is equivalent to the correct answer or contains all the intermediate steps to get the \
correct answer, you should also answer yes. If the response only contains a subset of the information required by the \
answer, answer no. "
DAYS = "In addition, do not penalize off-by-one errors for the number of days. If the question asks for the number of \
days/weeks/months, etc., and the model makes off-by-one errors (e.g., predicting 19 days when the answer is 18), the \
model's response is still correct. "
UPDATED = "If the response contains some previous information along with an updated answer, the response should be \
considered as correct as long as the updated answer is the required answer."
RUBRIC = "I will give you a question, a rubric for desired personalized response, and a response from a model. Please \
answer yes if the response satisfies the desired response. Otherwise, answer no. The model does not need to reflect \
all the points in the rubric. The response is correct as long as it recalls and utilizes the user's personal \
information correctly."
ASKED = "\n\nQuestion: {question}\n\n%s: {key}\n\nModel Response: {answer}\n\n"
IS_RIGHT = "Is the model response correct? Answer yes or no only."
USUAL = GIVEN + PARTIAL + ASKED % "Correct Answer" + IS_RIGHT
BY_TYPE = {
    "temporal-reasoning": GIVEN + PARTIAL + DAYS + ASKED % "Correct Answer" + IS_RIGHT,
    "knowledge-update": GIVEN + UPDATED + ASKED % "Correct Answer" + IS_RIGHT,
    "single-session-preference": RUBRIC + ASKED % "Rubric" + IS_RIGHT,
}


@dataclass(frozen=True)
class Protocol:
    """A way to ask: the prompt before and behind the context, the whole prompt without one, the most answer tokens."""

    before: str
    after: str
    bare: str
    answer_tokens: int
    by_type: dict[str, str]  # words behind the question, by its type
    skipped: tuple[str, ...] = ()  # types that are not asked

    def prompt(self, query: Query, context: str) -> tuple[str, str]:
        """The prompt before and behind the context."""
        question = query.question.text + self.by_type.get(query.type, "")
        date = f"{query.question.now:%Y/%m/%d (%a) %H:%M}" if query.question.now else "unknown"
        today = f"Today is {date}.\n" if query.question.now else ""
        if not context:
            return self.bare.format(question=question, date=date, today=today), ""
        return self.before, self.after.format(question=question, date=date, today=today)


SHORTLY = """\
{today}Question: {question}
Answer with the shortest phrase that is the whole answer, a name, a number, a date or a list, and with nothing else. \
If it cannot be known from this, answer: unknown."""
LOCOMO = "Based on the above context, write an answer in the form of a short phrase for the following question. Answer \
with exact words from the context whenever possible.\n\nQuestion: {question} Short answer:\n"

PROTOCOLS = {
    "plain": Protocol("This is what is known:\n\n", "\n\n" + SHORTLY, SHORTLY, 64, {}),
    "longmemeval": Protocol(
        "I will give you several history chats between you and a user. Please answer the question based on the "
        "relevant chat history.\n\n\nHistory Chats:\n\n",
        "\n\nCurrent Date: {date}\nQuestion: {question}\nAnswer:",
        "{question}",
        500,
        {},
    ),
    "locomo": Protocol(
        "",
        "\n\n\n" + LOCOMO,
        LOCOMO,
        32,
        {"temporal": " Use DATE of CONVERSATION to answer with an approximate date."},
        ("adversarial",),
    ),
}


def judge_prompt(protocol: str, type: str, question: str, key: str, answer: str, own: str | None = None) -> str:
    """Return what a judge is asked, with a prompt of your `own` where one is given."""
    usual = BY_TYPE.get(type, USUAL) if protocol == "longmemeval" else JUDGE
    return (own or usual).format(question=question, key=key, answer=answer)
