#: Back to the rejects. TL-4937 is two different tools under one number. The second one needs a free SKU; draw it, with a seed, so that it can be repeated.
python - <<'PY'
import random
from lendery import db
taken = {r[0] for r in db.connect("lendery.db").execute("SELECT sku FROM item UNION SELECT sku FROM loan")}
rng = random.Random(4937)
draws = 0
while True:
    draws += 1
    sku = f"TL-{rng.randrange(10_000):04d}"
    if sku not in taken:
        break
print("free after", draws, "draws:", sku)
PY

#: Enter that stud finder under its new number, with a line in a list of changes by hand, which the auditors will like.
python - <<'PY'
import random
from lendery import db
conn = db.connect("lendery.db")
taken = {r[0] for r in conn.execute("SELECT sku FROM item UNION SELECT sku FROM loan")}
rng = random.Random(4937)
sku = next(s for s in iter(lambda: f"TL-{rng.randrange(10_000):04d}", None) if s not in taken)
conn.execute("CREATE TABLE change (what TEXT, why TEXT)")
conn.execute("INSERT INTO item SELECT ?, 'Stud finder', 'measuring', 44589, id, 'worn' FROM branch WHERE name = 'Quarry'", (sku,))
conn.execute("INSERT INTO change VALUES (?, 'second tool under TL-4937, items.csv line 677')", (sku,))
conn.commit()
print(*conn.execute("SELECT * FROM item WHERE sku = ?", (sku,)).fetchone())
PY

#: The row with seven fields only has a note too many; it can come in. Its loans as well.
python - <<'PY'
from lendery import db
conn = db.connect("lendery.db")
conn.execute("INSERT INTO item SELECT 'TL-2521', 'Step ladder', 'ladders', 28361, id, 'worn' FROM branch WHERE name = 'Harbour'")
conn.execute("INSERT INTO change VALUES ('TL-2521', 'seven fields, the last one dropped: see note')")
moved = 0
for r in conn.execute("SELECT rowid, raw FROM reject WHERE source = 'loans'").fetchall():
    values = r["raw"].split(",")
    if values[1] == "TL-2521":
        conn.execute("INSERT INTO loan (id, sku, member, out, due, back) VALUES (?, ?, ?, ?, ?, nullif(?, ''))", values)
        conn.execute("DELETE FROM reject WHERE rowid = ?", (r["rowid"],))
        moved += 1
conn.commit()
print(moved, "loan came in,", conn.execute("SELECT count(*) FROM reject").fetchone()[0], "rejects left")
PY

#: What is left, by tool: those that occur more than once might be worth a phone call.
python - <<'PY'
from collections import Counter
from lendery import db
counts = Counter(r["raw"].split(",")[1] for r in db.connect("lendery.db").execute("SELECT raw FROM reject WHERE source = 'loans'"))
print([pair for pair in counts.most_common() if pair[1] > 1])
PY

#: TL-1289, TL-0450 and TL-6662 then. Privacy next: loans older than four years shall lose their member's number, except what is under the hold.
python - <<'PY'
from lendery import db
conn = db.connect("lendery.db")
sql = "FROM loan WHERE out < '2020-06-03' AND back IS NOT NULL"
print("older than four years:", conn.execute("SELECT count(*) " + sql).fetchone()[0])
print("of these of 2019, kept:", conn.execute("SELECT count(*) " + sql + " AND out LIKE '2019%'").fetchone()[0])
changed = conn.execute("UPDATE loan SET member = 'M-0000' WHERE out < '2020-06-03' AND back IS NOT NULL AND out NOT LIKE '2019%'").rowcount
conn.commit()
print("anonymised:", changed)
PY

#: A look at who is left as a member, by number of loans.
python - <<'PY'
from lendery import db
for r in db.connect("lendery.db").execute("SELECT n, count(*) members FROM (SELECT member, count(*) n FROM loan WHERE member <> 'M-0000' GROUP BY member) GROUP BY n"):
    print(r["n"], "loans:", r["members"], "members")
PY

#: Commit, then the log, as a yardstick for capacity: which minutes were the busiest?
git add -A && git commit -q --allow-empty -m "Data: TL-4937 split, TL-2521 in, old loans anonymised" && git log --oneline | head -1; cut -c1-5 logs/access.log | sort | uniq -c | sort -rn | head -6

#: The third number of an address is the branch. Who asks most, and whose requests are slowest?
python - <<'PY'
import collections, statistics
names = ["Northgate", "Harbour", "Millrace", "Oldtown", "Quarry", "Eastfield"]
times = collections.defaultdict(list)
for line in open("logs/access.log"):
    clock, address, method, path, status, ms = line.split()
    times[names[int(address.split(".")[2])]].append(int(ms[:-2]))
for name, values in sorted(times.items()):
    print(f"{name:<10} {len(values):4} requests, median {statistics.median(values):5.0f} ms, p99 {sorted(values)[int(len(values) * .99)]:5} ms")
PY

#: Are there gaps, minutes without anybody? The service may be restarted then.
python - <<'PY'
seconds = []
for line in open("logs/access.log"):
    h, m, s = line.split()[0].split(":")
    seconds.append(int(h) * 3600 + int(m) * 60 + int(s))
gaps = sorted(((b - a, a) for a, b in zip(seconds, seconds[1:])), reverse=True)[:4]
for length, start in gaps:
    print(f"{length} s from {start // 3600:02d}:{start // 60 % 60:02d}:{start % 60:02d}")
print("requests in all", len(seconds), "until", line.split()[0])
PY

#: No gap over two minutes, so a restart has to be quick. How long does the service take from start to first answer?
python - <<'PY'
import subprocess, time, urllib.request
begin = time.perf_counter()
server = subprocess.Popen(["python", "-m", "lendery.api"])
while True:
    try:
        urllib.request.urlopen("http://127.0.0.1:8417/items/TL-5522").read()
        break
    except OSError:
        time.sleep(0.01)
print(f"{time.perf_counter() - begin:.2f} s")
server.kill()
PY

#: Good enough. Backups: sqlite's own backup while somebody writes, checked afterwards.
cat > backup.py <<'PY'
"""backup.py TARGET: a consistent copy while the service runs."""
import hashlib, sqlite3, sys
source, target = sqlite3.connect("lendery.db"), sqlite3.connect(sys.argv[1])
source.backup(target, pages=16)
target.execute("PRAGMA journal_mode = DELETE")
print("integrity", target.execute("PRAGMA integrity_check").fetchone()[0], "loans", target.execute("SELECT count(*) FROM loan").fetchone()[0])
target.close()
print("sha256", hashlib.sha256(open(sys.argv[1], "rb").read()).hexdigest()[:24])
PY
python backup.py monday.db; python backup.py tuesday.db

#: Two backups of the same data, equal fingerprints, good. Now break one on purpose: overwrite a page in the middle, and see what notices.
python - <<'PY'
import sqlite3
with open("tuesday.db", "r+b") as file:
    file.seek(4096 * 60)
    file.write(b"\x00" * 4096)
conn = sqlite3.connect("tuesday.db")
for row in conn.execute("PRAGMA integrity_check(4)"):
    print(row[0])
try:
    print(conn.execute("SELECT count(*), sum(length(member)) FROM loan").fetchone())
except sqlite3.DatabaseError as error:
    print(type(error).__name__, error)
PY

#: It is noticed at once, the check itself could not even finish. Restoring must therefore check first. A restore that refuses a bad file:
cat > restore.py <<'PY'
"""restore.py SOURCE TARGET: refuses a backup that is not sound."""
import shutil, sqlite3, sys
found = sqlite3.connect(sys.argv[1]).execute("PRAGMA integrity_check(1)").fetchone()[0]
if found != "ok":
    sys.exit(f"not restored: {found.splitlines()[-1]}")
shutil.copyfile(sys.argv[1], sys.argv[2])
print("restored", sys.argv[2])
PY
python restore.py tuesday.db new.db; python restore.py monday.db new.db; cmp monday.db new.db && echo identical; rm tuesday.db new.db

#: How much of the file is air after all these deletions? Page counts, then VACUUM on a copy.
python - <<'PY'
import os, shutil, sqlite3
shutil.copyfile("monday.db", "vacuum.db")
conn = sqlite3.connect("vacuum.db")
for name in ("page_size", "page_count", "freelist_count"):
    print(name, conn.execute(f"PRAGMA {name}").fetchone()[0])
before = os.path.getsize("vacuum.db")
conn.execute("VACUUM")
print(before, "->", os.path.getsize("vacuum.db"), "bytes")
os.remove("vacuum.db")
PY

#: Not worth a weekly VACUUM. The write-ahead log: how large does it grow on a Saturday, and does a checkpoint empty it?
python - <<'PY'
import os
from lendery import db
conn = db.connect("lendery.db")
for n in range(300):
    conn.execute("INSERT INTO waiting VALUES ('TL-5522', ?, '2024-03-09')", (f"M-{4000 + n}",))
    conn.commit()
print("wal", os.path.getsize("lendery.db-wal"), "bytes")
print("checkpoint", tuple(conn.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()))
print("wal", os.path.getsize("lendery.db-wal"), "bytes")
conn.execute("DELETE FROM waiting")
conn.commit()
PY

#: Memory of the service under load, with tracemalloc: does anything pile up over 3,000 look-ups?
python - <<'PY'
import tracemalloc
from lendery import db, ids
conn = db.connect("lendery.db")
def work(n):
    for _ in range(n):
        row = conn.execute("SELECT * FROM item WHERE sku = 'TL-5522'").fetchone()
        ids.barcode(row["sku"], row["branch"])
tracemalloc.start()
work(100)
first = tracemalloc.get_traced_memory()[0]
work(3000)
grown = tracemalloc.get_traced_memory()[0] - first
print("grown by less than 4 KiB" if grown < 4096 else f"grown by {grown} bytes")
PY

#: Stable. Commit the two tools.
printf 'monday.db\nkeep-v1.db\n' >> .gitignore && git add -A && git commit -q -m "Backup and restore" && git log --oneline | head -1
