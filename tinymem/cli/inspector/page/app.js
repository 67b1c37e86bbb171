// The inspector's page: a memory's timeline, recall, context and episodes, and changes of single steps.
//
// All that is said in a memory is untrusted. It becomes text nodes only (`h` below), never markup, and the policy of
// the page (Trusted Types) would refuse anything else. Nothing is fetched but the answers of the server that sent the
// page; a page in a file has its data in it.
// -- elements and formats ---------------------------------------------------------------------------------------------

const $ = (selector) => document.querySelector(selector);

/** Make an element: `h("p.note", {title: "..."}, "text", child)`. Strings become text, whatever stands in them. */
function h(name, attributes = {}, ...children) {
  const [tag, ...classes] = name.split(".");
  const element = document.createElement(tag);
  if (classes.length) element.className = classes.join(" ");
  for (const [key, value] of Object.entries(attributes)) {
    if (value === undefined || value === null || value === false) continue;
    if (key.startsWith("on")) element.addEventListener(key.slice(2), value);
    else if (key === "style")
      Object.entries(value).forEach(([property, given]) => element.style.setProperty(property, given));
    else element.setAttribute(key, value === true ? "" : value);
  }
  return fill(element, children);
}

/** Put children into an element, in the place of those that it has; what is null or false is left out. */
function fill(element, ...children) {
  element.replaceChildren(
    ...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false),
  );
  return element;
}

const integer = new Intl.NumberFormat("en-US");
const compact = new Intl.NumberFormat("en-US", {notation: "compact", maximumFractionDigits: 1});
const dateTime = new Intl.DateTimeFormat("en-GB", {dateStyle: "medium", timeStyle: "short"});
const dateOnly = new Intl.DateTimeFormat("en-GB", {dateStyle: "medium"});

const many = (count, what) => `${integer.format(count)} ${what}${count === 1 ? "" : "s"}`;
const signed = (value) => `${value < 0 ? "−" : "+"}${Math.abs(value).toFixed(2)}`;
const when = (time) => (time ? dateTime.format(new Date(time)) : null);
const day = (time) => dateOnly.format(new Date(time));
const words = (name) => name.replaceAll("_", " ");
const percent = (share) => (share < 0.01 && share > 0 ? "<1 %" : `${Math.round(share * 100)} %`);
/** The text of a call, whose arguments are JSON: with line breaks where these have them. */
const readable = (text) => text.replace(/\\(["\\nt])/g, (_, escaped) => ({n: "\n", t: "\t"})[escaped] ?? escaped);
const shortened = (text, most) => (text.length > most ? `${text.slice(0, most)}…` : text);
const partText = ({kind, text}) => (kind === "call" ? readable(text) : text);
const SMOOTHLY = {behavior: "smooth", block: "center"};
const part = (amount, whole) => `${whole > 0 ? Math.min(100, (100 * amount) / whole) : 0}%`;

function bytes(count) {
  const power = Math.min(4, Math.floor(Math.log10(Math.max(1, count)) / 3));
  return `${(count / 1000 ** power).toFixed(power ? 1 : 0)} ${["B", "kB", "MB", "GB", "TB"][power]}`;
}

/** Call `work` with the newest arguments, and never again before it is done. */
function newest(work) {
  let waiting = null,
    running = false;
  return async function run(...given) {
    waiting = given;
    if (running) return;
    running = true;
    while (waiting) {
      const now = waiting;
      waiting = null;
      await work(...now);
    }
    running = false;
  };
}

function toast(text, kind = "") {
  const shown = h(`p${kind && "."}${kind}`, {}, text);
  $("#toasts").append(shown);
  setTimeout(() => shown.remove(), 6000);
}

// -- where answers come from: the server, or the data in this file ----------------------------------------------------

const data = JSON.parse($("#data").textContent);
const isFile = data !== null;
const token = new URLSearchParams(location.search).get("token");

async function askServer(name, values) {
  const headers = {Authorization: `Bearer ${token}`, "Content-Type": "application/json"};
  const request = {method: "POST", headers, body: JSON.stringify(values)};
  const answer = await fetch(`/api/${name}`, request).catch(() => {
    throw new Error("The server does not answer: is it still running?");
  });
  const found = await answer.json().catch(() => ({error: `The server failed (${answer.status}).`}));
  if (!answer.ok) throw new Error(found.error);
  return found;
}

const inFile = {
  overview: () => data.overview,
  version: () => ({version: 0}),
  steps: ({start, stop, ...filter}) => {
    const lines = filtered(filter);
    return {count: lines.length, lines: lines.slice(start, stop)};
  },
  segments: (filter) => ({segments: segmentsOf(filtered(filter))}),
  place: ({number, ...filter}) => {
    const lines = filtered(filter),
      place = lines.findIndex((line) => line.number >= number);
    return {place: place < 0 ? lines.length : place};
  },
  step: ({number}) => {
    const found = data.steps.find((step) => step.number === number);
    if (!found) throw new Error(`Step #${number} is not in this file.`);
    return found;
  },
  recall: ({query, budget}) => (data.recalls[query] || []).findLast((found) => found.budget <= budget),
  context: ({budget}) => {
    const found = data.contexts.findLast((one) => one.budget <= budget);
    if (found.error) throw new Error(found.error);
    return found;
  },
  episodes: ({start, stop}) => ({count: data.episodes.length, episodes: data.episodes.slice(start, stop)}),
  episode: ({first, last}) => ({lines: data.steps.filter((line) => line.number >= first && line.number <= last)}),
};

function filtered({session, type, tier, find}) {
  const wanted = find?.toLowerCase();
  return data.steps.filter(
    (line) =>
      (!wanted || line.parts.some((part) => part.text.toLowerCase().includes(wanted))) &&
      (!session || line.session === session) &&
      (!type || line.type === type) &&
      (!tier || (line.tier === "archive") === (tier === "archive")),
  );
}

function segmentsOf(lines) {
  const size = Math.max(1, Math.ceil(lines.length / 240)),
    found = [];
  for (let at = 0; at < lines.length; at += size) {
    const steps = lines.slice(at, at + size),
      sum = (some) => some.reduce((total, step) => total + step.tokens, 0);
    const inside = steps.filter((step) => step.tier !== "archive");
    found.push({
      first: steps[0].number,
      last: steps.at(-1).number,
      steps: steps.length,
      tokens: sum(steps),
      window: sum(inside),
      session: steps[0].session,
    });
  }
  return found;
}

/** The answer of a call, and in how many milliseconds the server gave it. */
async function call(name, values = {}) {
  if (isFile) return inFile[name](values);
  const begun = performance.now();
  const found = await askServer(name, values);
  return {...found, milliseconds: Math.round(performance.now() - begun)};
}

// -- what all views share ---------------------------------------------------------------------------------------------

let memory = null; // the overview
const hues = new Map(); // the colour of each session, by name

const sessionColor = (session) => `var(--session-${(hues.get(session) ?? 0) % 8})`;
const dot = (session) => h("i.dot", {style: {background: sessionColor(session)}});

const TYPES = {
  system_prompt: "system",
  task: "task",
  planning: "plan",
  action: "action",
  message: "message",
  scratchpad: "note",
  summary: "summary",
  final_answer: "answer",
};
const TIERS = {fixed: "always in", window: "in the window", archive: "archived"};

/** A bar in proportion: `parts` are [name, amount, title], and the rest of `whole` stays free. */
function bar(name, parts, whole) {
  return h(
    `div.bar.${name}`,
    {role: "img", "aria-label": parts.map(([kind, amount]) => `${kind} ${amount}`).join(", ")},
    parts
      .filter(([, amount]) => amount > 0)
      .map(([kind, amount, title]) =>
        h(`i.${kind.replaceAll(" ", "-")}`, {
          style: {width: part(amount, whole)},
          title: title ?? `${kind}: ${integer.format(amount)}`,
        }),
      ),
  );
}

/** A text that may be long: its beginning, and a button for the rest. */
function longText(text, most = 1200) {
  const shown = h("pre.text", {}, text.length > most * 1.2 ? `${text.slice(0, most)}…` : text);
  if (text.length <= most * 1.2) return shown;
  const more = h(
    "button.link",
    {
      onclick: () => {
        shown.textContent = text;
        more.remove();
      },
    },
    `Show all ${integer.format(text.length)} characters`,
  );
  return h("div", {}, shown, more);
}

/** A slider over token budgets, in even steps of their logarithm; in a file, over those that have answers. */
function budgetSlider(start, changed) {
  const scale = isFile
    ? {most: data.budgets.length - 1, tokens: (at) => data.budgets[at]}
    : {most: 180, tokens: (at) => Number((62.5 * 2 ** (at / 20)).toPrecision(2))};
  const output = h("output");
  const input = h("input", {type: "range", min: 0, max: scale.most, step: 1, "aria-label": "Token budget"});
  const slider = {
    element: h("label.budget", {}, h("span", {}, "Budget"), input, output),
    get value() {
      return scale.tokens(Number(input.value));
    },
    set value(tokens) {
      let at = 0;
      while (at < scale.most && scale.tokens(at) < tokens) at++;
      input.value = at;
      show();
    },
  };
  const show = () => {
    output.textContent = many(slider.value, "token");
    input.setAttribute("aria-valuetext", output.textContent);
  };
  input.addEventListener("input", () => {
    show();
    changed();
  });
  slider.value = start;
  return slider;
}

// -- the three tiers --------------------------------------------------------------------------------------------------

function showTiers() {
  const {max_tokens: budget, covered} = memory;
  const tiers = Object.fromEntries(memory.tiers.map((tier) => [tier.name, tier]));
  const held = tiers.fixed.tokens + tiers.window.tokens;
  const card = (name, title, figure, text, shown, ...notes) =>
    h(
      `article.tier.${name}`,
      {},
      h("h2", {}, title),
      h("p.figure", {}, figure),
      h("p", {}, text),
      shown,
      notes.map((note) => h("p.small", {}, note)),
    );
  const arrow = (text) => h("div.arrow", {"aria-hidden": true}, h("span", {}, text), "→");
  fill(
    $("#tiers"),
    card(
      "window",
      "Short term: the window",
      many(tiers.fixed.steps + tiers.window.steps, "step"),
      "The newest steps, sent word for word.",
      bar(
        "window",
        [
          ["fixed", tiers.fixed.tokens, `always in: ${integer.format(tiers.fixed.tokens)} tokens`],
          ["window", tiers.window.tokens, `the rest of the window: ${integer.format(tiers.window.tokens)} tokens`],
        ],
        Math.max(held, budget),
      ),
      `${integer.format(held)} of the ${many(budget, "token")} of a context`,
    ),
    arrow("leaves"),
    card(
      "episodes",
      "Medium term: episodes",
      memory.episode_count === 1 ? "1 summary" : `${integer.format(memory.episode_count)} summaries`,
      "Steps that left the window together, in a few lines.",
      bar("episodes", [["episodes", covered]], tiers.archive.steps),
      `of ${integer.format(covered)} of ${many(tiers.archive.steps, "archived step")}`,
    ),
    arrow("stays whole"),
    card(
      "archive",
      "Long term: the archive",
      many(tiers.archive.steps, "step"),
      "Every step that left. Recall brings back what matters.",
      bar("archive", [["archive", tiers.archive.tokens]], memory.stats.tokens),
      `${compact.format(tiers.archive.tokens)} of all ${compact.format(memory.stats.tokens)} tokens, ${bytes(memory.stats.bytes_on_disk)} on disk`,
    ),
  );
}

// -- the timeline -----------------------------------------------------------------------------------------------------

const SLICE = 100; // rows that are asked for at once
const KEPT = 120; // slices that are kept
const AHEAD = 6; // slices that are asked for before they come into sight
const TALLEST = 12_000_000; // pixels: browsers draw nothing that is much taller
const BEHIND = 10, // rows beyond the edges of what is in sight,
  BEFORE = 30; // and where the list moves to

/** A list of any length of which only the rows in sight exist. `fetch(start, stop)` gives {count, lines}. */
class VirtualList {
  constructor(row, fetch, moved) {
    Object.assign(this, {
      row,
      fetch,
      moved,
      count: 0,
      slices: new Map(),
      wanted: [],
      rows: new Map(),
      generation: 0,
      busy: 0,
      height: 0,
      direction: 0, // 1 down, -1 up
    });
    this.sheet = h("div.sheet");
    this.element = h("div.list", {tabindex: 0, role: "listbox", "aria-label": "Steps"}, this.sheet);
    this.element.addEventListener("scroll", () => this.schedule());
    new ResizeObserver(() => {
      const wasAtEnd = this.isAtEnd;
      this.forgetRows();
      if (wasAtEnd) this.show(this.count - 1, "end");
      this.schedule();
    }).observe(this.element);
  }

  /** Begin again, as with another filter, and show the end: the newest steps. */
  async reset(place = null) {
    const generation = ++this.generation;
    const found = await this.fetch(0, 1);
    if (generation !== this.generation) return;
    this.count = found.count;
    this.slices.clear();
    this.wanted = [];
    this.direction = 0;
    this.forgetRows();
    this.measure();
    this.show(place ?? this.count - 1, place === null ? "end" : "center");
    await this.draw();
  }

  measure() {
    this.height = parseFloat(getComputedStyle(this.element).getPropertyValue("--row"));
    const view = this.element.clientHeight;
    const rows = this.count * this.height;
    // At the end the first row in sight begins at the top too, with a little room behind the last one.
    this.tall = rows > view ? rows + (view % this.height) : rows;
    this.physical = Math.min(this.tall, TALLEST);
    this.sheet.style.height = `${this.physical}px`;
    this.ratio = this.physical > view ? (this.tall - view) / (this.physical - view) : 1;
  }

  forgetRows() {
    this.rows.clear();
    fill(this.sheet);
    this.measure();
  }

  schedule() {
    if (this.scheduled) return;
    this.scheduled = true;
    requestAnimationFrame(() => {
      this.scheduled = false;
      this.draw();
    });
  }

  /** The rows in sight, from the first up to the one behind the last. */
  get range() {
    const top = this.element.scrollTop * this.ratio,
      height = this.height;
    return [Math.floor(top / height), Math.min(this.count, Math.ceil((top + this.element.clientHeight) / height))];
  }

  async draw() {
    const [first, last] = this.range,
      top = this.element.scrollTop;
    this.direction = Math.sign(top - this.top) || this.direction;
    this.top = top;
    this.isAtEnd = top * this.ratio + this.element.clientHeight >= this.tall - 2;
    const start = Math.max(0, first - (this.direction < 0 ? BEFORE : BEHIND)),
      stop = Math.min(this.count, last + (this.direction > 0 ? BEFORE : BEHIND));
    for (const [place, row] of this.rows) {
      if (place < start || place >= stop) {
        row.remove();
        this.rows.delete(place);
      }
    }
    for (let place = start; place < stop; place++) this.drawRow(place, top);
    this.moved(first, last);
    await this.load(Math.floor(start / SLICE), Math.floor(Math.max(start, stop - 1) / SLICE));
  }

  drawRow(place, top) {
    const line = this.slices.get(Math.floor(place / SLICE))?.[place % SLICE];
    let row = this.rows.get(place);
    if (!row || (line && row.isEmpty)) {
      const made = line ? this.row(line, place) : h("div.row.empty");
      made.isEmpty = !line;
      made.classList.add("row");
      row ? row.replaceWith(made) : this.sheet.append(made);
      this.rows.set(place, (row = made));
      row.setAttribute("aria-setsize", this.count);
      row.setAttribute("aria-posinset", place + 1);
      row.id = `row-${place}`;
      row.isPlaced = false;
    }
    if (!row.isPlaced || this.ratio !== 1) {
      row.style.transform = `translateY(${top + place * this.height - top * this.ratio}px)`;
      row.isPlaced = true;
    }
    const selected = String(place === this.selected);
    if (row.getAttribute("aria-selected") !== selected) row.setAttribute("aria-selected", selected);
  }

  /** Fetch the slices that are missing, two at a time: those in sight, then those that come into sight next. */
  async load(first, last) {
    const next = Array.from({length: AHEAD}, (_, at) => (this.direction < 0 ? first - 1 - at : last + 1 + at));
    const all = Array.from({length: last - first + 1}, (_, at) => first + at).concat(this.direction ? next : []);
    this.wanted = all.filter((at) => at >= 0 && at * SLICE < this.count && !this.slices.has(at));
    const work = [];
    while (this.wanted.length && this.busy < 2) work.push(this.loadSlice(this.wanted.shift()));
    await Promise.all(work);
  }

  async loadSlice(at) {
    const generation = this.generation;
    this.busy++;
    this.slices.set(at, null);
    try {
      const found = await this.fetch(at * SLICE, (at + 1) * SLICE);
      if (generation !== this.generation) return;
      this.slices.delete(at);
      this.slices.set(at, found.lines);
      if (this.slices.size > KEPT) this.slices.delete(this.farthest(at));
    } catch (error) {
      this.slices.delete(at);
      toast(error.message, "error");
      return;
    } finally {
      this.busy--;
    }
    await this.draw();
  }

  farthest(from) {
    return [...this.slices.keys()].reduce((far, at) => (Math.abs(at - from) > Math.abs(far - from) ? at : far));
  }

  /** Scroll to a row: to the "end" or "center" of the view, or no more than needed. */
  show(place, where = "nearest") {
    const height = this.height,
      view = this.element.clientHeight,
      top = this.element.scrollTop * this.ratio;
    const y = place * height;
    let to = top;
    if (where === "center") to = y - view / 2 + height / 2;
    else if (where === "end" && place === this.count - 1) to = this.tall - view;
    else if (where === "end" || y + height > top + view) to = y + height - view;
    else if (y < top) to = y;
    if (to !== top) this.element.scrollTop = Math.max(0, to) / this.ratio;
  }

  select(place) {
    this.selected = Math.max(0, Math.min(this.count - 1, place));
    this.show(this.selected);
    this.element.setAttribute("aria-activedescendant", `row-${this.selected}`);
    this.draw();
  }

  lineAt(place) {
    return this.slices.get(Math.floor(place / SLICE))?.[place % SLICE];
  }
}

function stepRow(line, longest) {
  return h(
    `div.step.${line.tier}`,
    {role: "option", title: `#${line.number}`},
    h("span.number", {}, `#${line.number}`),
    h(`span.type.${line.type}`, {}, TYPES[line.type] ?? line.type),
    h("span.said", {}, line.who && h("b", {}, line.who), " ", line.words || h("em", {}, "(nothing)")),
    h(
      "span.marks",
      {},
      line.pinned && h("i", {title: "pinned"}, "📌"),
      line.milestone && h("i.milestone", {title: "milestone"}, "◆"),
      line.shortened && h("i", {title: "shortened in the window"}, "✂"),
    ),
    h(
      "span.size",
      {title: many(line.tokens, "token")},
      bar(line.tier, [[line.tier, Math.sqrt(line.tokens)]], Math.sqrt(longest)),
      integer.format(line.tokens),
    ),
    h("span.time", {title: line.time}, dot(line.session), when(line.time)),
    h(
      "span.left",
      {},
      line.tier === "archive" ? (line.left ? `left ${when(line.left)}` : "archived") : TIERS[line.tier],
    ),
  );
}

const timeline = {
  filter: {},
  element: h("div.timeline"),

  build() {
    const count = h("span.count");
    const jump = h("input", {
      type: "search",
      inputmode: "numeric",
      placeholder: "Go to #",
      "aria-label": "Go to a step by its number",
      onchange: () => this.goTo(Number(jump.value.replace("#", ""))),
    });
    const find = h("input.find", {
      type: "search",
      placeholder: "Find words",
      "aria-label": "Only steps that say this",
      value: this.filter.find,
      onchange: () => this.set({find: find.value.trim() || undefined}),
    });
    const choice = (name, label, options) =>
      h(
        "select",
        {"aria-label": label, onchange: (event) => this.set({[name]: event.target.value || undefined})},
        options.map(([value, text]) => h("option", {value}, text)),
      );
    const types = Object.keys(TYPES),
      selected = this.list?.selected;
    this.count = count;
    this.strip = h("div.strip", {
      "aria-hidden": true,
      onpointerdown: (event) => this.scrub(event),
      onpointermove: (event) => event.buttons && this.scrub(event),
    });
    this.sight = h("i.sight");
    this.sessions = h("nav.sessions", {"aria-label": "Sessions"});
    this.list = new VirtualList(
      (line, place) => {
        const row = stepRow(line, this.longest);
        row.addEventListener("click", () => {
          this.list.select(place);
          detail.open(line.number);
        });
        return row;
      },
      (start, stop) => call("steps", {start, stop, ...this.filter}),
      (first, last) => this.moved(first, last),
    );
    this.list.selected = selected;
    this.list.element.addEventListener("keydown", (event) => this.key(event));
    fill(
      this.element,
      this.sessions,
      h(
        "div.steps",
        {},
        h(
          "div.filters",
          {},
          choice("tier", "Tier", [
            ["", "All tiers"],
            ["window", "In the window"],
            ["archive", "Archived"],
          ]),
          choice("type", "Type", [["", "All types"], ...types.map((type) => [type, words(type)])]),
          jump,
          find,
          count,
        ),
        this.strip,
        this.list.element,
      ),
    );
    this.showSessions();
  },

  async open() {
    this.longest ??= 1000;
    await this.list.reset(this.list.selected ?? null);
    call("segments", this.filter) // which reads all of them: after the rows
      .then(({segments}) => this.showStrip(segments))
      .catch((error) => toast(error.message, "error"));
  },

  async set(change) {
    this.filter = {...this.filter, ...change};
    this.list.selected = undefined;
    this.showSessions();
    await this.open().catch((error) => toast(error.message, "error"));
  },

  async goTo(number) {
    if (!Number.isInteger(number)) return;
    const {place} = await call("place", {number, ...this.filter});
    this.list.select(place);
    this.list.show(this.list.selected, "center");
  },

  moved(first, last) {
    const {count} = this.list;
    this.count.textContent = count
      ? `${integer.format(first + 1)} to ${integer.format(last)} of ${many(count, "step")}`
      : "No steps";
    this.sight.style.left = `min(${part(first, count)}, 100% - 6px)`;
    this.sight.style.width = part(last - first, count);
  },

  showStrip(segments) {
    const most = Math.max(1, ...segments.map((one) => one.tokens / one.steps));
    this.longest = Math.max(200, most);
    fill(
      this.strip,
      this.sight,
      ...segments.map((one) =>
        h(
          "span",
          {
            title: `#${one.first} to #${one.last}: ${many(one.tokens, "token")}${one.session ? `, ${one.session}` : ""}`,
          },
          h(`i.${one.window * 2 > one.tokens ? "window" : "archive"}`, {
            style: {height: part(Math.sqrt(one.tokens / one.steps), Math.sqrt(most))},
          }),
          h("b", {style: {background: sessionColor(one.session)}}),
        ),
      ),
    );
  },

  scrub(event) {
    const box = this.strip.getBoundingClientRect();
    const share = Math.max(0, Math.min(1, (event.clientX - box.left) / box.width));
    this.list.show(Math.round(share * (this.list.count - 1)), "center");
  },

  showSessions() {
    const most = Math.max(1, ...memory.sessions.map((one) => one.steps));
    const entry = (session, title, more) =>
      h(
        "button",
        {
          "aria-pressed": String((this.filter.session ?? null) === session),
          onclick: () => this.set({session: session ?? undefined}),
        },
        title,
        more,
      );
    const named = memory.sessions.filter((one) => one.session !== null).reverse();
    const find = h("input", {
      type: "search",
      placeholder: "Find a session",
      "aria-label": "Find a session",
      oninput: () => showFound(),
    });
    const box = h("div.box");
    const showFound = () => {
      const wanted = find.value.toLowerCase(),
        found = named.filter((one) => one.session.toLowerCase().includes(wanted));
      fill(
        box,
        ...found
          .slice(0, 200)
          .map((one) =>
            entry(
              one.session,
              h("span.name", {}, dot(one.session), one.session),
              h(
                "span.about",
                {},
                h("span", {}, `${day(one.first)} · ${many(one.steps, "step")}`),
                bar("archive", [["archive", one.steps]], most),
              ),
            ),
          ),
        found.length > 200 && h("p.small", {}, `… and ${many(found.length - 200, "more session")}`),
      );
    };
    showFound();
    fill(
      this.sessions,
      h("h2", {}, many(named.length, "session")),
      named.length > 12 && find,
      entry(null, h("span.name", {}, "All sessions")),
      box,
    );
    this.sessions.hidden = named.length === 0;
  },

  key(event) {
    const {list} = this,
      page = Math.max(1, list.range[1] - list.range[0] - 2);
    const now = list.selected ?? list.range[1];
    const to = {
      ArrowDown: now + 1,
      j: now + 1,
      ArrowUp: now - 1,
      k: now - 1,
      PageDown: now + page,
      PageUp: now - page,
      Home: 0,
      End: list.count - 1,
    }[event.key];
    if (to !== undefined) {
      event.preventDefault();
      list.select(to);
    } else if (event.key === "Enter" && list.lineAt(list.selected)) {
      detail.open(list.lineAt(list.selected).number);
    }
  },
};

// -- one step ---------------------------------------------------------------------------------------------------------

/** Where the keys of a view work, when what had the focus is gone. */
const focusView = () => ($("#main .list") ?? $("#main")).focus({preventScroll: true});

const detail = {
  get isOpen() {
    return !$("#detail").hidden;
  },

  async open(number) {
    let step;
    try {
      step = await call("step", {number});
    } catch (error) {
      return toast(error.message, "error");
    }
    const fact = (name, ...value) => value.some(Boolean) && [h("dt", {}, name), h("dd", {}, value)];
    const tier =
      step.tier === "archive"
        ? step.left
          ? `Archived: left the window ${when(step.left)}`
          : "Archived"
        : step.tier === "fixed"
          ? "In the window, and in every context"
          : "In the window";
    const metadata = Object.entries(step.metadata ?? {});
    this.element = $("#detail");
    this.step = step;
    if (!this.isOpen) this.before = document.activeElement;
    fill(
      this.element,
      h(
        "header",
        {},
        h("h2", {}, `#${step.number} `, h(`span.type.${step.type}`, {}, words(step.type))),
        h("button.icon", {"aria-label": "Close", title: "Close (Esc)", onclick: () => this.close()}, "✕"),
      ),
      h(`p.state.${step.tier}`, {}, tier),
      h(
        "dl",
        {},
        fact("When", when(step.time)),
        fact("Session", step.session && [dot(step.session), step.session]),
        fact("Speaker", step.speaker),
        fact("Size", `${many(step.tokens, "token")}, ${many(step.characters, "character")}`),
        fact(
          "Marks",
          [step.pinned && "pinned", step.milestone && "milestone", step.shortened && "shortened in the window"]
            .filter(Boolean)
            .join(", "),
        ),
        fact("Id", h("code", {}, step.id)),
      ),
      step.parts.map((one) =>
        h(
          "section",
          {},
          h("h3", {}, words(one.kind)),
          longText(partText(one), 6000),
          one.cut ? h("p.small", {}, `${many(one.cut, "character")} more: tinymem get ${step.number}`) : null,
        ),
      ),
      step.history.length ? this.history(step) : null,
      metadata.length
        ? h("section", {}, h("h3", {}, "metadata"), h("pre.text", {}, JSON.stringify(step.metadata, null, 2)))
        : null,
      memory.refusal && !isFile ? h("p.small", {}, memory.refusal) : null,
      h(
        "footer",
        {},
        !isFile && !memory.refusal && Object.entries(CHANGES).map(([key, change]) =>
          h("button", {onclick: () => change.ask(step)}, `${change.verb(step)} `, h("kbd", {}, key)),
        ),
        h(
          "button",
          {
            onclick: async () => {
              await views.open("timeline");
              timeline.goTo(step.number);
            },
          },
          "Show in the timeline",
        ),
      ),
    );
    this.element.hidden = false;
    document.body.classList.add("has-detail");
    this.element.scrollTop = 0;
    this.focus();
  },

  /** What was said first, and what corrected it, down to what holds now. */
  history({number, history}) {
    const entry = (line, place) =>
      h(
        `li${place + 1 < history.length ? ".corrected" : ""}`,
        {},
        line.number === number
          ? h("b.number", {}, `#${line.number}`)
          : h("button.link.number", {onclick: () => this.open(line.number)}, `#${line.number}`),
        h("span.small", {}, [when(line.time), line.who].filter(Boolean).join(", ")),
        h("span.said", {}, line.words),
        h("span.small", {}, place + 1 < history.length ? "corrected" : "holds now: recall brings this"),
      );
    return h("section", {}, h("h3", {}, "history"), h("ol.history", {}, history.map(entry)));
  },

  focus() {
    this.element.querySelector("button").focus({preventScroll: true});
  },

  close() {
    if (!this.isOpen) return false;
    $("#detail").hidden = true;
    document.body.classList.remove("has-detail");
    if (this.before?.isConnected) this.before.focus({preventScroll: true});
    else focusView();
    return true;
  },
};

// -- changes of a step ------------------------------------------------------------------------------------------------

/** What goes into the next prompt for the question that is on the page, piece by piece; null if there is no question. */
async function nextBlock() {
  if (views.current === "context") {
    const asked = context.asked(),
      {parts} = await call("context", asked);
    const pieces = parts.map((one) => ({title: PARTS[one.tier][0], text: [one.text, ...one.calls].join("\n")}));
    return {question: asked.query ?? "the current task", pieces};
  }
  const asked = recall.asked();
  asked.query ||= memory.questions[0];
  if (!asked.query) return null;
  const {items} = await call("recall", asked);
  return {question: asked.query, pieces: items.map((item) => ({title: `#${item.step}${item.mark}`, text: partText(item)}))};
}

const FENCE = /^<\/?recalled-\d+/; // its digits change with what stands in it

/** The pieces of a block, with the lines that the other one lacks marked; a piece that both have takes one line. */
function blockColumn(name, note, block, other) {
  const pieces = new Set(other.pieces.map((piece) => JSON.stringify(piece)));
  const lines = new Set(other.pieces.flatMap(({text}) => text.split("\n")));
  const marked = (line, place) => [place ? "\n" : "", lines.has(line) || FENCE.test(line) ? line : h("mark", {}, line)];
  const shown = block.pieces.map((piece) => {
    const isSame = pieces.has(JSON.stringify(piece));
    const title = h("header", {}, h("b", {}, piece.title), !isSame && h("em", {}, note));
    const text = h("pre.text", {}, shortened(piece.text, isSame ? 200 : 4000).split("\n").map(marked));
    return h(`article.piece${isSame ? "" : ".changed"}`, {}, title, text);
  });
  return h("section", {}, h("h3", {}, name), shown.length ? shown : h("p.small", {}, "Nothing comes back."));
}

const dialog = {
  show(...children) {
    fill($("#dialog"), ...children);
    if (!$("#dialog").open) $("#dialog").showModal();
    $("#dialog").querySelector("[autofocus]").focus({preventScroll: true});
    $("#dialog").scrollTop = 0;
  },

  close() {
    $("#dialog").close();
  },

  /** Ask before a change; Enter confirms, Escape leaves. What goes wrong is said, and what was typed stays. */
  ask(title, text, verb, field, work) {
    const error = h("p.error", {role: "alert"});
    const onsubmit = async (event) => {
      event.preventDefault();
      await work().catch((failure) => fill(error, failure.message));
    };
    const onkeydown = (event) => {
      if (event.key !== "Enter" || event.shiftKey || event.isComposing || event.target.type === "button") return;
      event.preventDefault();
      if (!event.repeat) event.currentTarget.requestSubmit(); // a key that is held down confirms nothing
    };
    const footer = h(
      "footer",
      {},
      h("button", {type: "button", onclick: this.close}, "Leave ", h("kbd", {}, "Esc")),
      h("button.confirm", {autofocus: !field}, `${verb} `, h("kbd", {}, "Enter")),
    );
    this.show(h("form", {onsubmit, onkeydown}, h("h2", {}, title), h("p.small", {}, text), field, error, footer));
    field?.select();
  },

  /** Show what a change did to the next block. */
  effect(done, before, after) {
    const isSame = JSON.stringify(before) === JSON.stringify(after);
    this.show(
      h("h2", {}, done),
      before && after
        ? [
            h("p.small", {}, `What comes back for “${after.question}”${isSame ? ": the same as before" : ""}`),
            h("div.effect", {}, blockColumn("Before", "gone", before, after), blockColumn("After", "new", after, before)),
          ]
        : h("p.small", {}, "Ask something under Recall first, and you see what a change does to what comes back."),
      h("footer", {}, h("button", {autofocus: true, onclick: this.close}, "Close ", h("kbd", {}, "Esc"))),
    );
  },
};

let isChanging = false;

/** Change a step, and show what comes back before and after. */
async function change(step, name, values, done) {
  if (isChanging) return;
  isChanging = true;
  try {
    const before = await nextBlock().catch(() => null);
    await call(name, {number: step.number, ...values});
    dialog.effect(done, before, await nextBlock().catch(() => null));
  } finally {
    isChanging = false;
  }
  if (name === "forget") detail.close();
  await refresh().catch((error) => toast(error.message, "error"));
  if (detail.isOpen) await detail.open(step.number);
}

const textOf = (step) => step.parts.map(partText).join("\n");

function askCorrection(step) {
  const text = textOf(step);
  const field = h("textarea", {rows: 5, autofocus: true, "aria-label": "What is true"});
  field.value = text.length <= 400 ? text : "";
  dialog.ask(
    `Correct #${step.number}`,
    "Say what is true. It comes back in the place of this step, which stays in the history.",
    "Correct",
    field,
    () => change(step, "correct", {text: field.value}, `#${step.number} is corrected`),
  );
}

function askToForget(step) {
  dialog.ask(
    `Forget #${step.number} for good?`,
    `“${shortened(textOf(step), 120)}” Its text, its vector and every summary of it are deleted, which cannot be undone.`,
    "Forget",
    null,
    () => change(step, "forget", {}, `#${step.number} is forgotten`),
  );
}

function mark(step) {
  const milestone = !step.milestone;
  const done = `#${step.number} is ${milestone ? "a milestone now" : "no milestone any more"}`;
  change(step, "mark", {milestone}, done).catch((error) => toast(error.message, "error"));
}

/** What can be done to a step, by its key. */
const CHANGES = {
  c: {verb: () => "Correct", ask: askCorrection},
  m: {verb: (step) => (step.milestone ? "Unmark" : "Mark"), ask: mark},
  f: {verb: () => "Forget", ask: askToForget},
};

// -- recall -----------------------------------------------------------------------------------------------------------

const family = (feature) => (memory.features[feature]?.family ?? "other").replaceAll(" ", "-");

/** The share of each feature in a score: as a bar, what speaks against first, and as figures. */
function shares(item, scale) {
  const parts = Object.entries(item.why),
    constant = item.score - parts.reduce((sum, [, value]) => sum + value, 0);
  const segments = (against) =>
    parts
      .filter(([, value]) => value < 0 === against)
      .map(([name, value]) =>
        h(`i.${family(name)}`, {
          style: {width: part(Math.abs(value), scale)},
          title: `${words(name)} ${signed(value)}`,
        }),
      );
  const against = segments(true);
  return h(
    "details.shares",
    {},
    h(
      "summary",
      {title: "The share of each feature in the score"},
      h(
        "div.sum",
        {"aria-hidden": true},
        against.length > 0 && [against.map((one) => (one.classList.add("against"), one)), h("b")],
        segments(false),
      ),
      h(
        "span.strongest",
        {},
        parts
          .slice(0, 4)
          .map(([name, value]) =>
            h(
              "span",
              {title: memory.features[name]?.meaning},
              h(`i.${family(name)}`),
              `${words(name)} ${signed(value)}`,
            ),
          ),
        h("span.explained", {}, "What these mean"),
      ),
    ),
    h(
      "dl",
      {},
      parts.map(([name, value]) => [
        h("dt", {}, h(`i.${family(name)}`), words(name)),
        h("dd.value", {}, signed(value)),
        h("dd", {}, memory.features[name]?.meaning),
      ]),
      [
        h("dt", {}, "constant"),
        h("dd.value", {}, signed(constant)),
        h("dd", {}, "the same for every passage of its kind"),
      ],
      [
        h("dt.total", {}, "score"),
        h("dd.value.total", {}, signed(item.score)),
        h("dd.total", {}, "the sum: log-odds that this is evidence"),
      ],
    ),
  );
}

function excerpt(item, place, scale) {
  const isNext = place === null;
  return h(
    `article.excerpt${isNext ? ".next" : ""}`,
    {id: isNext ? null : `excerpt-${place}`, "data-step": item.step},
    h(
      "header",
      {},
      h("button.link.number", {onclick: () => detail.open(item.step), title: "Open the whole step"}, `#${item.step}`),
      h(`span.type.${item.type}`, {}, TYPES[item.type] ?? item.type),
      item.mark && h("span.mark", {}, item.mark),
      h("span.time", {}, when(item.timestamp)),
      item.session && h("span.session", {}, dot(item.session), item.session),
      h(
        "span.measures",
        {},
        h(
          "span",
          {title: "the chance that this is evidence"},
          bar("relevance", [["archive", item.relevance]], 1),
          percent(item.relevance),
        ),
        h("span", {}, many(item.tokens, "token")),
      ),
    ),
    longText(partText(item), 700),
    shares(item, scale),
  );
}

/** A field with its label; it suggests what the memory has. */
const field = (name, label, more = {}) =>
  h("label", {}, label, h("input", {name, autocomplete: "off", list: SUGGESTED.has(name) ? `known-${name}` : null, ...more}));

const SUGGESTED = new Set(["session", "speaker", "tool", "type"]);

/** Fetch what fields suggest, when somebody is about to filter. */
async function suggest() {
  const {speakers, tools} = await call("known").catch(() => ({speakers: [], tools: []}));
  const known = {
    session: memory.sessions.map((one) => one.session).filter((session) => session !== null),
    type: Object.keys(TYPES),
    speaker: speakers,
    tool: tools,
  };
  fill(
    $("#known"),
    Object.entries(known).map(([name, values]) =>
      h(
        "datalist",
        {id: `known-${name}`},
        values.slice(0, 500).map((value) => h("option", {value})),
      ),
    ),
  );
}

/** The filters that are filled in, by name. */
const filledIn = (form, names) =>
  Object.fromEntries(names.map((name) => [name, form.elements[name].value.trim()]).filter(([, value]) => value));

/** The question and the budget of a view; Enter asks. */
function askForm(view) {
  const onsubmit = (event) => {
    event.preventDefault();
    view.ask();
  };
  return h("form.ask", {onsubmit}, view.input, view.slider.element, view.filters);
}

const recall = {
  element: h("div.recall-view"),

  build() {
    this.input = h("input", {
      type: "search",
      name: "question",
      placeholder: isFile ? "Choose a question below" : "Ask this memory…",
      autocomplete: "off",
      "aria-label": "Question",
      readonly: isFile,
      value: this.input?.value,
      oninput: () => this.ask(),
    });
    this.slider = budgetSlider(this.slider?.value ?? 1000, () => this.ask());
    this.filters = isFile
      ? null
      : h(
          "details.filter",
          {oninput: () => this.ask(), ontoggle: suggest},
          h("summary", {}, "Only some of the memory"),
          h(
            "fieldset",
            {},
            field("session", "Session (team/* for all that begin so)"),
            field("speaker", "Speaker"),
            field("tool", "Tool"),
            field("type", "Type"),
            field("since", "Since", {type: "date"}),
            field("until", "Until", {type: "date"}),
          ),
        );
    this.answer = h("div.answer", {"aria-live": "polite"});
    const questions = memory.questions.map((text) =>
      h("button.chip", {title: text, onclick: () => this.ask(text)}, text),
    );
    const hint = !isFile
      ? null
      : h(
          "p.small",
          {},
          memory.questions.length
            ? "This file can replay these questions. To ask others, open the memory itself: tinymem inspect"
            : "This file has no answers in it. Ask the memory itself with tinymem inspect, or write the file with --ask QUESTION.",
        );
    fill(
      this.element,
      askForm(this),
      h(
        "div.chips",
        {},
        questions.length ? h("span.small", {}, isFile ? "Questions:" : "The current task:") : null,
        questions,
      ),
      hint,
      this.answer,
    );
    this.run = newest((asked) => this.fetch(asked));
  },

  open() {
    this.ask(this.input.value || (isFile && memory.questions[0]) || "");
    if (!isFile) this.input.focus();
  },

  asked() {
    const names = ["session", "speaker", "tool", "type", "since", "until"];
    const filters = isFile ? {} : filledIn(this.input.form, names);
    return {query: this.input.value.trim(), budget: this.slider.value, ...filters};
  },

  ask(text) {
    if (typeof text === "string") this.input.value = text;
    const asked = this.asked();
    if (asked.query) this.run(asked);
    else this.explain();
  },

  explain() {
    fill(
      this.answer,
      h(
        "div.hint",
        {},
        h("h2", {}, "See what would come back"),
        h(
          "p",
          {},
          "Type a question as an agent would. You see each excerpt that fits the budget, the share of every feature in its score, and what is ranked next. Move the slider: what comes back follows.",
        ),
      ),
    );
  },

  async fetch(asked) {
    try {
      const found = await call("recall", asked);
      if (this.input.value.trim() === asked.query) this.show(found);
    } catch (error) {
      fill(this.answer, h("p.error", {}, error.message));
    }
  },

  show(found) {
    const items = found.items;
    const scale = Math.max(
      1,
      ...[...items, ...found.next_best].map((one) =>
        Object.values(one.why).reduce((sum, value) => sum + Math.abs(value), 0),
      ),
    );
    const highest = Math.max(0.01, ...items.map((item) => item.relevance));
    const fence = found.tokens - items.reduce((sum, item) => sum + item.tokens, 0);
    const budget = h(
      "div.spent",
      {},
      items.map((item, place) =>
        h("i", {
          style: {width: part(item.tokens, found.budget), "--relevance": 0.3 + (0.7 * item.relevance) / highest},
          title: `#${item.step}: ${many(item.tokens, "token")}`,
          onclick: () => $(`#excerpt-${place}`).scrollIntoView(SMOOTHLY),
        }),
      ),
      fence > 0 && items.length
        ? h("i.fence", {style: {width: part(fence, found.budget)}, title: `the fence around it: ${fence} tokens`})
        : null,
    );
    const families = [...new Set(Object.values(memory.features).map((one) => one.family))];
    const figures = `${many(items.length, "excerpt")}, ${integer.format(found.tokens)} of ${many(found.budget, "token")}`;
    fill(
      this.answer,
      h("div.summary", {}, h("strong", {}, figures), !isFile && h("span.small", {}, `in ${found.milliseconds} ms`)),
      budget,
      found.note ? h("p.notice", {}, found.note) : null,
      items.length
        ? h(
            "div.legend",
            {},
            families.map((name) => h("span", {}, h(`i.${name.replaceAll(" ", "-")}`), name)),
          )
        : null,
      items.length
        ? h(
            "section",
            {},
            h(
              "h2",
              {},
              found.is_relevant === false
                ? "The nearest, though little speaks for it: a context leaves this out"
                : "Came back, the best first",
            ),
            items.map((item, place) => excerpt(item, place, scale)),
          )
        : h(
            "div.hint",
            {},
            h("h2", {}, "Nothing comes back"),
            h("p", {}, "Nothing that fits this budget has to do with the question."),
          ),
      found.next_best.length
        ? h(
            "section",
            {},
            h("h2", {}, "Ranked next"),
            found.next_best.map((one) => excerpt(one, null, scale)),
          )
        : null,
    );
  },
};

// -- the context ------------------------------------------------------------------------------------------------------

const PARTS = {
  fixed: ["Always in", "system prompt, current task, pinned steps"],
  episodes: ["Episodes", "summaries of what left the window"],
  window: ["Window", "the newest steps, word for word"],
  scratchpad: ["Scratchpad", "the agent's notes"],
  recall: ["Recalled", "what bears on the query, as data in a fence"],
};

const context = {
  element: h("div.context-view"),

  build() {
    this.input = h("input", {
      type: "search",
      placeholder: "The current task and the newest steps",
      "aria-label": "Query, if not the current task",
      autocomplete: "off",
      disabled: isFile,
      value: this.input?.value,
      oninput: () => this.ask(),
    });
    this.slider = budgetSlider(this.slider?.value ?? memory.max_tokens, () => this.ask());
    this.answer = h("div.answer");
    fill(this.element, askForm(this), this.answer);
    this.run = newest((asked) => this.fetch(asked));
  },

  open() {
    this.ask();
  },

  asked() {
    return {query: this.input.value.trim() || null, budget: this.slider.value};
  },

  ask() {
    this.run(this.asked());
  },

  async fetch(asked) {
    try {
      this.show(await call("context", asked));
    } catch (error) {
      fill(this.answer, h("p.error", {}, error.message));
    }
  },

  show(found) {
    const sums = new Map(Object.keys(PARTS).map((tier) => [tier, 0]));
    for (const one of found.parts) sums.set(one.tier, sums.get(one.tier) + one.tokens);
    const shown = [...sums].filter(([, tokens]) => tokens);
    const stable = found.parts.filter((one) => one.stable).length;
    const blocks = found.parts.flatMap((one, place) => [
      this.message(one),
      place + 1 === stable && stable < found.parts.length
        ? h("p.cache", {}, "Up to here the prompt stays the same from call to call: a prompt cache holds.")
        : null,
    ]);
    fill(
      this.answer,
      h(
        "div.summary",
        {},
        h(
          "strong",
          {},
          `${many(found.parts.length, "message")}, ${integer.format(found.tokens)} of ${many(found.budget, "token")}`,
        ),
        !isFile && h("span.small", {}, `in ${found.milliseconds} ms`),
      ),
      bar("context", shown, found.budget),
      found.note ? h("p.notice", {}, found.note) : null,
      h(
        "dl.key",
        {},
        shown.map(([tier, tokens]) => [
          h("dt", {}, h(`i.${tier}`), PARTS[tier][0]),
          h("dd.value", {}, integer.format(tokens)),
          h("dd", {}, PARTS[tier][1]),
        ]),
      ),
      h("section.messages", {}, h("h2", {}, "As it would be sent"), blocks),
      memory.scratchpad
        ? h("section", {}, h("h2", {}, "The whole scratchpad"), longText(memory.scratchpad, 2000))
        : null,
      found.out.length
        ? h(
            "section",
            {},
            h("h2", {}, `In the window, but not sent: ${many(found.out.length, "step")}`),
            h(
              "ul.plain",
              {},
              found.out.map((one) =>
                h(
                  "li",
                  {},
                  h("button.link.number", {onclick: () => detail.open(one.number)}, `#${one.number}`),
                  " ",
                  one.words,
                ),
              ),
            ),
          )
        : null,
    );
  },

  message(one) {
    return h(
      `article.message.${one.tier}`,
      {},
      h(
        "header",
        {},
        h("b", {}, PARTS[one.tier][0]),
        h("span", {}, one.role),
        one.kind !== "message" && one.kind !== "recalled" ? h("span", {}, words(one.kind)) : null,
        one.shortened && h("span", {}, "shortened"),
        h(
          "span.steps",
          {},
          one.steps
            .slice(0, 12)
            .map((number) => h("button.link.number", {onclick: () => detail.open(number)}, `#${number}`)),
          one.steps.length > 12 ? `and ${one.steps.length - 12} more` : null,
        ),
        h("span.measures", {}, many(one.tokens, "token")),
      ),
      one.text ? longText(one.text, 900) : null,
      one.calls.map((text) => h("div.call", {}, longText(readable(text), 500))),
    );
  },
};

// -- episodes ---------------------------------------------------------------------------------------------------------

const episodes = {
  element: h("div.episodes-view"),

  build() {
    this.box = h("div");
    this.more = h("button", {onclick: () => this.load()}, "Show earlier ones");
    this.shown = 0;
    fill(
      this.element,
      h(
        "p.lead",
        {},
        "Steps that left the window together are summarised once, and the summary names the steps it stands for. Open one to see them.",
      ),
      this.box,
      this.more,
    );
  },

  async open() {
    if (!this.shown) await this.load();
  },

  async load() {
    const found = await call("episodes", {start: this.shown, stop: this.shown + 50});
    this.shown += found.episodes.length;
    this.more.hidden = this.shown >= found.count;
    this.box.append(...found.episodes.map((one) => this.card(one)));
    if (!found.count)
      fill(
        this.box,
        h("div.hint", {}, h("h2", {}, "No episodes yet"), h("p", {}, "They are made once steps have left the window.")),
      );
  },

  card(one) {
    const steps = h("div.covered"),
      factor = Math.max(1, Math.round(one.tokens / Math.max(1, one.summary_tokens)));
    const openSteps = async (event) => {
      if (!event.target.open || steps.childElementCount) return;
      try {
        const {lines} = await call("episode", {first: one.first, last: one.last}),
          longest = Math.max(200, ...lines.map((line) => line.tokens));
        fill(
          steps,
          ...lines.map((line) => {
            const row = stepRow(line, longest);
            row.classList.add("row");
            row.removeAttribute("role");
            row.addEventListener("click", () => detail.open(line.number));
            return row;
          }),
          !lines.length && h("p.small", {}, "These steps are not in this file."),
        );
      } catch (error) {
        toast(error.message, "error");
      }
    };
    return h(
      "details.episode",
      {ontoggle: openSteps},
      h(
        "summary",
        {},
        h(
          "span.head",
          {},
          h("b", {}, one.first === one.last ? `#${one.first}` : `#${one.first} to #${one.last}`),
          one.session && h("span.session", {}, dot(one.session), one.session),
          h(
            "span.measures",
            {},
            `${many(one.steps, "step")}, ${integer.format(one.tokens)} → ${many(one.summary_tokens, "token")}`,
            factor > 1 ? h("em", {}, `${factor}×`) : null,
          ),
        ),
        h("span.text", {}, one.summary),
      ),
      steps,
    );
  },
};

// -- views, keys, theme, beginning ------------------------------------------------------------------------------------

const VIEWS = {timeline, recall, context, episodes};

const views = {
  current: null,

  build() {
    fill(
      $("#tabs"),
      ...Object.keys(VIEWS).map((name, at) =>
        h(
          "button",
          {
            role: "tab",
            id: `tab-${name}`,
            "aria-controls": "main",
            title: `${at + 1}`,
            onclick: () => this.open(name),
          },
          name[0].toUpperCase() + name.slice(1),
        ),
      ),
    );
  },

  async open(name, again = false) {
    if (this.current === name && !again) return;
    this.current = name;
    for (const tab of $("#tabs").querySelectorAll("[role=tab]")) {
      tab.setAttribute("aria-selected", tab.id === `tab-${name}`);
      tab.tabIndex = tab.id === `tab-${name}` ? 0 : -1;
    }
    document.body.dataset.view = name;
    fill($("#main"), VIEWS[name].element);
    history.replaceState(null, "", `#${name}`);
    await VIEWS[name].open();
  },
};

const KEYS = [
  ["1 2 3 4", "timeline, recall, context, episodes"],
  ["/", "ask a question"],
  ["j k ↑ ↓", "the next step, the one before"],
  ["Home End PgUp PgDn", "far along the timeline"],
  ["Enter", "open the step; confirm"],
  !isFile && ["c m f", "correct, mark or forget the step that is open"],
  ["Esc", "leave, or close the step"],
  ["t", "light or dark"],
  ["?", "these keys"],
];

function showKeys() {
  dialog.show(
    h("h2", {}, "Keys"),
    h(
      "dl.keys",
      {},
      KEYS.filter(Boolean).map(([keys, does]) => [
        h(
          "dt",
          {},
          keys.split(" ").map((key) => [h("kbd", {}, key), " "]),
        ),
        h("dd", {}, does),
      ]),
    ),
    h("footer", {}, h("button", {autofocus: true, onclick: dialog.close}, "Close ", h("kbd", {}, "Esc"))),
  );
}

function pressed(event) {
  if (event.ctrlKey || event.metaKey || event.altKey || $("#dialog").open) return;
  if (event.key === "Escape" && detail.close()) return event.preventDefault();
  if (event.target.closest("input, select, textarea")) return;
  const name = Object.keys(VIEWS)[Number(event.key) - 1];
  if (name) views.open(name);
  else if (CHANGES[event.key] && detail.isOpen) {
    if (memory.refusal || isFile) toast(memory.refusal || "This is a file: it only shows.", "error");
    else CHANGES[event.key].ask(detail.step);
  }
  else if (event.key === "/") views.open("recall").then(() => recall.input.focus());
  else if (event.key === "t") switchTheme();
  else if (event.key === "?") showKeys();
  else if (event.target === document.body && views.current === "timeline") {
    timeline.list.element.focus();
    return timeline.key(event);
  } else return;
  event.preventDefault();
}

function switchTheme() {
  const isDark = document.documentElement.dataset.theme
    ? document.documentElement.dataset.theme === "dark"
    : matchMedia("(prefers-color-scheme: dark)").matches;
  document.documentElement.dataset.theme = isDark ? "light" : "dark";
  try {
    localStorage.setItem("theme", document.documentElement.dataset.theme);
  } catch {
    /* a file may not store */
  }
}

/** Tell when somebody has written: an agent may be at work. */
async function watch() {
  if (document.hidden) return;
  try {
    const {version} = await call("version");
    $("#changed").hidden = version === memory.version;
  } catch {
    /* the server is gone, which the next request says */
  }
}

async function refresh() {
  memory = await call("overview");
  hues.clear();
  memory.sessions.forEach((one, at) => hues.set(one.session, at));
  $("#changed").hidden = true;
  $("#where").textContent = `${memory.path} · ${memory.stats.namespace}`;
  document.title = `${memory.stats.namespace}: tinymem inspector`;
  if (isFile && data.steps.length < memory.steps) {
    $("#notice").textContent =
      `This file holds the newest ${integer.format(data.steps.length)} of ${many(memory.steps, "step")}. The memory has them all.`;
    $("#notice").hidden = false;
  }
  showTiers();
  for (const view of Object.values(VIEWS)) view.build();
  if (views.current) await views.open(views.current, true);
}

async function begin() {
  try {
    document.documentElement.dataset.theme = localStorage.getItem("theme") ?? "";
  } catch {
    /* as above */
  }
  document.addEventListener("keydown", pressed);
  $("#theme").addEventListener("click", switchTheme);
  $("#keys").addEventListener("click", showKeys);
  $("#changed").addEventListener("click", refresh);
  $("#dialog").addEventListener("close", () => {
    if (document.activeElement !== document.body) return; // what had the focus is still there
    if (detail.isOpen) detail.focus();
    else focusView();
  });
  try {
    await refresh();
    views.build();
    await views.open(VIEWS[location.hash.slice(1)] ? location.hash.slice(1) : "timeline");
    performance.mark("ready");
    document.documentElement.dataset.ready = "true";
    if (!isFile) setInterval(watch, 5000);
  } catch (error) {
    fill($("#main"), h("p.error", {}, error.message));
  }
}

begin();
