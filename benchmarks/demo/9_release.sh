#: A command line for the people at the counters, so that they need no Python.
cat > lendery/__main__.py <<'PY'
"""python -m lendery COMMAND"""
import argparse
import sys
from datetime import date

from lendery import db, loans, report


def main(argv=None):
    parser = argparse.ArgumentParser(prog="lendery", description="Tools, lent and returned.")
    parser.add_argument("--db", default="lendery.db", help="the database (default: %(default)s)")
    commands = parser.add_subparsers(dest="command", required=True)
    lend = commands.add_parser("lend", help="lend a tool")
    lend.add_argument("sku")
    lend.add_argument("member")
    back = commands.add_parser("back", help="take a tool back, prints the fee")
    back.add_argument("loan")
    late = commands.add_parser("overdue", help="what is late")
    late.add_argument("--branch")
    for command in (lend, back, late):
        command.add_argument("--today", type=date.fromisoformat, default=date.today())
    given = parser.parse_args(argv)
    conn = db.connect(given.db)
    try:
        if given.command == "lend":
            print(loans.lend(conn, given.sku, given.member, given.today))
        elif given.command == "back":
            print(f"{loans.give_back(conn, given.loan, given.today) / 100:.2f}")
        else:
            for row in report.overdue(conn, given.today.isoformat()):
                if given.branch in (None, row[0]):
                    print(*row)
    except loans.Refused as error:
        sys.exit(f"refused: {error}")


main()
PY
python -m lendery --help; python -m lendery overdue --branch Quarry --today 2024-06-03 | head -4

#: Lend, return and a refusal through it.
python -m lendery lend TL-3431 M-1010 --today 2024-05-06; python -m lendery lend TL-3431 M-1011 --today 2024-05-06; echo "status $?"; python -m lendery back L03403 --today 2024-06-03; python -m lendery back L03403 --today 2024-06-03

#: What if the date is nonsense, or the database is not there?
python -m lendery overdue --today soon; echo "status $?"; python -m lendery --db nowhere.db overdue; echo "status $?"; ls nowhere.db

#: The second one made an empty file and then a traceback. Connecting must not create. SQLite can be told so by a URI.
sed -i 's|    conn = sqlite3.connect(path, timeout=timeout)|    if path != ":memory:" and not create and not os.path.exists(path):\n        raise SystemExit(f"there is no database {path}")\n    conn = sqlite3.connect(path, timeout=timeout)|; s|def connect(path, timeout=5.0):|def connect(path, timeout=5.0, create=False):|; s|    conn = connect(path)$|    conn = connect(path, create=True)|; s|^import sqlite3|import os\nimport sqlite3|' lendery/db.py && rm nowhere.db && python -m lendery --db nowhere.db overdue; echo "status $?"; ls nowhere.db; python -m unittest 2>&1 | tail -1

#: A plain check of existence does it, no URI needed. Commit.
git add -A && git commit -q -m "Command line" && git log --oneline | head -1

#: Since when did the API crash on unknown tools, had it been in a release? Practise a bisect on it: which commit brought the 404?
git log --oneline --reverse | cat; (git bisect start --term-new=fixed --term-old=broken && git bisect fixed HEAD && git bisect broken "$(git rev-list --max-parents=0 HEAD)") >/dev/null; git bisect run sh -c '! grep -qs "no tool" lendery/api.py' 2>&1 | grep -vE '^running'; git bisect reset 2>&1 | tail -1

#: Bisect works on this history. Sizes of the modules, to see that nothing got out of hand.
wc -l lendery/*.py tests/*.py; python - <<'PY'
import ast, pathlib
for path in sorted(pathlib.Path("lendery").glob("*.py")):
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.FunctionDef) and node.end_lineno - node.lineno > 14:
            print(path, node.name, node.end_lineno - node.lineno + 1, "lines")
PY

#: Items takes longest and catches every Exception; a typo in it would silently reject everything. Narrow it.
sed -i 's/except Exception as error:/except (ValueError, sqlite3.IntegrityError) as error:/; s/^import json$/import json\nimport sqlite3/' lendery/importer.py && grep -n 'except' lendery/importer.py && python -m unittest 2>&1 | tail -1

#: Prove that the exports are still the files we were given, before the import goes into production.
sha256sum exports/* logs/* | cut -c1-16,65-

#: Does a fresh import still give the same numbers after that change? Into another file, not over the live one.
sed 's/"lendery.db"/"fresh.db"/g' load.py > fresh.py && python fresh.py && python - <<'PY'
from lendery import db
conn = db.connect("fresh.db")
for r in conn.execute("SELECT source, count(*) n FROM reject GROUP BY source"):
    print(r["source"], r["n"], "rejected")
PY
rm -f fresh.py fresh.db*

#: The same. Package it as one file that any Python runs: zipapp.
rm -rf stage && mkdir stage && cp -r lendery stage/ && rm -rf stage/lendery/__pycache__ && printf 'import lendery.__main__\n' > stage/__main__.py && find stage -exec touch -d '2024-06-03 09:00' {} + && python -m zipapp stage -o lendery.pyz && stat -c '%s bytes' lendery.pyz && sha256sum lendery.pyz | cut -c1-20 && python lendery.pyz overdue --branch Harbour --today 2024-06-03 | tail -2; rm -rf stage

#: How long does it take to start, from the zip and from the folder?
python - <<'PY'
import statistics, subprocess, time
for name, command in (("folder", ["python", "-m", "lendery"]), ("zip", ["python", "lendery.pyz"])):
    times = []
    for _ in range(7):
        begin = time.perf_counter()
        subprocess.run([*command, "overdue", "--today", "2024-06-03"], capture_output=True, check=True)
        times.append((time.perf_counter() - begin) * 1000)
    print(f"{name}: median {statistics.median(times):.0f} ms")
PY

#: A unit file for the server that will run it, with limits that match what I measured.
mkdir -p deploy && cat > deploy/lendery.service <<'UNIT'
[Unit]
Description=lendery, tools lent and returned

[Service]
ExecStart=/usr/bin/python3 -m lendery.api 8417
WorkingDirectory=/srv/lendery
User=lendery
Restart=on-failure
RestartSec=2
MemoryMax=160M
NoNewPrivileges=true
ProtectSystem=strict
ReadWritePaths=/srv/lendery

[Install]
WantedBy=multi-user.target
UNIT
grep -c = deploy/lendery.service; sha256sum deploy/lendery.service | cut -c1-12

#: And the night job's timer: not at 02:40 sharp like the old one, it gets some slack around it.
cat > deploy/lendery-night.timer <<'UNIT'
[Timer]
OnCalendar=*-*-* 02:55:00
RandomizedDelaySec=240
Persistent=true

[Install]
WantedBy=timers.target
UNIT
cat deploy/lendery-night.timer | head -4; git add -A && git commit -q -m "Deployment" && git log --oneline | head -1

#: A smoke test against a copy of production, the whole way: start, look up, lend, refuse, kill.
python backup.py smoke.db >/dev/null && python - <<'PY'
import json, subprocess, time, urllib.error, urllib.request
code = "from lendery import api; api.Handler.path_to_db = 'smoke.db'; api.main(8418)"
server = subprocess.Popen(["python", "-c", code])
time.sleep(1)

def ask(path, data=None, token=""):
    body = json.dumps(data).encode() if data else None
    try:
        with urllib.request.urlopen(urllib.request.Request("http://127.0.0.1:8418" + path, body, {"X-Till": token})) as reply:
            return reply.status, reply.read().decode()[:90]
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()[:90]

loan = {"sku": "tl-9599 ", "member": "M-1020", "out": "2024-06-03"}
print(*ask("/items/TL-9599"))
print(*ask("/loans", loan))
print(*ask("/loans", loan, "AVYQUHLT7MZ4"))
print(*ask("/loans", loan, "AVYQUHLT7MZ4"))
server.kill()
PY
rm -f smoke.db*

#: All as it should be. What does the wire look like to somebody without a token who guesses? Count how many guesses a second are possible, to judge the 12 characters.
python - <<'PY'
import math
signs, length = 32, 12
print("bits:", math.log2(signs) * length)
print("but the seed is a till number and a year, so in truth:", f"{math.log2(900 * 30):.1f} bits")
PY

#: That is the honest figure and it is bad: tokens derived from a till number can be guessed by anybody who knows the rule. Draw real ones, keep only their hashes.
python - <<'PY'
path = "lendery/ids.py"
text = open(path).read()
start = text.index("def till_token")
text = text[:start] + '''def new_token():
    return secrets.token_urlsafe(18)


def token_hash(token):
    return hashlib.sha256(token.encode()).hexdigest()
'''
text = text.replace("import random\n", "import hashlib\nimport secrets\n")
open(path, "w").write(text)
path = "lendery/api.py"
text = open(path).read()
text = text.replace('''SELECT till FROM branch"):
            if hmac.compare_digest(ids.till_token(int(row["till"][1:]) * 10000 + 2024), given):''', '''SELECT till, token FROM branch WHERE token IS NOT NULL"):
            if hmac.compare_digest(row["token"], ids.token_hash(given)):''')
open(path, "w").write(text)
path = "lendery/migrate.py"
text = open(path).read()
text = text.rstrip()
text = text.replace('WHERE back IS NULL"],\n', 'WHERE back IS NULL"],\n    5: ["ALTER TABLE branch ADD COLUMN token TEXT"],\n', 1)
open(path, "w").write(text + "\n")
PY
python -c "
from lendery import db, migrate
migrate.migrate(db.connect('lendery.db'))"; grep -n 'token' lendery/*.py | head -12

#: The seeded tokens from the beginning are void now. Check: the one that lent a stud finder for Northgate must be turned away.
timeout 5 python -m lendery.api & python ask.py /loans '{"sku": "tl-1026", "member": "M-1003", "out": "2024-06-03"}' JUDG2DVUELHM; wait

#: Issue one token and use it. I do not print it, only its length and that it works.
timeout 6 python -m lendery.api & python - <<'PY'
import json, time, urllib.request
from lendery import db, ids
conn = db.connect("lendery.db")
token = ids.new_token()
conn.execute("UPDATE branch SET token = ? WHERE name = 'Millrace'", (ids.token_hash(token),))
conn.commit()
time.sleep(1)
request = urllib.request.Request("http://127.0.0.1:8417/loans", json.dumps({"sku": "TL-1026", "member": "M-1003", "out": "2024-06-03"}).encode(), {"X-Till": token})
with urllib.request.urlopen(request) as reply:
    print(len(token), "characters ->", reply.status, reply.read().decode())
PY
wait

#: 409, not 403: the token was accepted, only that ladder is out. Take a tool that is free.
timeout 6 python -m lendery.api & python - <<'PY'
import json, time, urllib.request
from lendery import db, ids
conn = db.connect("lendery.db")
sku = conn.execute("SELECT sku FROM item WHERE state = 'good' AND sku NOT IN (SELECT sku FROM loan WHERE back IS NULL) ORDER BY sku DESC").fetchone()[0]
token = ids.new_token()
conn.execute("UPDATE branch SET token = ? WHERE name = 'Millrace'", (ids.token_hash(token),))
conn.commit()
time.sleep(1)
request = urllib.request.Request("http://127.0.0.1:8417/loans", json.dumps({"sku": sku, "member": "M-1003", "out": "2024-06-03"}).encode(), {"X-Till": token})
with urllib.request.urlopen(request) as reply:
    print(len(token), "characters ->", reply.status, sku, reply.read().decode())
PY
wait

#: Tests, commit.
python -m unittest 2>&1 | tail -3 | sed 's/ in [0-9.]*s//'; git add -A && git commit -q -m "Random till tokens, stored as hashes (version 5)" && git log --oneline | head -1

#: Labels for the first shelf at Quarry, as the printer wants them: forty of them.
python - <<'PY'
from lendery import code39, db
for n, r in enumerate(db.connect("lendery.db").execute("SELECT sku, title FROM item JOIN branch ON branch.id = item.branch WHERE name = 'Quarry' AND category IN ('drills', 'ladders') ORDER BY sku LIMIT 40"), 1):
    print(f"{n:02d} {code39.encode(r['sku'])} {r['title'].upper()}")
PY

#: A README for whoever comes after me, short.
cat > README.txt <<'TXT'
lendery: tools, lent and returned

    python load.py                        import exports/ into lendery.db (starts anew!)
    python -m lendery.api                 the service, port 8417
    python -m lendery overdue             what is late
    python backup.py FILE                 a consistent copy while the service runs
    python restore.py FILE lendery.db     refuses a damaged copy
    python -m unittest                    the tests

After load.py run lendery.migrate, then issue till tokens. NOTES.txt still holds.
TXT
wc README.txt; git add -A && git commit -q -m "README" && git log --oneline | wc -l

#: One last full check of the live data: integrity, keys, the hold, the sums.
python - <<'PY'
from lendery import db
conn = db.connect("lendery.db")
one = lambda sql: conn.execute(sql).fetchone()[0]
print("version", one("pragma user_version"), "| integrity", one("pragma integrity_check"), "| broken keys", len(conn.execute("pragma foreign_key_check").fetchall()))
print("loans", one("select count(*) from loan"), "| 2019", one("select count(*) from loan where out like '2019%'"), "| out", one("select count(*) from loan where back is null"))
print("tools", one("select count(*) from item"), "| changed by hand", one("select count(*) from change"), "| rejects", one("select count(*) from reject"))
PY

#: Tag it.
git tag -a v1.0 -m "lendery 1.0" && git describe && git rev-list --count HEAD && git ls-files | wc -l && git status --short | wc -l

#: lendery 1.0 is tagged: imported, tested, packaged, with backups that are checked and till tokens that cannot be guessed. The rejected rows wait for the branches, and the hold on the loans of 2019 is kept.
