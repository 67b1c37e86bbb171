"""Preferences: what somebody said of a kind of task comes where such a task does, and nowhere else."""

from __future__ import annotations

from tinymem import HierarchicalMemory, MessageStep
from tinymem.coding.preferences import Preferences

# A project, what somebody said in it, and a task that wants it: written before anything was tried; the table of kinds
# was made on every second row from the first on, and the others were held out.
ROWS = (
    (
        "cooking",
        "Quantities are always given in grams, never in cups.",
        "Write up grandma's apple cake as a recipe page.",
    ),
    ("cooking", "Photos go in static/img, as WebP.", "Put the picture of the soup on the start page."),
    ("cooking", "Never use red in charts.", "Draw the attendance of the last six evenings as bars."),
    ("cooking", "I want commit messages in the imperative, without a full stop.", "Check in what you have so far."),
    (
        "cooking",
        "Bitte immer auf Deutsch antworten, wenn Mitglieder schreiben.",
        "Mrs Huber asks by mail whether she may bring a guest; draft a reply.",
    ),
    (
        "clinic",
        "Patients are addressed by their surname, never by their first name.",
        "Draft the invitation for Anna Berg's check-up.",
    ),
    ("clinic", "Tests go in tests/, one file a module.", "Cover the dose calculator with a few cases."),
    (
        "clinic",
        "Please don't use abbreviations of drugs in anything a patient reads.",
        "Write the leaflet for the new blood thinner.",
    ),
    (
        "clinic",
        "We decided that all PDFs are A4 with a margin of 25 mm.",
        "Lay out the discharge summary for printing.",
    ),
    (
        "clinic",
        "Answer in French when a colleague from Geneva asks.",
        "Dr Favre in Geneva wants to know when the export runs; write back to her.",
    ),
    ("game", "In shaders I prefer short names.", "Write the fragment program for the water."),
    (
        "game",
        "No level may have more than two enemies before the first checkpoint.",
        "Design the opening of the ice cave.",
    ),
    ("game", "Sounds are normalised to -16 LUFS.", "Add the new footsteps to the bank."),
    ("game", "From now on every asset gets a licence line in CREDITS.txt.", "Import the tree models that we bought."),
    ("game", "Don't add dependencies without asking me.", "Parse the dialogue files; they are YAML."),
    ("tax", "Amounts are kept as integers in cents.", "Add a field for the travel allowance."),
    ("tax", "Dates in forms are written DD.MM.YYYY.", "Add the day of birth to page two."),
    ("tax", "Nunca borres una migración que ya se publicó.", "Clean up the old database changes."),
    ("tax", "I like error messages that say what to do next.", "Complain when the tax number has the wrong length."),
    ("tax", "Use the formal 'Sie' in German texts.", "Translate the help page for our users in Munich."),
    ("choir", "Headlines have at most six words.", "Write the lead article on the spring concert."),
    ("choir", "My scripts should run with sh; no bash.", "Automate the export of the member list."),
    ("choir", "Newsletters go out on Thursdays only.", "Schedule the mailing for the summer break."),
    ("choir", "Je préfère les listes courtes, cinq points au plus.", "Résume la réunion du bureau."),
    ("choir", "Ask me before you push anything.", "Publish the fix for the calendar."),
    ("bikes", "Every endpoint needs a docstring with an example.", "Implement GET /bikes/{id}/history."),
    ("bikes", "I hate mocks: use the real database in tests.", "Check that returning a bike twice fails."),
    ("bikes", "Logs must not contain e-mail addresses.", "Trace what happens when a customer signs up."),
    ("bikes", "Pull requests stay under 300 changed lines.", "Open a PR for the new pricing."),
    ("bikes", "We use tabs in the frontend and spaces in the backend.", "Rework the booking form component."),
)
NEED_NOTHING = (
    "ok, thanks",
    "What is 17 times 23?",
    "What is the capital of Peru?",
    "Explain how DNS works.",
    "How are you today?",
    "Who painted Guernica?",
    "Is 97 a prime number?",
    "That works, thank you.",
    "Write a limerick about rain.",
    "How do I reverse a list in Python?",
    "Convert 5 miles to kilometres.",
    "Why does the moon have phases?",
)


def test_a_task_gets_what_was_said_of_its_kind_and_other_prompts_get_nothing() -> None:
    found: dict[int, list[bool]] = {0: [], 1: []}
    for project in dict.fromkeys(row[0] for row in ROWS):
        with HierarchicalMemory(embedder="hashing:64") as memory:
            memory.archive([MessageStep("user", said) for name, said, _ in ROWS if name == project])
            preferences = Preferences(memory)
            assert not any(preferences.of(prompt) for prompt in NEED_NOTHING)
            for place, (name, said, task) in enumerate(ROWS):
                if name == project:
                    found[place % 2].append(said in [step.text for step in preferences.of(task)])
    assert (sum(found[0]), sum(found[1])) == (13, 9)


def test_a_preference_is_corrected_and_forgotten_like_the_rest() -> None:
    with HierarchicalMemory(embedder="hashing:64") as memory:
        red, grey = MessageStep("user", "Never use red in charts."), MessageStep("user", "Charts have grey axes.")
        task_with_reason = MessageStep("user", "No test reads a chart. Write one.")
        memory.archive([red, grey, MessageStep("assistant", "Charts are drawn in red."), task_with_reason])
        preferences, task = Preferences(memory), "Show the sales of May as bars."
        assert [step.text for step in preferences.of(task)] == [grey.text, red.text]
        assert [step.text for step in preferences.of(task, but=[2])] == [red.text]
        memory.correct(red.id, "Red is fine now.")
        memory.forget(ids=[grey.id])
        assert [step.text for step in preferences.of(task)] == ["Red is fine now."]
