#: Now the overdue report. First the straightforward way, timed as it is.
cat > lendery/report.py <<'PY'
"""Reports for the branches."""
from datetime import date


def overdue(conn, today):
    found = []
    for loan in conn.execute("SELECT * FROM loan WHERE back IS NULL").fetchall():
        item = conn.execute("SELECT * FROM item WHERE sku = ?", (loan["sku"],)).fetchone()
        branch = conn.execute("SELECT * FROM branch WHERE id = ?", (item["branch"],)).fetchone()
        earlier = conn.execute("SELECT count(*) FROM loan WHERE member = ? AND back > due", (loan["member"],)).fetchone()[0]
        days = (date.fromisoformat(today) - date.fromisoformat(loan["due"])).days
        if days > 0:
            found.append((branch["name"], days, loan["id"], loan["member"], item["title"], earlier))
    return sorted(found)
PY
python - <<'PY'
import time
from lendery import db, report
conn = db.connect("lendery.db")
begin = time.perf_counter()
rows = report.overdue(conn, "2024-06-03")
print(f"{len(rows)} overdue, {(time.perf_counter() - begin) * 1000:.1f} ms")
PY

#: It works; let me see it whole once, per branch.
python - <<'PY'
from lendery import db, report
for branch, days, loan, member, title, earlier in report.overdue(db.connect("lendery.db"), "2024-06-03"):
    print(f"{branch:<10} {days:4} days  {loan}  {member}  {title:<18} late before: {earlier}")
PY

#: How does it behave with fifty times the loans? Build a big copy.
python - <<'PY'
import os, sqlite3
from lendery import db
if os.path.exists("big.db"): os.remove("big.db")
source, target = sqlite3.connect("lendery.db"), sqlite3.connect("big.db")
source.backup(target); source.close()
for copy in range(1, 50):
    target.execute("INSERT INTO loan SELECT id || '-' || ?, sku, member, out, due, back, old_sku, fee FROM loan WHERE length(id) = 6", (copy,))
target.commit()
print(target.execute("SELECT count(*) FROM loan").fetchone()[0], "loans,", target.execute("SELECT count(*) FROM loan WHERE back IS NULL").fetchone()[0], "of them out")
PY
stat -c '%s bytes' big.db

#: Profile the report on it, on a tenth of the open loans, or we will wait all day.
python - <<'PY' | grep -vE '^ *$' | head -16
import cProfile, pstats
from lendery import db, report
conn = db.connect("big.db")
conn.execute("DELETE FROM loan WHERE back IS NULL AND rowid % 10 <> 0")
profile = cProfile.Profile()
profile.runcall(report.overdue, conn, "2024-06-03")
pstats.Stats(profile).sort_stats("tottime").print_stats(5)
PY

#: Nearly all of it in execute. Which statement? The plan tells.
python - <<'PY'
from lendery import db
conn = db.connect("big.db")
for sql in ("SELECT * FROM loan WHERE back IS NULL", "SELECT * FROM item WHERE sku = 'x'", "SELECT count(*) FROM loan WHERE member = 'x' AND back > due"):
    print(sql, "->", conn.execute("EXPLAIN QUERY PLAN " + sql).fetchone()["detail"])
PY

#: Two scans of the whole table, one of them for each open loan. Two indexes; the one for open loans can be partial. As migration 4.
sed -i 's/^}$/    4: ["CREATE INDEX loan_member ON loan (member)", "CREATE INDEX loan_open ON loan (sku) WHERE back IS NULL"],\n}/' lendery/migrate.py && python -c "
from lendery import db, migrate
for path in ('lendery.db', 'big.db'): migrate.migrate(db.connect(path))" && python - <<'PY'
import time
from lendery import db, report
conn = db.connect("big.db")
begin = time.perf_counter()
rows = report.overdue(conn, "2024-06-03")
print(f"{len(rows)} overdue of the big copy, {(time.perf_counter() - begin) * 1000:.0f} ms")
PY

#: All of them, and fast. And as one statement with joins instead of three a loan?
cat > lendery/report.py <<'PY'
"""Reports for the branches."""

OVERDUE = """
SELECT branch.name, CAST(julianday(:today) - julianday(due) AS INTEGER) days, loan.id, loan.member, item.title,
       (SELECT count(*) FROM loan l WHERE l.member = loan.member AND l.back > l.due) earlier
FROM loan JOIN item USING (sku) JOIN branch ON branch.id = item.branch
WHERE back IS NULL AND due < :today ORDER BY branch.name, days, loan.id, loan.member, item.title
"""


def overdue(conn, today):
    return [tuple(r) for r in conn.execute(OVERDUE, {"today": today})]
PY
python - <<'PY'
import time
from lendery import db, report
conn = db.connect("big.db")
begin = time.perf_counter()
rows = report.overdue(conn, "2024-06-03")
print(f"{len(rows)} overdue, {(time.perf_counter() - begin) * 1000:.0f} ms")
PY

#: What did the indexes cost in size, and does ANALYZE change the plan?
stat -c '%s bytes' big.db; python - <<'PY'
from lendery import db, report
conn = db.connect("big.db")
for when in ("before", "after"):
    print(when, [r["detail"] for r in conn.execute("EXPLAIN QUERY PLAN " + report.OVERDUE, {"today": "2024-06-03"})])
    conn.execute("ANALYZE")
PY
rm big.db*

#: A report of the stock by category and state, for the yearly meeting.
python - <<'PY'
from lendery import db
conn = db.connect("lendery.db")
print(f"{'':<10}" + "".join(f"{s:>12}" for s in ("good", "worn", "repair", "quarantine")))
for (category,) in conn.execute("SELECT DISTINCT category FROM item ORDER BY 1").fetchall():
    counts = [conn.execute("SELECT count(*) FROM item WHERE category = ? AND state = ?", (category, s)).fetchone()[0] for s in ("good", "worn", "repair", "quarantine")]
    print(f"{category:<10}" + "".join(f"{n:12}" for n in counts))
PY

#: And the worth of it per branch, in euros, for the insurance.
python - <<'PY'
from lendery import db
for r in db.connect("lendery.db").execute("SELECT name, count(*) n, sum(cents) c FROM item JOIN branch ON branch.id = item.branch GROUP BY name ORDER BY c DESC"):
    print(f"{r['name']:<10} {r['n']:4} tools {r['c'] / 100:11.2f}")
PY

#: Loans by month over the last two years; the chair asked about the seasons.
python - <<'PY'
from lendery import db
for r in db.connect("lendery.db").execute("SELECT substr(out, 1, 7) month, count(*) n, sum(fee) / 100 fees FROM loan WHERE out >= '2022-03' GROUP BY month"):
    print(r["month"], f"{r['n']:3} loans {r['fees'] or 0:4} euros", "#" * (r["n"] // 3))
PY

#: The night job. It has nine minutes at most; what does a full export take, and how big is it?
cat > export.py <<'PY'
import csv, gzip, hashlib, io, time
from lendery import db
begin = time.perf_counter()
conn = db.connect("lendery.db")
out = io.StringIO()
writer = csv.writer(out, lineterminator="\n")
for table in ("branch", "item", "loan"):
    rows = conn.execute(f"SELECT * FROM {table} ORDER BY 1").fetchall()
    writer.writerows(rows)
    print(f"{table}: {len(rows)} rows")
data = out.getvalue().encode()
packed = gzip.compress(data, mtime=0)
open("nightly.csv.gz", "wb").write(packed)
print(len(data), "bytes,", len(packed), "packed, md5", hashlib.md5(data).hexdigest()[:12])
print("seconds:", "under one" if time.perf_counter() - begin < 1 else round(time.perf_counter() - begin))
PY
python export.py

#: Far below nine minutes. Commit all of that.
printf 'nightly*\nserver.err\nbig.db*\n' >> .gitignore && git add -A && git commit -q -m "Reports, indexes (version 4), nightly export" && git log --oneline | head -1
