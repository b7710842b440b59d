// The page: what the server sends, the address, keys, and which part is shown.
import { byId, count, duration, element, named, printable, setText } from "./elements.js";
import { GroupPage } from "./group.js";
import { Overview } from "./overview.js";

const SECTIONS = ["about", "look", "groups", "lags", "trends", "group", "members", "member_lags", "topics", "rebalances", "tasks", "changes"];
const OVERVIEW = ["groups", "lags", "trends"];
const DEFAULTS = { group: "", q: "", show: "", kind: "", sort: "trouble", down: false, find: "", by: "name" };
const POINTS = 60;
const LATE_MS = 1000;
const SEARCH_AGAIN_MS = 3000;

const state = {
  detailed: false,
  heard: 0,
  offset: 0,
  step: null,
  connected: false,
  now: () => Date.now() - state.offset,
  seen: () => state.look.has("seen_ms") && state.look.get("seen_ms") !== null,
  address,
};
for (const section of SECTIONS) state[section] = new Map();

function address(view) {
  const words = new URLSearchParams();
  for (const [key, value] of Object.entries(DEFAULTS)) {
    if (view[key] !== value) words.set(key, view[key] === true ? "1" : view[key]);
  }
  return `#${words}`;
}

function viewOf(hash) {

  const words = new URLSearchParams(hash.replace(/^#/, ""));
  const view = { ...DEFAULTS };
  for (const key of Object.keys(DEFAULTS)) if (words.has(key)) view[key] = key === "down" ? words.get(key) === "1" : words.get(key);
  return view;
}

let view = viewOf(location.hash);
const overview = new Overview(change);
const groupPage = new GroupPage(change);

// A group is another page, with an entry in the browser's history; how it is looked at is not.
function change(what) {
  const next = { ...view, ...what };
  const isPage = next.group !== view.group;
  history[isPage ? "pushState" : "replaceState"](null, "", address(next));
  show(next);
}

function show(next) {
  const before = view;
  view = next;
  if (view.q !== before.q) search();
  if (view.group !== before.group) {
    setText(byId("plan"), "");
    follow();
    scrollTo(0, 0);
    draw();
    if (!view.group) focusRow(before.group);
    else byId("main-part").focus({ preventScroll: true });
    return;
  }
  draw();
}

addEventListener("hashchange", () => show(viewOf(location.hash)));
addEventListener("popstate", () => show(viewOf(location.hash)));

let source = null;

function follow() {
  if (source !== null) source.close();
  for (const section of ["group", "members", "member_lags", "topics", "rebalances", "tasks", "changes"]) state[section].clear();
  state.detailed = false;
  source = new EventSource(view.group ? `events?group=${encodeURIComponent(view.group)}` : "events");
  source.onmessage = (message) => take(JSON.parse(message.data));
  source.onopen = () => { state.connected = true; };
  source.onerror = () => { state.connected = false; drawStatus(); };
}

function take(message) {
  const whole = message.whole === true;
  for (const section of SECTIONS) {
    const entries = message[section];
    // a group's stream tells of no other: what is known of those stays until the overview is asked for again
    if (whole && (view.group === "" || !OVERVIEW.includes(section))) state[section].clear();
    if (entries === undefined) continue;
    for (const [key, value] of Object.entries(entries)) {
      if (value === null) state[section].delete(key);
      else state[section].set(key, value);
    }
  }
  state.heard = Date.now();
  state.connected = true;
  state.detailed = view.group !== "";
  state.offset = Date.now() - state.look.get("now_ms");
  noteTrends(whole);
  if (searched !== null && Date.now() - searchedAt > SEARCH_AGAIN_MS) search();
  drawSoon();
}

function noteTrends(whole) {
  const seen = state.look.get("seen_ms");
  if (seen === undefined) return;
  const step = Math.floor(seen / state.about.get("step_ms"));
  const steps = whole || state.step === null ? 0 : step - state.step;
  state.step = step;
  for (const key of view.group ? [view.group] : state.groups.keys()) {
    if (!state.groups.has(key)) continue;
    const trend = state.trends.get(key) || [];
    const lag = state.lags.get(key) ?? null;
    if (trend.length === 0) trend.push(lag);
    else if (steps <= 0) trend[trend.length - 1] = lag;
    else for (let each = Math.min(steps, POINTS); each > 0; each -= 1) trend.push(each > 1 ? trend[trend.length - 1] : lag);
    if (trend.length > POINTS) trend.splice(0, trend.length - POINTS);
    state.trends.set(key, trend);
  }
  for (const key of state.trends.keys()) if (!state.groups.has(key)) state.trends.delete(key);
}

let drawing = false;

function drawSoon() {
  if (drawing) return;
  drawing = true;
  requestAnimationFrame(() => { drawing = false; draw(); });
}

function draw() {
  if (state.heard === 0) return;
  byId("overview").hidden = view.group !== "";
  byId("group").hidden = view.group === "";
  document.title = printable(view.group ? `${view.group} · Groups` : "Groups");
  const cluster = state.about.get("cluster_id");
  byId("cluster").replaceChildren(...(cluster ? [named(cluster), element("span", ", ", "comma")] : []),
    `${count(state.about.get("brokers"), "broker")}, ${count(state.about.get("groups"), "group")}`);
  const log = state.about.get("log") || "";
  byId("log").hidden = !log;
  setText(byId("log"), log && `${log[0].toUpperCase()}${log.slice(1)}.`);
  const assignors = state.about.get("assignors") || [];
  if (byId("assignor").options.length !== assignors.length) byId("assignor").replaceChildren(...assignors.map((name) => element("option", name)));
  if (view.group) groupPage.draw(state, view);
  else overview.draw(state, view);
  drawStatus();
}

// How old the figures are is told by the clock, not by the next message: there may be none.
function drawStatus() {
  const seen = state.look.get("seen_ms");
  const asking = state.look.get("asking_since_ms");
  const problem = state.look.get("problem");
  const from = seen ? `What you see is from ${new Date(seen).toLocaleTimeString()}.` : "";
  const silent = state.heard > 0 && Date.now() - state.heard > 15000 + (state.about.get("interval_ms") || 0);
  let [level, text, why] = ["", "connecting", ""];
  if (source !== null && !state.connected && state.heard > 0) [level, text, why] = ["dead", "not connected", `No connection to groupsdk; trying again. ${from}`];
  else if (asking !== undefined) {
    const words = state.look.get("waiting_for") || problem || "";
    [level, text, why] = ["moving", `asking for ${Math.max(1, Math.round((state.now() - asking) / 1000))} s`, `The brokers do not answer${words ? `: ${words}` : ""}. ${from}`];
  } else if (problem !== undefined) [level, text, why] = ["dead", "not reached", `${problem}. ${from}`];
  else if (silent) [level, text, why] = ["moving", `no news for ${duration(Date.now() - state.heard)}`, from];
  else if (seen) {
    const age = state.now() - seen;
    [level, text] = ["stable", age > LATE_MS + 2 * (state.about.get("interval_ms") || 0) ? `seen ${duration(age)} ago` : "live"];
  }
  byId("status").className = `pill ${level}`;
  setText(byId("status-text"), text);
  document.body.classList.toggle("stale", level === "moving" || level === "dead");
  byId("problem").hidden = !why;
  byId("problem").classList.toggle("moving", level === "moving");
  setText(byId("problem"), why);
}

setInterval(drawStatus, 250);

let searched = null;
let searchedAt = 0;

async function search() {
  const asked = view.q.trim();
  searchedAt = Date.now();
  if (!asked) { searched = null; overview.take(null); return; }
  if (searched !== asked) overview.take(null);
  searched = asked;
  try {
    const answer = await fetch(`find?${new URLSearchParams({ words: asked })}`, { method: "POST" });
    if (!answer.ok || view.q.trim() !== asked) return;
    overview.take(new Set((await answer.json()).groups));
    drawSoon();
  } catch { /* the status says that there is no connection */ }
}

let typing = null;
byId("search").addEventListener("input", () => {
  clearTimeout(typing);
  typing = setTimeout(() => change({ q: byId("search").value }), 120);
});

function links() {
  return [...document.querySelectorAll("#groups tbody a")];
}

function focusRow(group) {
  const link = links().find((each) => each.dataset.group === group);
  if (link) link.focus();
}

function move(step) {
  const all = links();
  if (all.length === 0) return;
  const at = all.indexOf(document.activeElement);
  const next = all[at < 0 ? 0 : Math.min(all.length - 1, Math.max(0, at + step))];
  next.focus();
  next.scrollIntoView({ block: "nearest" });
}

function escape(target) {
  if (target === byId("search")) { clearTimeout(typing); byId("search").value = ""; byId("search").blur(); change({ q: "" }); }
  else if (target === byId("member-search")) { byId("member-search").value = ""; byId("member-search").blur(); change({ find: "" }); }
  else if (view.group) change({ group: "", find: "", by: "name" });
  else change({ q: "", show: "", kind: "" });
}

addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const { target } = event;
  if (event.key === "Escape") escape(target);
  else if (target.matches("input, select, textarea")) {
    if (event.key === "ArrowDown" && target === byId("search")) { move(1); event.preventDefault(); }
  } else if (event.key === "/") {
    byId(view.group ? "member-search" : "search").focus();
    event.preventDefault();
  } else if (!view.group && (event.key === "j" || event.key === "ArrowDown")) { move(1); event.preventDefault(); }
  else if (!view.group && (event.key === "k" || event.key === "ArrowUp")) { move(-1); event.preventDefault(); }
});

byId("what-if").addEventListener("submit", async (event) => {
  event.preventDefault();
  const output = byId("plan");
  setText(output, "…");
  const asked = new URLSearchParams({ group: view.group, assignor: byId("assignor").value });
  try {
    const answer = await fetch(`what-if?${asked}`, { method: "POST" });
    const said = await answer.json();
    setText(output, answer.ok ? said.text : said.message);
  } catch (error) {
    setText(output, String(error));
  }
});

function theme(name, keep) {
  document.documentElement.dataset.theme = name;
  if (keep) { try { localStorage.setItem("theme", name); } catch { /* private windows */ } }
}

let remembered = null;
try { remembered = localStorage.getItem("theme"); } catch { /* private windows */ }
theme(remembered || (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light"), false);
byId("theme").addEventListener("click", () => theme(document.documentElement.dataset.theme === "dark" ? "light" : "dark", true));
addEventListener("resize", drawSoon);

if (view.q) search();
follow();
