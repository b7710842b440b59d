// One group: findings, facts, lag and states over ten minutes, topics, members, rebalances.
import { Rows, append, byId, count, duration, element, linePoints, named, number, setText, stateColour, stateWords, svg } from "./elements.js";
import { MARKS, severityOf } from "./overview.js";
import { Tasks } from "./connect.js";

const WINDOW_MS = 10 * 60 * 1000;
const PAGE = 100;
const POINTS = 60;
const FOLDED = 160;

const ABOUT = {
  share: "The members of a share group may read the same partitions; brokers keep their progress record by record, so there is no lag here.",
  streams: "A Kafka Streams application: its members have tasks, named subtopology_partition.",
  shards: "Workers that share named shards; each shard has one owner at a time.",
  connect: "Workers of Kafka Connect's protocol: they share connectors and tasks.",
};

export class GroupPage {
  constructor(change) {
    this.most = PAGE;
    this.shown = null;
    this.rows = new Rows(byId("members").tBodies[0], makeMember);
    this.topics = new Rows(byId("topics").tBodies[0], () => ({ node: element("tr"), topic: null }));
    this.tasks = new Tasks(change);
    byId("more-members").addEventListener("click", () => { this.most += PAGE; change({}); });
    byId("member-controls").addEventListener("submit", (event) => event.preventDefault());
    byId("member-search").addEventListener("input", () => change({ find: byId("member-search").value }));
    byId("member-sort").addEventListener("change", () => change({ by: byId("member-sort").value }));
  }

  draw(state, view) {
    const facts = state.group;
    const there = facts.size > 0;
    if (this.shown !== view.group) this.most = PAGE;
    this.shown = view.group;
    byId("back").setAttribute("href", state.address({ ...view, group: "", find: "", by: "name" }));
    const gone = !there && state.detailed;
    byId("name").replaceChildren(named(view.group), ...(gone ? [" is gone"] : []));
    for (const id of ["badges", "facts", "charts", "members-part"]) byId(id).hidden = !there;
    if (there) this.drawFacts(state, view);
    else for (const id of ["findings", "badges"]) byId(id).replaceChildren();
    byId("about").hidden = !there || !ABOUT[facts.get("kind")];
    setText(byId("about"), ABOUT[facts.get("kind")] || "");
    this.drawTopics(state);
    this.tasks.draw(state);
    if (there) this.drawMembers(state, view);
    this.drawChanges(state);
    byId("what-if").hidden = !canTry(state);
  }

  drawFacts(state) {
    const facts = state.group;
    const row = state.groups.get(this.shown) || {};
    const severity = severityOf(row) || "";
    const badges = [];
    if (severity) badges.push(element("span", `${MARKS[severity]} ${severity}`, "badge", severity));
    if (row.failed) badges.push(element("span", count(row.failed, "failed task"), "badge"));
    const now = element("span", null, "badge");
    const dot = element("span", null, "dot", stateColour(facts.get("state")));
    dot.setAttribute("aria-hidden", "true");
    now.append(dot, `${stateWords(facts.get("state"))} for ${duration(state.now() - facts.get("since_ms"))}`);
    badges.push(now, element("span", facts.get("kind"), "badge"));
    byId("badges").replaceChildren(...badges);
    replaceIfOther(byId("findings"), JSON.stringify(facts.get("findings")), () => (facts.get("findings") || []).map(findingItem));
    const rows = [["Protocol", protocolOf(facts)]];
    if (facts.get("protocol_type") && facts.get("protocol_type") !== facts.get("kind")) rows.push(["Protocol type", facts.get("protocol_type")]);
    if (facts.get("assignor")) rows.push(["Assignor", facts.get("assignor")]);
    rows.push(["Coordinator", `node ${facts.get("coordinator")}`], ["Members", number(facts.get("member_count"))]);
    if (facts.has("epoch")) {
      const target = facts.get("assignment_epoch");
      rows.push(["Epoch", target === undefined || target === facts.get("epoch") ? facts.get("epoch") : `${facts.get("epoch")}, assignment ${target}`]);
    }
    const { has } = state.groups.get(this.shown) || {};
    if (has) rows.push(["Shared", has]);
    const lag = state.lags.get(this.shown);
    if (lag !== undefined) rows.push(["Lag", number(lag)]);
    byId("facts").replaceChildren(...rows.map(([name, value]) => {
      const pair = element("div");
      const shown = element("dd");
      shown.append(named(value));
      pair.append(element("dt", name), shown);
      return pair;
    }));
    this.drawLag(state);
    this.drawTimeline(state);
  }

  drawLag(state) {
    const values = state.trends.get(this.shown) || [];
    const known = values.filter((value) => value !== null);
    byId("lag-figure").hidden = known.length === 0;
    if (known.length === 0) return;
    const drawing = byId("lag");
    drawing.setAttribute("viewBox", "0 0 600 60");
    const points = linePoints(values, POINTS, 600, 60);
    drawing.replaceChildren(
      svg("polygon", { class: "area", points: `${points[0].split(",")[0]},60 ${points.join(" ")} 600,60` }),
      svg("polyline", { class: "line", points: points.join(" ") }));
    const text = `Lag from ${number(known[0])} to ${number(known[known.length - 1])}, at most ${number(Math.max(...known))}`;
    setText(byId("lag-text"), text);
    drawing.setAttribute("aria-label", text);
  }

  drawTimeline(state) {
    const drawing = byId("timeline");
    const width = drawing.clientWidth || 600;
    drawing.setAttribute("viewBox", `0 0 ${width} 50`);
    const now = state.now();
    const from = now - WINDOW_MS;
    const x = (ms) => Math.max(0, (ms - from) / WINDOW_MS * width);
    const made = [svg("rect", { x: 0, y: 12, width, height: 16, class: "track" })];
    const states = state.group.get("states");
    for (const [index, [at, name]] of states.entries()) {
      const end = index + 1 < states.length ? states[index + 1][0] : now;
      if (end < from) continue;
      const bar = svg("rect", { x: x(at), y: 12, width: Math.max(1.5, x(end) - x(at)), height: 16, class: stateColour(name) });
      bar.append(svg("title", {}, `${stateWords(name)}, ${duration(end - at)}`));
      made.push(bar);
    }
    for (const rebalance of state.rebalances.values()) {
      if (rebalance.at_ms < from) continue;
      const mark = svg("line", { x1: x(rebalance.at_ms), x2: x(rebalance.at_ms), y1: 4, y2: 34, class: "mark" });
      mark.append(svg("title", {}, `rebalance at ${new Date(rebalance.at_ms).toLocaleTimeString()}`));
      made.push(mark);
    }
    for (let minute = 0; minute <= 10; minute += 2) {
      made.push(svg("text", { x: width - minute / 10 * width, y: 47, "text-anchor": minute === 0 ? "end" : minute === 10 ? "start" : "middle" },
        minute === 0 ? "now" : `-${minute} min`));
    }
    drawing.setAttribute("aria-label", printableLabel(this.shown, state.group.get("state")));
    drawing.replaceChildren(...made);
  }

  drawTopics(state) {
    const total = state.group.get("topic_count") || 0;
    byId("topics-part").hidden = state.topics.size === 0;
    setText(byId("topics-count"), total > state.topics.size ? `${number(state.topics.size)} of ${number(total)}` : number(total));
    const shown = [...state.topics.keys()].sort((a, b) => state.topics.get(b).lag - state.topics.get(a).lag || (a < b ? -1 : 1));
    this.topics.show(shown, (row, name) => {
      const topic = state.topics.get(name);
      if (row.topic !== topic) fillTopic(row.node, name, topic);
      row.topic = topic;
    });
  }

  drawMembers(state, view) {
    const total = state.group.get("member_count") || 0;
    byId("member-controls").hidden = total <= 10 && !view.find;
    if (document.activeElement !== byId("member-search")) byId("member-search").value = view.find;
    byId("member-sort").value = view.by;
    const words = view.find.toLowerCase().split(/\s+/).filter(Boolean);
    const keys = [...state.members.keys()].filter((key) => matches(key, state.members.get(key), words));
    const lag = (key) => state.member_lags.get(key) ?? -1;
    const name = (key) => state.members.get(key).client_id || key;
    const by = {
      lag: (a, b) => lag(b) - lag(a),
      size: (a, b) => (state.members.get(b).size || 0) - (state.members.get(a).size || 0),
    }[view.by] || (() => 0);
    keys.sort((a, b) => by(a, b) || name(a).localeCompare(name(b), "en", { numeric: true }) || (a < b ? -1 : 1));
    const shown = keys.slice(0, this.most);
    const cut = total > state.members.size ? `, the first ${number(state.members.size)}` : "";
    setText(byId("members-count"), words.length ? `${number(keys.length)} of ${number(total)}` : number(total) + cut);
    byId("members").hidden = shown.length === 0;
    byId("members").classList.toggle("without-lag", state.member_lags.size === 0);
    this.rows.show(shown, (row, key) => {
      const member = state.members.get(key);
      if (row.member !== member) fillMember(row, key, member);
      row.member = member;
      const value = state.member_lags.get(key);
      setText(row.lag, value === undefined ? "" : number(value));
    });
    const left = keys.length - shown.length;
    byId("more-members").hidden = left <= 0;
    setText(byId("more-members"), `Show ${number(Math.min(PAGE, left))} more of ${number(left)}`);
  }

  drawChanges(state) {
    const found = [...state.rebalances.values(), ...state.changes.values()].sort((a, b) => b.at_ms - a.at_ms).slice(0, 50);
    byId("changes-part").hidden = found.length === 0;
    byId("changes").replaceChildren(...found.map(changeItem));
  }
}

function printableLabel(name, groupState) {
  const label = element("span", `States of ${name} over the last ten minutes; now ${stateWords(groupState)}`);
  return label.textContent;
}

function protocolOf(facts) {
  switch (facts.get("type")) {
    case "consumer": return "consumer (KIP-848)";
    case "share": return "share (KIP-932)";
    case "streams": return "streams (KIP-1071)";
    default: return facts.get("type");
  }
}

function canTry(state) {
  const kind = state.group.get("kind");
  const readsTopics = kind !== undefined && !["connect", "shards", "share", "streams"].includes(kind);
  return readsTopics && (state.about.get("assignors") || []).length > 0 && [...state.members.values()].some((member) => member.parts.length > 0);
}

function replaceIfOther(node, key, make) {
  if (node.dataset.key === key) return;
  node.dataset.key = key;
  node.replaceChildren(...make());
}

function findingItem(finding) {
  const item = element("li", null, "finding", finding.severity);
  const head = element("p", null, "saw");
  const mark = element("span", `${MARKS[finding.severity] || ""} `, "mark", finding.severity);
  mark.setAttribute("aria-hidden", "true");
  head.append(mark, element("span", `${finding.severity}: `, "hidden"), named(finding.saw));
  item.append(head);
  for (const [word, text] of [["Costs", finding.cost], ["Change", finding.change]]) {
    if (!text) continue;
    const line = element("p");
    line.append(element("span", word, "label"), " ", named(text));
    item.append(line);
  }
  item.append(element("p", `${finding.rule}, ${Math.round(finding.confidence * 100)} % sure`, "faint"));
  return item;
}

function matches(key, member, words) {
  if (words.length === 0) return true;
  const text = [key, member.client_id, member.host, member.instance_id || "", member.rack || "", ...member.parts].join("\n").toLowerCase();
  return words.every((word) => text.includes(word));
}

function makeMember() {
  const node = element("tr");
  node.setAttribute("role", "row");
  const [name, host, has, lag] = ["title", "host", "has", "lag"].map((names) => {
    const cell = element("td", null, names);
    cell.setAttribute("role", "cell");
    node.append(cell);
    return cell;
  });
  lag.classList.add("number");
  return { node, name, host, has, lag, member: null };
}

function fillMember(row, key, member) {
  const about = element("div", null, "faint");
  const parts = member.instance_id ? [append(element("span"), "static ", named(member.instance_id))] : [named(key)];
  if (member.epoch !== null) parts.push(`epoch ${member.epoch}`);
  if (member.rack) parts.push(append(element("span"), "rack ", named(member.rack)));
  if (member.weight !== null) parts.push(`weight ${member.weight}`);
  if (member.load !== null) parts.push(`load ${member.load}`);
  if (member.url) parts.push(named(member.url));
  parts.forEach((part, index) => append(about, ...(index ? [", "] : []), part));
  row.name.replaceChildren(named(member.client_id || key), about);
  if (member.draining) row.name.append(element("span", "draining", "badge", "warning"));
  row.host.replaceChildren(named(member.host));
  const wasOpen = row.has.querySelector("details")?.open;
  row.has.replaceChildren(...shownParts(member));
  const folded = row.has.querySelector("details");
  if (folded && wasOpen) folded.open = true;
}

function shownParts(member) {
  const chips = [
    ...member.parts.map((part) => named(part, "part")),
    ...member.going.map((part) => labelled("part going", "giving up ", part)),
    ...member.coming.map((part) => labelled("part coming", "to come ", part)),
    ...member.standbys.map((part) => labelled("part standby", "standby ", part)),
  ];
  const length = chips.reduce((sum, chip) => sum + chip.textContent.length, 0);
  if (length <= FOLDED || chips.length === 0) return chips;
  const folded = element("details");
  const summary = element("summary");
  summary.append(member.size === null ? count(chips.length, "part") : `${number(member.size)}: `, named(chips[0].textContent.slice(0, 60)), " …");
  const all = element("div");
  all.append(...chips);
  folded.append(summary, all);
  return [folded];
}

function labelled(classes, word, part) {
  const chip = element("span", null, ...classes.split(" "));
  chip.append(element("span", word, "word"), named(part));
  return chip;
}

function fillTopic(row, name, topic) {
  const title = element("td");
  title.append(named(name));
  const partitions = element("td", null, "numbers");
  append(partitions, `${number(topic.count)}: `, named(topic.partitions));
  if (topic.unowned) append(partitions, append(element("div", null, "why"), "without a member: ", named(topic.unowned)));
  if (topic.uncommitted) append(partitions, element("div", `${number(topic.uncommitted)} without a committed offset`, "faint"));
  const [worst, most] = topic.worst;
  row.replaceChildren(title, partitions, element("td", number(topic.lag), "number"),
    element("td", most ? `${number(most)} in ${worst}` : "", "number"));
}

function changeItem(event) {
  const item = element("li");
  const at = element("time", new Date(event.at_ms).toLocaleTimeString());
  at.dateTime = new Date(event.at_ms).toISOString();
  item.append(at);
  if (event.causes === undefined) item.append(named(event.text));
  else append(item, ...rebalanceParts(event));
  const about = event.phases.map(([name, ms]) => `${stateWords(name)} ${duration(ms)}`);
  if (about.length) item.append(element("div", about.join(", "), "faint"));
  return item;
}

function rebalanceParts(event) {
  const parts = [event.length_ms === null ? "rebalancing" : `rebalanced, ${number(event.moved)} moved, ${count(event.members, "member")}`];
  event.causes.forEach((cause, index) => parts.push(index ? "; " : ": ", ...causeParts(cause)));
  if (event.more_causes) parts.push(`; and ${count(event.more_causes, "cause")} more`);
  return parts;
}

function causeParts(cause) {
  const who = [named(cause.client_id || cause.member_id), " (", named(cause.member_id), ") at ", named(cause.host)];
  switch (cause.kind) {
    case "joined": case "left": case "restarted": return [...who, ` ${cause.kind}`];
    case "subscribed": return [...who, " subscribed to ", named(cause.detail)];
    default: return [named(cause.detail)];
  }
}
