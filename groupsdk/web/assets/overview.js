// All groups: those in trouble first, filtered, searched and sorted; a page of rows at a time.
import { Rows, byId, count, duration, element, linePoints, named, number, setText, stateColour, stateWords, svg } from "./elements.js";

const PAGE = 50;
const POINTS = 60;
const MINUTE_MS = 60 * 1000;
const HOUR_MS = 60 * MINUTE_MS;
const RANKS = { critical: 3, warning: 2, notice: 1, ok: 0 };
export const MARKS = { critical: "▲", warning: "◆", notice: "●", ok: "✓" };
// the verdict knows nothing of failed tasks
export const severityOf = (row) => (row.failed && row.severity === "ok" ? "warning" : row.severity);

const TILES = [
  ["", "all", () => true],
  ["critical", "critical", (row) => row.severity === "critical"],
  ["warning", "warning", (row) => row.severity === "warning"],
  ["notice", "notice", (row) => row.severity === "notice"],
  ["abandoned", "empty with lag", (row) => row.abandoned],
  ["rebalancing", "rebalancing", (row) => row.rebalancing],
  ["failed", "failed tasks", (row) => row.failed > 0],
];

const rank = (row) => RANKS[row.severity] || 0;
const byName = (a, b) => a < b ? -1 : a > b ? 1 : 0;

export class Overview {
  constructor(change) {
    this.change = change;
    this.rows = new Rows(byId("groups").tBodies[0], makeRow);
    this.order = [];
    this.asked = "";
    this.most = PAGE;
    this.found = null;
    this.tiles = new Rows(byId("tiles"), (key) => this.makeTile(key));
    byId("more").addEventListener("click", () => { this.most += PAGE; change({}); });
    byId("reset").addEventListener("click", () => change({ q: "", show: "", kind: "" }));
    for (const head of document.querySelectorAll("#groups th[data-sort]")) {
      head.firstElementChild.addEventListener("click", () => this.sortBy(head.dataset.sort));
    }
    byId("sort").addEventListener("change", () => change({ sort: byId("sort").value, down: false }));
    byId("kind").addEventListener("change", () => change({ kind: byId("kind").value }));
    byId("controls").addEventListener("submit", (event) => event.preventDefault());
  }

  sortBy(sort) {
    const { view } = this;
    if (view.sort === sort) this.change(view.down ? { sort: "trouble", down: false } : { down: true });
    else this.change({ sort, down: false });
  }

  makeTile(key) {
    const node = element("button", null, "tile", key);
    node.type = "button";
    node.dataset.show = key;
    const total = element("strong");
    node.append(total, element("span", TILES.find(([name]) => name === key)[1]));
    node.addEventListener("click", () => this.change({ show: this.view.show === key ? "" : key }));
    return { node, total };
  }

  // The groups that the server found by their members, topics and hosts; null until it has answered.
  take(found) {
    this.found = found;
  }

  matching(state, view) {
    const words = view.q.toLowerCase().split(/\s+/).filter(Boolean);
    const wanted = (TILES.find(([name]) => name === view.show) || TILES[0])[2];
    const keys = [];
    for (const [key, row] of state.groups) {
      if (view.kind && row.kind !== view.kind) continue;
      if (!wanted(row)) continue;
      const name = key.toLowerCase();
      if (words.length && !words.every((word) => name.includes(word)) && !(this.found && this.found.has(key))) continue;
      keys.push(key);
    }
    return keys;
  }

  sorted(state, view, keys) {
    const { groups, lags } = state;
    const by = {
      trouble: (a, b) => rank(groups.get(b)) - rank(groups.get(a)) || groups.get(b).abandoned - groups.get(a).abandoned
        || (groups.get(b).failed > 0) - (groups.get(a).failed > 0),
      name: () => 0,
      state: (a, b) => byName(groups.get(a).state, groups.get(b).state),
      members: (a, b) => groups.get(b).members - groups.get(a).members,
      lag: (a, b) => (lags.get(b) ?? -1) - (lags.get(a) ?? -1),
      rebalances: (a, b) => groups.get(b).rebalances - groups.get(a).rebalances,
    }[view.sort] || (() => 0);
    const sign = view.down ? -1 : 1;
    return keys.sort((a, b) => sign * (by(a, b) || byName(a, b)));
  }

  // Rows do not move under the pointer, nor away from the keyboard's focus: new ones come at the end until it leaves.
  held(keys, asked) {
    const body = byId("groups").tBodies[0];
    const holds = asked === this.asked && (body.matches(":hover") || body.contains(document.activeElement));
    if (!holds) return keys;
    const there = new Set(keys);
    const kept = this.order.filter((key) => there.has(key));
    const before = new Set(kept);
    return [...kept, ...keys.filter((key) => !before.has(key))];
  }

  draw(state, view) {
    this.view = view;
    const asked = JSON.stringify([view.q, view.show, view.kind, view.sort, view.down]);
    if (asked !== this.asked) this.most = PAGE;
    this.order = this.held(this.sorted(state, view, this.matching(state, view)), asked);
    this.asked = asked;
    this.drawControls(state, view);
    const shown = this.order.slice(0, this.most);
    const now = state.now();
    this.rows.show(shown, (row, key) => fillRow(row, key, state, view, now));
    byId("groups").hidden = shown.length === 0;
    byId("none").hidden = shown.length > 0 || !state.seen();
    const left = this.order.length - shown.length;
    byId("more").hidden = left <= 0;
    setText(byId("more"), `Show ${number(Math.min(PAGE, left))} more of ${number(left)}`);
  }

  drawControls(state, view) {
    const counts = new Map(TILES.map(([name]) => [name, 0]));
    const kinds = new Set();
    for (const row of state.groups.values()) {
      kinds.add(row.kind);
      for (const [name, , wanted] of TILES) if (wanted(row)) counts.set(name, counts.get(name) + 1);
    }
    const shown = TILES.map(([name]) => name).filter((name) => name === "" || counts.get(name) || view.show === name);
    this.tiles.show(shown, (tile, name) => {
      setText(tile.total, number(counts.get(name)));
      tile.node.setAttribute("aria-pressed", String(view.show === name));
    });
    if (view.kind) kinds.add(view.kind);
    const options = ["", ...[...kinds].sort(byName)];
    const select = byId("kind");
    if (select.options.length !== options.length || options.some((kind, index) => select.options[index].value !== kind)) {
      select.replaceChildren(...options.map((kind) => {
        const option = element("option", kind || "all kinds");
        option.value = kind;
        return option;
      }));
    }
    select.value = view.kind;
    byId("sort").value = view.sort;
    if (document.activeElement !== byId("search")) byId("search").value = view.q;
    for (const head of document.querySelectorAll("#groups th[data-sort]")) {
      const sorted = head.dataset.sort === view.sort;
      if (!sorted) head.removeAttribute("aria-sort");
      else head.setAttribute("aria-sort", (view.sort === "name" || view.sort === "state") === view.down ? "descending" : "ascending");
    }
    const watched = Math.min(HOUR_MS, state.now() - (state.about.get("began_ms") ?? state.now()));
    setText(byId("rebalances-title"), watched < MINUTE_MS ? "Rebalances" : `Rebalances, ${duration(watched)}`);
  }
}

function makeRow(key) {
  const node = element("tr");
  const cells = ["title", "state", "members number", "lag number", "trend", "rebalances number"].map((names) => {
    const cell = element("td", null, ...names.split(" "));
    cell.setAttribute("role", "cell");
    node.append(cell);
    return cell;
  });
  node.setAttribute("role", "row");
  const mark = element("span", null, "mark");
  mark.setAttribute("aria-hidden", "true");
  const link = element("a");
  link.append(named(key));
  link.dataset.group = key;
  const why = element("div", null, "why");
  const kind = element("div", null, "faint");
  cells[0].append(mark, link, kind, why);
  const dot = element("span", null, "dot");
  dot.setAttribute("aria-hidden", "true");
  const word = element("span");
  const since = element("span", null, "faint", "since");
  cells[1].append(dot, word, since);
  const line = svg("polyline", { class: "line" });
  const area = svg("polygon", { class: "area" });
  const drawing = svg("svg", { viewBox: "0 0 120 24", class: "spark", preserveAspectRatio: "none", "aria-hidden": "true" });
  drawing.append(area, line);
  cells[4].append(drawing);
  return { node, cells, mark, link, why, kind, dot, word, since, line, area, drawing, row: null, lag: undefined, trend: "" };
}

function fillRow(row, key, state, view, now) {
  const about = state.groups.get(key);
  const href = state.address({ ...view, group: key });
  if (row.link.getAttribute("href") !== href) row.link.setAttribute("href", href);
  if (row.row !== about) fillAbout(row, about);
  row.row = about;
  setText(row.since, ` ${duration(now - about.since_ms)}`);
  const lag = state.lags.get(key);
  if (row.lag !== lag) setText(row.cells[3], lag === undefined ? "" : number(lag));
  row.lag = lag;
  const trend = state.trends.get(key) || [];
  const drawn = `${state.step} ${trend.length} ${lag}`;
  if (row.trend !== drawn) {
    const points = linePoints(trend, POINTS, 120, 24);
    const line = points.join(" ");
    row.line.setAttribute("points", line);
    row.area.setAttribute("points", points.length ? `${points[0].split(",")[0]},24 ${line} 120,24` : "");
    const flat = trend.every((value) => !value);
    row.drawing.classList.toggle("flat", flat);
    row.trend = drawn;
  }
}

function fillAbout(row, about) {
  const severity = severityOf(about);
  row.node.className = severity;
  row.node.classList.toggle("abandoned", about.abandoned);
  setText(row.mark, MARKS[severity] || "");
  row.mark.className = `mark ${severity}`;
  row.dot.className = `dot ${stateColour(about.state)}`;
  setText(row.word, stateWords(about.state));
  const parts = [about.kind + (about.type === "consumer" ? ", KIP-848" : "")];
  if (about.has) parts.push(about.has);
  if (about.failed && (about.finding || about.abandoned)) parts.push(count(about.failed, "failed task"));
  setText(row.kind, parts.join(" · "));
  row.why.replaceChildren();
  if (about.finding) {
    row.why.append(named(about.finding));
    if (about.findings > 1) row.why.append(` (and ${count(about.findings - 1, "finding")} more)`);
  } else if (about.abandoned) row.why.append("records wait, and nobody reads them");
  else if (about.failed) row.why.append(count(about.failed, "failed task"));
  setText(row.cells[2], number(about.members));
  row.cells[2].dataset.noun = about.members === 1 ? " member" : " members";
  row.cells[5].dataset.noun = about.rebalances === 1 ? " rebalance" : " rebalances";
  setText(row.cells[5], about.rebalances ? number(about.rebalances) : "");
}
