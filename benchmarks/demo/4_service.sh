#> Mira from Northgate called: their scanner sends SKUs in lower case and with a trailing blank. Please make the API accept that. And the barcodes have to be in the answer for a tool.

#: Noted, I will clean SKUs at the API's edge. Plain http.server with JSON; the port is 8417, well away from the old admin page.
cat > lendery/api.py <<'PY'
"""The HTTP API: JSON over http.server, one connection to the database a thread."""
import json
import sys
import threading
from datetime import date
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, unquote, urlsplit

from lendery import db, ids, loans

PORT = 8417
local = threading.local()


def conn(path):
    if not hasattr(local, "conn"):
        local.conn = db.connect(path)
    return local.conn


class Handler(BaseHTTPRequestHandler):
    path_to_db = "lendery.db"

    def log_message(self, *args):
        pass

    def answer(self, status, value):
        body = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        parts = urlsplit(self.path)
        where = parts.path.strip("/").split("/")
        database = conn(self.path_to_db)
        if where[0] == "items" and len(where) == 2:
            row = database.execute("SELECT * FROM item WHERE sku = ?", (where[1],)).fetchone()
            self.answer(200, dict(row) | {"barcode": ids.barcode(row["sku"], row["branch"])})
        elif where[0] == "items":
            branch = parse_qs(parts.query).get("branch", [""])[0]
            rows = database.execute("SELECT sku, title FROM item JOIN branch ON branch.id = item.branch WHERE name = ?", (branch,))
            self.answer(200, [dict(r) for r in rows])
        else:
            self.answer(404, {"error": "no such path"})

    def do_POST(self):
        given = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        try:
            number = loans.lend(conn(self.path_to_db), given["sku"], given["member"], date.fromisoformat(given["out"]))
            self.answer(201, {"loan": number})
        except loans.Refused as error:
            self.answer(409, {"error": str(error)})


def main(port=PORT):
    ThreadingHTTPServer(("127.0.0.1", port), Handler).serve_forever()


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else PORT)
PY
cat > ask.py <<'PY'
"""ask.py PATH [JSON]: one request, status and body."""
import sys, time, urllib.error, urllib.request
data = sys.argv[2].encode() if len(sys.argv) > 2 else None
for attempt in range(40):
    try:
        with urllib.request.urlopen(urllib.request.Request("http://127.0.0.1:8417" + sys.argv[1], data), timeout=5) as reply:
            print(reply.status, reply.read().decode()[:600])
        break
    except urllib.error.HTTPError as error:
        print(error.code, error.read().decode()[:300])
        break
    except urllib.error.URLError:
        time.sleep(0.1)
    except Exception as error:
        print(type(error).__name__, error)
        break
PY
timeout 4 python -m lendery.api & python ask.py /items/TL-5522; wait

#: It answers. Now as the scanner at Northgate sends it, and a tool that does not exist.
timeout 4 python -m lendery.api 2>server.err & python ask.py '/items/tl-5522%20'; python ask.py /items/TL-9998; wait; grep -E 'Error|line [0-9]+, in do_GET' server.err | sort | uniq -c

#: Both break the handler. Clean the SKU, and answer 404 for unknown tools.
python - <<'PY'
path = "lendery/api.py"
text = open(path).read()
text = text.replace('''(where[1],)).fetchone()
''', '''(clean(where[1]),)).fetchone()
            if row is None:
                return self.answer(404, {"error": f"no tool {clean(where[1])}"})
''')
text = text.replace('given["sku"], given["member"]', 'clean(given["sku"]), given["member"]')
text = text.replace('class Handler', '''def clean(sku):
    """Northgate's scanner sends lower case and a trailing blank."""
    return unquote(sku).strip().upper()


class Handler''')
open(path, "w").write(text)
PY
timeout 4 python -m lendery.api & python ask.py '/items/tl-5522%20'; python ask.py /items/TL-9998; python ask.py /nothing; wait

#: What happens when the service is started twice? The night job could do that.
timeout 4 python -m lendery.api & python ask.py /items/TL-5522 >/dev/null; timeout 2 python -m lendery.api; wait

#: It fails loudly, as it should, and the number to look for is that Errno. Lending over HTTP now.
timeout 5 python -m lendery.api & python ask.py '' '{"sku": "tl-5522", "member": "M-1003", "out": "2024-03-05"}'; python ask.py /loans '{"sku": "tl-5522", "member": "M-1004", "out": "2024-03-05"}'; python ask.py /loans '{"sku": "tl-0295", "member": "M-1004", "out": "2024-03-05"}'; wait

#: Good: a number, then two reasons. How big is the list of a branch, and can I see all of Quarry?
timeout 5 python -m lendery.api & sleep 1; python - <<'PY'
import json, urllib.request
for branch in ("Quarry", "Harbour", "Eastfield"):
    body = urllib.request.urlopen(f"http://127.0.0.1:8417/items?branch={branch}").read()
    print(branch, len(json.loads(body)), "tools", len(body), "bytes")
PY
wait

#: The list of Quarry in full, to compare with the labels on their shelves.
python - <<'PY'
from lendery import db, ids
conn = db.connect("lendery.db")
for r in conn.execute("SELECT item.*, branch.id b FROM item JOIN branch ON branch.id = item.branch WHERE branch.name = 'Quarry' AND category IN ('saws', 'measuring') ORDER BY sku"):
    print(r["sku"], f"{r['title']:<15} {r['cents'] / 100:8.2f} {r['state']:<10}", ids.barcode(r["sku"], r["b"]))
PY

#: Bodies that are no JSON, or lack a field?
timeout 5 python -m lendery.api 2>server.err & python ask.py /loans 'not json'; python ask.py /loans '{"sku": "TL-8265"}'; python ask.py /loans '{"sku": "TL-8265", "member": "M-1", "out": "yesterday"}'; wait; grep -E '^[A-Za-z.]*Error' server.err

#: Three ways to crash a request. One place to catch them, answering 400 with the reason.
python - <<'PY'
path = "lendery/api.py"
text = open(path).read()
text = text.replace('''        given = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        try:
''', '''        try:
            given = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
''')
text = text.replace('''            self.answer(409, {"error": str(error)})
''', '''            self.answer(409, {"error": str(error)})
        except KeyError as error:
            self.answer(400, {"error": f"missing field {error}"})
        except ValueError as error:
            self.answer(400, {"error": str(error)})
''')
open(path, "w").write(text)
PY
timeout 5 python -m lendery.api & python ask.py /loans 'not json'; python ask.py /loans '{"sku": "TL-8265"}'; python ask.py /loans '{"sku": "TL-8265", "member": "M-1", "out": "yesterday"}'; wait

#: Tokens: a till has to send its own in the header X-Till. Without one nothing may be lent.
python - <<'PY'
path = "lendery/api.py"
text = open(path).read()
text = text.replace('''    def do_POST(self):
''', '''    def till(self):
        """The till that the token belongs to, or None."""
        given = self.headers.get("X-Till", "")
        for row in conn(self.path_to_db).execute("SELECT till FROM branch"):
            if ids.till_token(int(row["till"][1:]) * 10000 + 2024) == given:
                return row["till"]
        return None

    def do_POST(self):
        if self.till() is None:
            return self.answer(403, {"error": "unknown till"})
''')
open(path, "w").write(text)
PY
sed -i 's|"http://127.0.0.1:8417" + sys.argv\[1\], data)|"http://127.0.0.1:8417" + sys.argv[1], data, {"X-Till": sys.argv[3]} if len(sys.argv) > 3 else {})|' ask.py
timeout 5 python -m lendery.api & python ask.py /loans '{"sku": "tl-7035", "member": "M-1003", "out": "2024-03-06"}'; python ask.py /loans '{"sku": "tl-7035", "member": "M-1003", "out": "2024-03-06"}' WRONGTOKEN12; python ask.py /loans '{"sku": "tl-7035", "member": "M-1003", "out": "2024-03-06"}' JUDG2DVUELHM; wait

#: Comparing secrets with == leaks timing; hmac.compare_digest is one line. And six tokens derived a request is wasteful, but measure first.
sed -i 's/if ids.till_token(int(row\["till"\]\[1:\]) \* 10000 + 2024) == given:/if hmac.compare_digest(ids.till_token(int(row["till"][1:]) * 10000 + 2024), given):/; s/^import json$/import hmac\nimport json/' lendery/api.py && python - <<'PY'
import timeit
from lendery import ids
print(f"{timeit.timeit(lambda: [ids.till_token(n) for n in range(6)], number=200) / 200 * 1e6:.0f} microseconds a request")
PY

#: Fine as it is. Commit.
git add -A && git commit -q -m "HTTP API with till tokens" && git log --oneline | head -1

#: Requests without a length, or with a huge one, are next on my list of things that break servers.
timeout 6 python -m lendery.api 2>server.err & sleep 1; python - <<'PY'
import socket
for head in ("", "Content-Length: 99999999999\r\n", "Content-Length: minus\r\n"):
    with socket.create_connection(("127.0.0.1", 8417), timeout=1.5) as wire:
        wire.sendall(f"POST /loans HTTP/1.1\r\nHost: x\r\nX-Till: JUDG2DVUELHM\r\n{head}\r\n".encode())
        try:
            print(repr(head), "->", wire.recv(60).split(b"\r\n")[0])
        except TimeoutError:
            print(repr(head), "-> no answer in 1.5 s")
PY
wait; grep -E '^[A-Za-z.]*Error' server.err

#: Two of three crash, one of them because it really tries to find room for a hundred gigabytes. A limit of 16 KiB on bodies, 411 and 413 in return, and ten seconds for a silent socket.
python - <<'PY'
path = "lendery/api.py"
text = open(path).read()
text = text.replace('    path_to_db = "lendery.db"\n', '    path_to_db = "lendery.db"\n    timeout = 10\n')
text = text.replace("""            return self.answer(403, {"error": "unknown till"})
""", """            return self.answer(403, {"error": "unknown till"})
        length = self.headers.get("Content-Length", "")
        if not length.isdigit():
            return self.answer(411, {"error": "a length, please"})
        if int(length) > 16384:
            return self.answer(413, {"error": "more than 16 KiB"})
""")
text = text.replace('int(self.headers["Content-Length"])', "int(length)")
open(path, "w").write(text)
PY
timeout 6 python -m lendery.api & sleep 1; python - <<'PY'
import socket
for head in ("", "Content-Length: 99999999999\r\n", "Content-Length: minus\r\n"):
    with socket.create_connection(("127.0.0.1", 8417), timeout=1.5) as wire:
        wire.sendall(f"POST /loans HTTP/1.1\r\nHost: x\r\nX-Till: JUDG2DVUELHM\r\n{head}\r\n".encode())
        reply = b"".join(iter(lambda: wire.recv(4096), b""))
        print(repr(head), "->", reply.split(b"\r\n")[0])
PY
wait

#: Would it pay to compress the lists? Sizes for each branch, plain and gzip.
python - <<'PY'
import gzip, json
from lendery import db
conn = db.connect("lendery.db")
for (name,) in conn.execute("SELECT name FROM branch ORDER BY name").fetchall():
    rows = [dict(r) for r in conn.execute("SELECT sku, title FROM item JOIN branch ON branch.id = item.branch WHERE name = ?", (name,))]
    body = json.dumps(rows).encode()
    print(f"{name:<10} {len(body):6} plain {len(gzip.compress(body, mtime=0)):6} gzip")
PY

#: Much smaller, but nine kilobytes are nothing on their line. No compression. An ETag is cheaper still: what would it be for Oldtown?
python - <<'PY'
import hashlib, json
from lendery import db
conn = db.connect("lendery.db")
rows = [tuple(r) for r in conn.execute("SELECT sku, title, state FROM item JOIN branch ON branch.id = item.branch WHERE name = 'Oldtown' ORDER BY sku")]
print('ETag: "' + hashlib.blake2s(json.dumps(rows).encode(), digest_size=6).hexdigest() + '"', len(rows), "rows")
PY

#: I leave ETags for later. Other methods than GET and POST, what do they get?
timeout 5 python -m lendery.api & sleep 1; python - <<'PY'
import urllib.error, urllib.request
for method in ("HEAD", "PUT", "DELETE", "BREW"):
    try:
        print(method, urllib.request.urlopen(urllib.request.Request("http://127.0.0.1:8417/items", method=method)).status)
    except urllib.error.HTTPError as error:
        print(method, error.code, error.reason)
PY
wait

#: 501 is right. Commit this hardening.
git add -A && git commit -q -m "API: limits on bodies, silent sockets are closed" && git log --oneline | head -1

#: Load it a little: 400 requests from eight threads, and the percentiles.
timeout 20 python -m lendery.api & sleep 1; python - <<'PY'
import concurrent.futures, statistics, time, urllib.request

def one(n):
    begin = time.perf_counter()
    urllib.request.urlopen("http://127.0.0.1:8417/items/TL-5522").read()
    return (time.perf_counter() - begin) * 1000

with concurrent.futures.ThreadPoolExecutor(8) as pool:
    times = sorted(pool.map(one, range(400)))
print(f"p50 {statistics.median(times):.1f} ms, p95 {times[380]:.1f} ms, max {times[-1]:.1f} ms")
PY
kill %1; wait 2>/dev/null; true

#: Now writes from several tills at once, which is what a Saturday looks like. Each thread lends different tools.
cat > saturday.py <<'PY'
import collections, sys, threading
from datetime import date
from lendery import db, loans

timeout = float(sys.argv[1])
setup = db.connect("lendery.db")
free = [r[0] for r in setup.execute("SELECT sku FROM item WHERE state IN ('good', 'worn') AND sku NOT IN (SELECT sku FROM loan WHERE back IS NULL) ORDER BY sku LIMIT 240")]
before = setup.execute("SELECT count(*) FROM loan").fetchone()[0]
results = collections.Counter()

def till(number):
    conn = db.connect("lendery.db", timeout)
    for sku in free[number::6]:
        try:
            loans.lend(conn, sku, f"M-{3000 + number}", date(2024, 3, 9))
            results["lent"] += 1
        except Exception as error:
            conn.rollback()
            results[f"{type(error).__name__}: {error}"] += 1

threads = [threading.Thread(target=till, args=(n,)) for n in range(6)]
[t.start() for t in threads]
[t.join() for t in threads]
after = setup.execute("SELECT count(*) FROM loan").fetchone()[0]
for name, n in sorted(results.items(), key=lambda pair: pair[0] != "lent"):
    print("lent" if name == "lent" else name, "(all)" if n == len(free) else "(some)" if n else "")
print("no loan was lost" if after - before == results["lent"] else "LOANS LOST")
setup.execute("DELETE FROM loan WHERE member LIKE 'M-300_'")
setup.commit()
PY
python saturday.py 0
