#: Let me start by seeing what is in the folder.
find . -type f -printf '%8s  %p\n' | sort -k2

#: The last maintainer left notes. Those first.
cat NOTES.txt

#: Which tools do I have to work with here?
python -c "import sys, sqlite3; print('python', sys.version.split()[0]); print('sqlite', sqlite3.sqlite_version)"; git --version

#: Before I touch anything, fingerprints of the exports, so that we can prove later that they are as we got them.
sha256sum exports/* logs/* | cut -c1-16,65-

#: Now the shape of the items.
head -8 exports/items.csv; echo ...; wc -l exports/items.csv

#: And the loans.
head -6 exports/loans.csv; echo ...; tail -3 exports/loans.csv; wc -l exports/loans.csv

#: Branches are few, I can read all of them.
cat exports/branches.json

#: Can the items be read as UTF-8 at all? Old systems rarely wrote it.
python -c "print(len(open('exports/items.csv', encoding='utf-8').read().splitlines()))"

#: As I feared. Which line is that?
python - <<'PY'
for number, line in enumerate(open("exports/items.csv", "rb"), 1):
    try:
        line.decode("utf-8")
    except UnicodeDecodeError as error:
        print(number, line, error)
PY

#: One line only, so the rest is plain ASCII, and Latin-1 reads all of it. Do all rows have six fields?
python - <<'PY'
import csv
for number, row in enumerate(csv.reader(open("exports/items.csv", encoding="latin-1")), 1):
    if len(row) != 6:
        print(f"line {number}: {len(row)} fields: {row}")
PY

#: Next suspicion: prices that are no numbers.
python - <<'PY'
import csv
for number, row in enumerate(csv.reader(open("exports/items.csv", encoding="latin-1")), 1):
    try:
        float(row[3])
    except ValueError as error:
        print(f"line {number}: {row[0]} {error}")
PY

#: The first of them is just the header. Are the branch names clean?
cut -d, -f5 exports/items.csv | sort | uniq -c | sort -rn

#: Those rare ones need a place. Where are they?
grep -nE ',(Harbor|North gate|),(good|worn|repair|quarantine)$' exports/items.csv

#: Are SKUs unique?
tail -n +2 exports/items.csv | cut -d, -f1 | sort | uniq -d | while read sku; do grep -n "^$sku," exports/items.csv; done

#: What states can a tool be in, and how many are in each?
tail -n +2 exports/items.csv | awk -F, '{n[$6]++} END {for (s in n) print n[s], s}' | sort -rn

#: Categories, with the range of their prices. The ladders should stand out if the note about cents is right.
python - <<'PY'
import csv, collections
seen = collections.defaultdict(list)
for row in csv.DictReader(open("exports/items.csv", encoding="latin-1")):
    try:
        seen[row["category"]].append(float(row["price"]))
    except ValueError:
        pass
for name, prices in sorted(seen.items()):
    print(f"{name:<10} {len(prices):4} items  {min(prices):10.2f} to {max(prices):10.2f}")
PY

#: The note is right. Now the loans: period, how many are still out, and does every loan know its tool?
python - <<'PY'
import csv
skus = {row["sku"] for row in csv.DictReader(open("exports/items.csv", encoding="latin-1"))}
loans = list(csv.DictReader(open("exports/loans.csv")))
print("from", min(l["out"] for l in loans), "to", max(l["out"] for l in loans))
print("still out:", sum(not l["back"] for l in loans))
lost = [l for l in loans if l["sku"] not in skus]
print("loans of tools that are not in items.csv:", len(lost))
print(" ".join(l["loan"] for l in lost))
PY

#: The auditors' hold is on 2019. How many loans is that?
grep -c ',2019-[0-9-]*,20[0-9-]*,' exports/loans.csv; awk -F, '$4 ~ /^2019/ {n++} END {print n " loans went out in 2019"}' exports/loans.csv

#: A look at the log, since the new service has to carry the same load.
head -12 logs/access.log; awk '{n[$5]++} END {for (s in n) print s, n[s]}' logs/access.log | sort

#: What fails, and how slowly? I want every server error.
awk '$5 >= 500' logs/access.log

#: Which of the paths is worst, and how slow is the slowest request?
awk '$5 >= 500 {n[$4]++} END {for (p in n) print n[p], p}' logs/access.log | sort -rn; sort -t' ' -k6 -n logs/access.log | awk '{sub("ms","",$6); if ($6+0 > m) {m=$6+0; l=$0}} END {print "slowest:", l "ms"}'

#: Who borrows most? It tells me what sizes the member page must cope with.
tail -n +2 exports/loans.csv | cut -d, -f3 | sort | uniq -c | sort -rn | head -8
