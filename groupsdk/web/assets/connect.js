// Connect's connectors and tasks on a group's page.
import { Rows, byId, element, named, number, setText } from "./elements.js";

const PAGE = 200;

function taskColour(taskState) {
  switch (taskState) {
    case "RUNNING": return "stable";
    case "RESTARTING": return "moving";
    case "FAILED": return "dead";
    default: return "empty";
  }
}

export class Tasks {
  constructor(change) {
    this.most = PAGE;
    this.rows = new Rows(byId("connectors").tBodies[0], () => ({ node: element("tr"), task: null }));
    byId("more-tasks").addEventListener("click", () => { this.most += PAGE; change({}); });
  }

  draw(state) {
    const tasks = [...state.tasks.values()];
    byId("connect").hidden = tasks.length === 0;
    setText(byId("tasks-count"), number(tasks.length));
    byId("workers").tBodies[0].replaceChildren(...workerRows(tasks));
    const shown = [...state.tasks.keys()].slice(0, this.most);
    this.rows.show(shown, (row, key) => {
      const task = state.tasks.get(key);
      if (row.task !== task) fillTask(row.node, task);
      row.task = task;
    });
    const left = tasks.length - shown.length;
    byId("more-tasks").hidden = left <= 0;
    setText(byId("more-tasks"), `Show ${number(Math.min(PAGE, left))} more of ${number(left)}`);
  }
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
    const name = element("td");
    name.append(named(worker));
    row.append(name, ...[each.connectors, each.tasks, each.failed, each.standby].map((value) => element("td", number(value), "number")));
    return row;
  });
}

function fillTask(row, task) {
  row.className = task.is_task ? "task" : "";
  const name = element("td");
  name.append(named(task.name));
  if (task.trace) {
    const why = element("div", null, "why");
    why.append(named(task.trace));
    name.append(why);
  }
  const now = element("td", null, "whole");
  const dot = element("span", null, "dot", taskColour(task.state));
  dot.setAttribute("aria-hidden", "true");
  now.append(dot, element("span", task.state.toLowerCase()));
  const worker = element("td", null, "whole");
  worker.append(named(task.worker));
  const standbys = element("td");
  for (const standby of task.standbys) {
    const each = element("div", null, "whole");
    each.append(named(standby));
    standbys.append(each);
  }
  row.replaceChildren(name, now, worker, standbys, element("td", task.restarts === 0 ? "" : number(task.restarts), "number"));
}
