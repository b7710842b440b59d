"use strict";
// Everything from the cluster is set as text, never as HTML, and goes through printable(): names may be anything.

const WINDOW_MS = 10 * 60 * 1000;
const MAX_TASKS = 2000;
const byId = (id) => document.getElementById(id);
let state = null;
let chosen = decodeURIComponent(location.hash.slice(1)) || null;

function printable(text) {
  return String(text).replace(/(?![\n\t\u200c\u200d])[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}]/gu, (character) => {
    const code = character.codePointAt(0);
    const [letter, digits] = code < 0x100 ? ["x", 2] : code < 0x10000 ? ["u", 4] : ["U", 8];
    return `\\${letter}${code.toString(16).padStart(digits, "0")}`;
  });
}

function setText(made, text) {
  made.textContent = printable(text);
}

function element(name, text, ...classes) {
  const made = document.createElement(name);
  if (text !== undefined && text !== null) setText(made, text);
  made.classList.add(...classes.filter(Boolean));
  return made;
}

function colour(groupState) {
  switch (groupState) {
    case "Stable": return "stable";
    case "Empty": return "empty";
    case "Dead": return "dead";
    default: return "moving";
  }
}

function seconds(ms) {
  return ms < 1000 ? `${Math.round(ms)} ms` : `${(ms / 1000).toFixed(1)} s`;
}

function count(number, noun) {
  return `${number.toLocaleString()} ${noun}${number === 1 ? "" : "s"}`;
}

function matches(group, words) {
  if (words.length === 0) return true;
  const text = [group.group_id, group.type, group.state,
    ...group.members.flatMap((m) => [m.member_id, m.client_id, m.host, m.instance_id || "", ...m.parts])]
    .join(" ").toLowerCase();
  return words.every((word) => text.includes(word));
}

function shownGroups() {
  const words = byId("search").value.toLowerCase().split(/\s+/).filter(Boolean);
  return state.groups.filter((group) => matches(group, words));
}

function drawList() {
  const list = byId("groups");
  const focused = list.contains(document.activeElement) ? document.activeElement.dataset.group : null;
  const shown = shownGroups();
  const made = shown.map((group) => {
    const button = element("button");
    button.type = "button";
    button.dataset.group = group.group_id;
    button.setAttribute("aria-current", String(group.group_id === chosen));
    const dot = element("span", null, "dot", colour(group.state));
    const about = [group.state, group.type.toLowerCase(), count(group.members.length, "member")];
    button.append(dot, element("span", group.group_id, "title"),
      element("span", group.lag === null ? "" : `lag ${group.lag.toLocaleString()}`, "number"),
      element("span", about.join(", "), "about"));
    button.addEventListener("click", () => choose(group.group_id));
    const item = element("li");
    item.append(button);
    return item;
  });
  list.replaceChildren(...made);
  byId("none").hidden = shown.length > 0;
  if (focused !== null) {
    const again = made.map((item) => item.firstChild).find((button) => button.dataset.group === focused);
    if (again) again.focus();
  }
}

function fact(name, value) {
  const pair = element("div");
  pair.append(element("dt", name), element("dd", String(value)));
  return pair;
}

function drawDetail() {
  const group = state.groups.find((each) => each.group_id === chosen);
  setText(byId("name"), group ? group.group_id : chosen ? `${chosen} is gone` : "Choose a group");
  const events = state.events.filter((each) => !chosen || each.group_id === chosen);
  for (const id of ["members", "timeline", "timeline-title"]) byId(id).toggleAttribute("hidden", !group);
  byId("what-if").hidden = !group || group.protocol_type === "connect" || state.assignors.length === 0 || !group.members.some((member) => member.parts.length > 0);
  byId("changes-title").hidden = events.length === 0;
  byId("facts").replaceChildren();
  if (group) {
    const facts = [fact("State", group.state), fact("Type", group.type.toLowerCase()), fact("Assignor", group.assignor || "-"),
      fact("Coordinator", `node ${group.coordinator}`)];
    if (group.epoch !== null) facts.push(fact("Epoch", group.epoch));
    if (group.lag !== null) facts.push(fact("Lag", group.lag.toLocaleString()));
    byId("facts").append(...facts);
    byId("members").tBodies[0].replaceChildren(...group.members.map(memberRow));
    drawTimeline(group);
  }
  byId("changes").replaceChildren(...events.slice(-50).reverse().map(changeItem));
}

function memberRow(member) {
  const row = element("tr");
  const name = element("td", member.client_id || member.member_id);
  const about = [member.instance_id ? `static ${member.instance_id}` : member.member_id, member.protocol.toLowerCase()];
  if (member.epoch !== null) about.push(`epoch ${member.epoch}`);
  if (member.rack) about.push(`rack ${member.rack}`);
  if (member.load) about.push(`load ${member.load}`);
  name.append(element("div", about.join(", "), "faint"));
  const parts = element("td");
  const target = member.target === null ? null : new Set(member.target);
  for (const part of member.parts) parts.append(element("span", part, "part", target && !target.has(part) ? "going" : ""));
  if (target) for (const part of member.target) if (!member.parts.includes(part)) parts.append(element("span", part, "part", "coming"));
  row.append(name, element("td", member.host), parts,
    element("td", member.lag === null ? "" : member.lag.toLocaleString(), "number"));
  return row;
}

function changeItem(event) {
  const item = element("li");
  const at = element("time", new Date(event.at_ms).toLocaleTimeString());
  at.dateTime = new Date(event.at_ms).toISOString();
  item.append(at, document.createTextNode(printable(chosen || !event.group_id ? event.text : `${event.group_id}: ${event.text}`)));
  const about = event.phases.map(([name, ms]) => `${name} ${seconds(ms)}`);
  if (about.length) item.append(element("div", about.join(", "), "faint"));
  return item;
}

function svg(name, attributes, text) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  if (text !== undefined) setText(made, text);
  return made;
}

function drawTimeline(group) {
  const drawing = byId("timeline");
  const width = drawing.clientWidth || 600;
  drawing.setAttribute("viewBox", `0 0 ${width} 50`);
  const from = state.at_ms - WINDOW_MS;
  const x = (ms) => Math.max(0, (ms - from) / WINDOW_MS * width);
  const made = [svg("rect", { x: 0, y: 12, width, height: 16, class: "track" })];
  for (const [index, [at, name]] of group.states.entries()) {
    const end = index + 1 < group.states.length ? group.states[index + 1][0] : state.at_ms;
    if (end < from) continue;
    const bar = svg("rect", { x: x(at), y: 12, width: Math.max(1.5, x(end) - x(at)), height: 16, class: colour(name) });
    bar.append(svg("title", {}, `${name}, ${seconds(end - at)}`));
    made.push(bar);
  }
  for (const event of state.events) {
    if (event.group_id !== group.group_id || event.at_ms < from) continue;
    const mark = svg("line", { x1: x(event.at_ms), x2: x(event.at_ms), y1: 4, y2: 34, class: "mark" });
    mark.append(svg("title", {}, event.text));
    made.push(mark);
  }
  for (let minute = 0; minute <= 10; minute += 2) {
    made.push(svg("text", { x: width - minute / 10 * width, y: 47, "text-anchor": minute === 0 ? "end" : minute === 10 ? "start" : "middle" },
      minute === 0 ? "now" : `-${minute} min`));
  }
  drawing.setAttribute("aria-label", printable(`States of ${group.group_id} over the last ten minutes; now ${group.state}`));
  drawing.replaceChildren(...made);
}

function taskColour(taskState) {
  switch (taskState) {
    case "RUNNING": return "stable";
    case "RESTARTING": return "moving";
    case "FAILED": return "dead";
    default: return "empty";
  }
}

function shownTasks() {
  return state.tasks.filter((task) => chosen === null || task.group_id === chosen);
}

function drawConnect() {
  const tasks = shownTasks();
  byId("connect").hidden = tasks.length === 0;
  byId("workers").tBodies[0].replaceChildren(...workerRows(tasks));
  byId("connectors").tBodies[0].replaceChildren(...tasks.slice(0, MAX_TASKS).map(taskRow));
  byId("more").hidden = tasks.length <= MAX_TASKS;
  setText(byId("more"), `and ${(tasks.length - MAX_TASKS).toLocaleString()} more`);
}

function workerRows(tasks) {
  const counts = new Map();
  const of = (worker) => {
    if (!counts.has(worker)) counts.set(worker, { connectors: 0, tasks: 0, failed: 0, standby: 0 });
    return counts.get(worker);
  };
  for (const task of tasks) {
    if (task.worker && task.state !== "UNASSIGNED") {
      of(task.worker)[task.is_task ? "tasks" : "connectors"] += 1;
      if (task.state === "FAILED") of(task.worker).failed += 1;
    }
  }
  for (const task of tasks) for (const standby of task.standbys) if (counts.has(standby)) of(standby).standby += 1;
  return [...counts].sort(([a], [b]) => a < b ? -1 : 1).map(([worker, each]) => {
    const row = element("tr");
    row.append(element("td", worker), ...[each.connectors, each.tasks, each.failed, each.standby]
      .map((number) => element("td", number.toLocaleString(), "number")));
    return row;
  });
}

function taskRow(task) {
  const row = element("tr", null, task.is_task ? "task" : "");
  const prefix = chosen !== null ? "" : `${task.group_id}: `;
  const name = element("td", prefix + task.name);
  if (task.trace) name.append(element("div", task.trace, "why"));
  const now = element("td");
  now.append(element("span", null, "dot", taskColour(task.state)), document.createTextNode(task.state.toLowerCase()));
  now.classList.add("whole");
  const standbys = element("td");
  standbys.append(...task.standbys.map((standby) => element("div", standby, "whole")));
  row.append(name, now, element("td", task.worker, "whole"), standbys,
    element("td", task.restarts === 0 ? "" : task.restarts.toLocaleString(), "number"));
  return row;
}

function draw() {
  setText(byId("cluster"), `${state.cluster_id || "cluster"}, ${count(state.brokers, "broker")}, ${count(state.groups.length, "group")}, ${new Date(state.at_ms).toLocaleTimeString()}`);
  problem(state.problem);
  drawList();
  drawDetail();
  drawConnect();
}

function problem(text) {
  byId("problem").hidden = !text;
  setText(byId("problem"), text || "");
}

function choose(groupId) {
  chosen = groupId;
  history.replaceState(null, "", groupId === null ? "#" : "#" + encodeURIComponent(groupId));
  setText(byId("plan"), "");
  if (state) draw();
}

function move(step) {
  const shown = shownGroups().map((group) => group.group_id);
  if (shown.length === 0) return;
  const at = shown.indexOf(chosen);
  choose(shown[at < 0 ? 0 : Math.min(shown.length - 1, Math.max(0, at + step))]);
  const current = document.querySelector('nav [aria-current="true"]');
  if (current) current.focus();
}

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || !state) return;
  const typing = event.target === byId("search");
  if (event.key === "/" && !typing) { byId("search").focus(); event.preventDefault(); }
  else if (event.key === "Escape") { if (typing) { byId("search").value = ""; byId("search").blur(); draw(); } else choose(null); }
  else if (event.target.tagName === "SELECT") return;
  else if (event.key === "ArrowDown") { move(1); event.preventDefault(); }
  else if (event.key === "ArrowUp") { move(-1); event.preventDefault(); }
});
byId("search").addEventListener("input", () => { if (state) draw(); });
byId("theme").addEventListener("click", () => {
  theme(document.documentElement.dataset.theme === "dark" ? "light" : "dark", true);
});

function theme(name, keep) {
  document.documentElement.dataset.theme = name;
  if (keep) { try { localStorage.setItem("theme", name); } catch { /* private windows */ } }
}

byId("what-if").addEventListener("submit", async (event) => {
  event.preventDefault();
  const output = byId("plan");
  setText(output, "…");
  const asked = new URLSearchParams({ group: chosen, assignor: byId("assignor").value });
  try {
    const answer = await fetch(`what-if?${asked}`, { method: "POST" });
    const said = await answer.json();
    setText(output, answer.ok ? said.text : said.message);
  } catch (error) {
    setText(output, String(error));
  }
});

let remembered = null;
try { remembered = localStorage.getItem("theme"); } catch { /* private windows */ }
theme(remembered || (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light"), false);

const source = new EventSource("events");
source.onmessage = (message) => {
  const first = state === null;
  state = JSON.parse(message.data);
  if (first) byId("assignor").replaceChildren(...state.assignors.map((name) => element("option", name)));
  draw();
};
source.onerror = () => problem("no connection to groupsdk; trying again");
addEventListener("resize", () => { if (state) draw(); });
