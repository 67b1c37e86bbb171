"""The files that the demo's agent starts with: exports of an old system, its log, its maintainer's notes.

Seeded, so every recording starts from the same bytes. The material is made up; what the agent sees of it is not.
"""

from __future__ import annotations

import json
import random
from datetime import date, timedelta
from pathlib import Path

BRANCHES = ("Northgate", "Harbour", "Millrace", "Oldtown", "Quarry", "Eastfield")
TOOLS = {
    "drills": ("Hammer drill", "Cordless drill", "Angle drill", "Core drill"),
    "saws": ("Jigsaw", "Circular saw", "Mitre saw", "Bow saw"),
    "ladders": ("Step ladder", "Roof ladder", "Loft ladder"),
    "garden": ("Hedge trimmer", "Scarifier", "Post auger", "Wheelbarrow"),
    "paint": ("Wallpaper steamer", "Spray gun", "Heat gun"),
    "measuring": ("Line laser", "Moisture meter", "Stud finder"),
}
NOTES = """\
Notes for whoever comes after me                                   (R. Okafor)

- The old admin page listens on 8097 and must stay up until the branches have moved. Do not take its port.
- Prices in items.csv are in euros, except for category "ladders": those were keyed in cents. Divide by 100.
- Late fee is 40 cents a day, capped at 12.00. Harbour never agreed: 25 cents there, same cap.
- The label printer at Quarry takes Code 39 only. All the others read EAN-13.
- The night job starts at 02:40, when the till at Eastfield is closed. Anything longer than nine minutes is killed.
- Two members share the number M-2077. Ask Ilse at Oldtown before merging anything.
- Never delete loans of 2019: the auditors have a hold on them, case GH-5516.
- A tool marked "quarantine" may be returned but not lent.
- exports/ is what the old system gave me on its last day. I have not checked it.
"""


def build(folder: Path) -> None:
    """Write the material into `folder`, which must be empty."""
    rng = random.Random(20240229)
    (folder / "exports").mkdir(parents=True)
    (folder / "logs").mkdir()
    (folder / "NOTES.txt").write_text(NOTES, encoding="utf-8")
    skus = _items(folder / "exports" / "items.csv", rng)
    _loans(folder / "exports" / "loans.csv", skus, rng)
    _branches(folder / "exports" / "branches.json", rng)
    _log(folder / "logs" / "access.log", rng)


def _items(path: Path, rng: random.Random) -> list[str]:
    rows, skus = [], []
    for number in rng.sample(range(10_000), 1_180):
        category = rng.choice(list(TOOLS))
        price = rng.randrange(900, 48_000)
        shown = str(price) if category == "ladders" else f"{price / 100:.2f}"
        state = rng.choices(("good", "worn", "repair", "quarantine"), (70, 20, 7, 3))[0]
        skus.append(f"TL-{number:04d}")
        rows.append([skus[-1], rng.choice(TOOLS[category]), category, shown, rng.choice(BRANCHES), state])
    for at, value in zip(sorted(rng.sample(range(60, 1_100), 4)), ("12,90", "n/a", "", "1 299.00"), strict=True):
        rows[at][3] = f'"{value}"' if "," in value else value
    for at, name in zip(rng.sample(range(60, 1_100), 3), ("Harbor", "", "North gate"), strict=True):
        rows[at][4] = name
    copied = rng.randrange(200, 900)
    rows[copied + 31][0] = rows[copied][0]
    rows[rng.randrange(300, 1_000)].append("see note")
    rows[rng.randrange(300, 1_000)][1] = "D\xe9coupeuse"
    lines = ["sku,title,category,price,branch,state", *(",".join(row) for row in rows)]
    path.write_bytes(("\n".join(lines) + "\n").encode("latin-1"))
    return skus


def _loans(path: Path, skus: list[str], rng: random.Random) -> None:
    lines = ["loan,sku,member,out,due,back"]
    start = date(2019, 1, 7)
    for number in range(3_400):
        out = start + timedelta(days=number * 1_870 // 3_400)
        due = out + timedelta(days=rng.choice((7, 14, 14, 21)))
        back = due + timedelta(days=rng.choice((-5, -3, -1, 0, 0, 1, 2, 9, 44)))
        sku = f"TL-{rng.randrange(10_000):04d}" if rng.random() < 0.012 else rng.choice(skus)
        returned = "" if number > 3_200 and rng.random() < 0.4 else back.isoformat()
        lines.append(f"L{number:05d},{sku},M-{rng.randrange(1_000, 2_400)},{out},{due},{returned}")
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def _branches(path: Path, rng: random.Random) -> None:
    people = ("Mira Holm", "Joost de Wit", "Anneke Brandt", "Ilse Varga", "Tomasz Lis", "Dele Adeyemi")
    branches = [
        {"code": name[:2].upper(), "name": name, "contact": person, "till": f"T{rng.randrange(100, 999)}"}
        for name, person in zip(BRANCHES, people, strict=True)
    ]
    path.write_text(json.dumps(branches, indent=1) + "\n", encoding="utf-8")


def _log(path: Path, rng: random.Random) -> None:
    lines, clock = [], 0
    for _ in range(900):
        clock += rng.randrange(3, 120)
        status = rng.choices((200, 304, 404, 500, 503), (80, 10, 6, 3, 1))[0]
        slow = rng.randrange(2_000, 9_000) if status >= 500 else rng.randrange(8, 400)
        where = rng.choice(("/items", "/loans", "/members", "/labels", "/report"))
        moment = f"{clock // 3600:02d}:{clock // 60 % 60:02d}:{clock % 60:02d}"
        lines.append(f"{moment} 10.0.{rng.randrange(6)}.{rng.randrange(2, 30)} GET {where} {status} {slow}ms")
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
