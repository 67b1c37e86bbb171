#: I know the material well enough. A repository first.
git init -q -b main . && printf 'exports/\nlogs/\n*.db*\n*.err\n__pycache__/\n' > .gitignore && git add .gitignore NOTES.txt && git commit -q -m "Start with the notes" && git log --oneline

#: The schema. Money in integer cents, dates as ISO text, states checked by the database.
mkdir -p lendery tests && touch lendery/__init__.py tests/__init__.py && cat > lendery/db.py <<'PY'
"""The database: schema and connections."""
import sqlite3

SCHEMA = """
CREATE TABLE branch (id INTEGER PRIMARY KEY, code TEXT UNIQUE NOT NULL, name TEXT UNIQUE NOT NULL, contact TEXT, till TEXT);
CREATE TABLE item (
    sku TEXT PRIMARY KEY, title TEXT NOT NULL, category TEXT NOT NULL, cents INTEGER NOT NULL CHECK (cents > 0),
    branch INTEGER NOT NULL REFERENCES branch, state TEXT NOT NULL CHECK (state IN ('good', 'worn', 'repair', 'quarantine')));
CREATE TABLE loan (
    id TEXT PRIMARY KEY, sku TEXT NOT NULL REFERENCES item, member TEXT NOT NULL,
    out TEXT NOT NULL, due TEXT NOT NULL, back TEXT);
CREATE TABLE reject (source TEXT, line INTEGER, reason TEXT, raw TEXT);
PRAGMA user_version = 1;
"""


def connect(path, timeout=0.0):
    conn = sqlite3.connect(path, timeout=timeout)
    conn.row_factory = sqlite3.Row
    conn.execute("PRAGMA foreign_keys = ON")
    return conn


def create(path):
    conn = connect(path)
    conn.executescript(SCHEMA)
    return conn
PY
python -c "from lendery import db; c = db.create(':memory:'); print([r[0] for r in c.execute('select name from sqlite_master where type = \'table\'')])"

#: Labels need EAN-13 numbers, so I need the check digit. SKU TL-5522 shall become 29 + branch number + zero-padded digits.
cat > lendery/ids.py <<'PY'
"""Numbers on labels, and tokens for the tills."""
import random


def check_digit(digits):
    """EAN-13: weights 1 and 3 in turn."""
    total = sum(int(d) * (3 if at % 2 == 0 else 1) for at, d in enumerate(digits))
    return str(10 - total % 10)


def barcode(sku, branch):
    body = f"29{branch:02d}{int(sku[3:]):08d}"
    return body + check_digit(body)


def till_token(seed):
    return "".join(random.Random(seed).choices("ABCDEFGHJKLMNPQRSTUVWXYZ23456789", k=12))
PY
cat > tests/test_ids.py <<'PY'
import unittest
from lendery import ids


class Ids(unittest.TestCase):
    def test_known_code(self):
        self.assertEqual(ids.check_digit("400638133393"), "1")

    def test_digit_is_one_digit(self):
        for number in range(2000):
            self.assertEqual(len(ids.check_digit(f"{number:012d}")), 1, number)

    def test_barcode_length(self):
        self.assertEqual(len(ids.barcode("TL-5522", 2)), 13)
PY
python -m unittest tests.test_ids 2>&1 | grep -v '^$' | sed 's/ in [0-9.]*s//'

#: Two mistakes in one function: I began with the wrong weight, and a total that ends in 0 must give 0, not 10.
sed -i 's/3 if at % 2 == 0 else 1/3 if at % 2 else 1/; s/return str(10 - total % 10)/return str(-total % 10)/' lendery/ids.py && python -m unittest tests.test_ids 2>&1 | tail -3 | sed 's/ in [0-9.]*s//'

#: Good. What do the labels of a few tools look like? I will compare them with the printer's samples later.
python -c "
from lendery import ids
for sku, branch in (('TL-5522', 2), ('TL-8265', 5), ('TL-0295', 4), ('TL-0531', 4)):
    print(sku, branch, ids.barcode(sku, branch))"

#: Every till gets a token of its own. The seeds are the till numbers with the year behind them.
python - <<'PY'
import json
from lendery import ids
for branch in json.load(open("exports/branches.json")):
    print(f"{branch['name']:<10} {branch['till']} {ids.till_token(int(branch['till'][1:]) * 10000 + 2024)}")
PY

#: Commit this much.
git add -A && git commit -q -m "Schema, barcodes, till tokens" && git log --oneline | head -1 && git show --stat --format= HEAD

#: Now the importer. Bad rows go to the reject table with line and reason, nothing is guessed except the ladders' cents.
cat > lendery/importer.py <<'PY'
"""Reads the exports. What cannot be understood is kept in the table `reject`, with its line and why."""
import csv
import json


def branches(conn, path):
    for row in json.load(open(path)):
        conn.execute("INSERT INTO branch (code, name, contact, till) VALUES (:code, :name, :contact, :till)", row)
    conn.commit()


def cents(price, category):
    value = float(price)
    return round(value if category == "ladders" else value * 100)


def items(conn, path):
    known = {r["name"]: r["id"] for r in conn.execute("SELECT id, name FROM branch")}
    good = bad = 0
    with open(path, encoding="latin-1", newline="") as lines:
        for number, row in enumerate(csv.reader(lines)):
            if number == 0:
                continue
            try:
                sku, title, category, price, branch, state = row
                if branch not in known:
                    raise ValueError(f"unknown branch {branch!r}")
                conn.execute("INSERT INTO item VALUES (?, ?, ?, ?, ?, ?)", (sku, title, category, cents(price, category), known[branch], state))
                good += 1
            except Exception as error:
                conn.execute("INSERT INTO reject VALUES ('items', ?, ?, ?)", (number, str(error), ",".join(row)))
                bad += 1
    conn.commit()
    return good, bad


def loans(conn, path):
    good = bad = 0
    with open(path, newline="") as lines:
        for number, row in enumerate(csv.DictReader(lines), 2):
            try:
                conn.execute("INSERT INTO loan VALUES (:loan, :sku, :member, :out, :due, nullif(:back, ''))", row)
                good += 1
            except Exception as error:
                conn.execute("INSERT INTO reject VALUES ('loans', ?, ?, ?)", (number, str(error), ",".join(row.values())))
                bad += 1
    conn.commit()
    return good, bad
PY
cat > load.py <<'PY'
import os
from lendery import db, importer
if os.path.exists("lendery.db"):
    os.remove("lendery.db")
conn = db.create("lendery.db")
importer.branches(conn, "exports/branches.json")
print("items: %d good, %d rejected" % importer.items(conn, "exports/items.csv"))
print("loans: %d good, %d rejected" % importer.loans(conn, "exports/loans.csv"))
PY
python load.py

#: What was rejected among the items?
python - <<'PY'
from lendery import db
for r in db.connect("lendery.db").execute("SELECT line, reason, raw FROM reject WHERE source = 'items'"):
    print(r["line"], "|", r["reason"], "|", r["raw"])
PY

#: The lines are off by one against what I saw with grep: I count from the header as 0. A test, then the fix.
cat > tests/test_importer.py <<'PY'
import os, tempfile, unittest
from lendery import db, importer

ROWS = "sku,title,category,price,branch,state\nTL-1,Saw,saws,12.50,Oldtown,good\nTL-2,Saw,saws,x,Oldtown,good\nTL-3,Step,ladders,4500,Oldtown,worn\n"


class Importer(unittest.TestCase):
    def setUp(self):
        self.conn = db.create(":memory:")
        self.conn.execute("INSERT INTO branch VALUES (1, 'OL', 'Oldtown', '', '')")
        self.folder = tempfile.TemporaryDirectory()
        self.path = os.path.join(self.folder.name, "items.csv")
        with open(self.path, "w") as file:
            file.write(ROWS)
        self.counts = importer.items(self.conn, self.path)

    def tearDown(self):
        self.conn.close()
        self.folder.cleanup()

    def test_counts(self):
        self.assertEqual(self.counts, (2, 1))

    def test_line_is_the_files(self):
        self.assertEqual(self.conn.execute("SELECT line FROM reject").fetchone()[0], 3)

    def test_ladders_are_in_cents(self):
        self.assertEqual([r[0] for r in self.conn.execute("SELECT cents FROM item ORDER BY sku")], [1250, 4500])
PY
python -m unittest tests.test_importer 2>&1 | grep -v '^$' | sed 's/ in [0-9.]*s//'

#: One failure, the one I expected. Count from 1.
sed -i 's/enumerate(csv.reader(lines)):/enumerate(csv.reader(lines), 1):/; s/if number == 0:/if number == 1:/' lendery/importer.py && python -m unittest 2>&1 | tail -3 | sed 's/ in [0-9.]*s//' && python load.py

#: Now the loans that did not make it. The list will be long, but I want to see whether there is any reason besides missing tools.
python - <<'PY'
from lendery import db
conn = db.connect("lendery.db")
for r in conn.execute("SELECT reason, count(*) n FROM reject WHERE source = 'loans' GROUP BY reason"):
    print(r["n"], r["reason"])
for r in conn.execute("SELECT line, raw FROM reject WHERE source = 'loans' ORDER BY line"):
    print(r["line"], r["raw"])
PY

#: Some of them are of 2019, on which there is the hold. They may not be dropped. How many, and which?
python - <<'PY'
from lendery import db
rows = [r["raw"] for r in db.connect("lendery.db").execute("SELECT raw FROM reject WHERE source = 'loans' ORDER BY line")]
held = [raw for raw in rows if raw.split(",")[3].startswith("2019")]
print(len(held), "of", len(rows), "rejected loans went out in 2019")
print(*held, sep="\n")
PY

#: I will keep those with a placeholder tool. First, the names of branches that are only misspelt: map the two, keep the empty one rejected.
python - <<'PY'
import re
path = "lendery/importer.py"
text = open(path).read()
text = text.replace('def branches(', 'SPELLINGS = {"Harbor": "Harbour", "North gate": "Northgate"}\n\n\ndef branches(', 1)
text = text.replace("                if branch not in known:", "                branch = SPELLINGS.get(branch, branch)\n                if branch not in known:")
open(path, "w").write(text)
PY
python -m unittest 2>&1 | tail -1 && python load.py

#: And "12,90" is a decimal comma, that one is safe to read; "1 299.00" too. The others stay out.
sed -i 's/    value = float(price)/    value = float(price.replace(" ", "").replace(",", "."))/' lendery/importer.py && python load.py && python -c "
from lendery import db
for r in db.connect('lendery.db').execute('SELECT line, reason FROM reject WHERE source = \'items\''): print(*r)"

#: The placeholder for lost tools: a tool TL-0000 in quarantine, at Oldtown, and the real SKU kept in a column of the loan.
python - <<'PY'
path = "lendery/db.py"
text = open(path).read()
text = text.replace("due TEXT NOT NULL, back TEXT);", "due TEXT NOT NULL, back TEXT, old_sku TEXT);")
open(path, "w").write(text)
path = "lendery/importer.py"
text = open(path).read()
text = text.replace("""nullif(:back, ''))", row)""", """nullif(:back, ''), NULL)", row)""")
text = text.replace("""            except Exception as error:
                conn.execute("INSERT INTO reject VALUES ('loans'""", """            except Exception as error:
                if row["out"].startswith("2019"):
                    keep(conn, row)
                    good += 1
                    continue
                conn.execute("INSERT INTO reject VALUES ('loans'""")
text += '''

def keep(conn, row):
    """A loan of 2019 whose tool is lost: the auditors want it (GH-5516)."""
    conn.execute("INSERT OR IGNORE INTO item SELECT 'TL-0000', 'Lost tool', 'lost', 1, id, 'quarantine' FROM branch WHERE name = 'Oldtown'")
    conn.execute("INSERT INTO loan VALUES (:loan, 'TL-0000', :member, :out, :due, nullif(:back, ''), :sku)", row)
'''
open(path, "w").write(text)
PY
python load.py && python -m unittest 2>&1 | tail -1

#: Does the sum of good and rejected agree with the file? And is the hold kept?
python - <<'PY'
from lendery import db
conn = db.connect("lendery.db")
one = lambda sql: conn.execute(sql).fetchone()[0]
print("loans", one("select count(*) from loan"), "+ rejected", one("select count(*) from reject where source = 'loans'"))
print("2019:", one("select count(*) from loan where out like '2019%'"))
print("placeholder:", one("select count(*) from loan where sku = 'TL-0000'"))
print("integrity:", one("pragma integrity_check"), "| foreign keys:", conn.execute("pragma foreign_key_check").fetchall())
PY

#: Commit the importer.
git add -A && git commit -q -m "Importer with rejects, the 2019 hold kept" && git log --oneline | head -1
