// Elements and words of the page. Everything from the cluster is set as text, never as HTML, and goes through
// printable(): names may be anything.

export const byId = (id) => document.getElementById(id);

export function printable(text) {
  return String(text).replace(/(?![\n\t\u200c\u200d])[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}]/gu, (character) => {
    const code = character.codePointAt(0);
    const [letter, digits] = code < 0x100 ? ["x", 2] : code < 0x10000 ? ["u", 4] : ["U", 8];
    return `\\${letter}${code.toString(16).padStart(digits, "0")}`;
  });
}

export function setText(node, text) {
  const shown = printable(text);
  if (node.textContent !== shown) node.textContent = shown;
}

export function element(tag, text, ...classes) {
  const made = document.createElement(tag);
  if (text !== undefined && text !== null) setText(made, text);
  made.classList.add(...classes.filter(Boolean));
  return made;
}

// A string of the cluster: its direction of writing stays its own.
export function named(text, ...classes) {
  return element("bdi", text, ...classes);
}

export function append(node, ...parts) {
  node.append(...parts.map((part) => typeof part === "string" ? document.createTextNode(printable(part)) : part));
  return node;
}

export function svg(tag, attributes, text) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  if (text !== undefined) setText(made, text);
  return made;
}

export function number(value) {
  return value.toLocaleString("en");
}

export function count(value, noun) {
  return `${number(value)} ${noun}${value === 1 ? "" : "s"}`;
}

export function duration(ms) {
  if (ms < 1000) return `${Math.max(0, Math.round(ms))} ms`;
  const s = ms / 1000;
  if (s < 10) return `${s.toFixed(1)} s`;
  if (s < 120) return `${Math.round(s)} s`;
  if (s < 7200) return `${Math.round(s / 60)} min`;
  return s < 172800 ? `${Math.round(s / 3600)} h` : `${Math.round(s / 86400)} days`;
}

export function stateColour(groupState) {
  switch (groupState) {
    case "Stable": return "stable";
    case "Empty": return "empty";
    case "Dead": return "dead";
    default: return "moving";
  }
}

const WORDS = { PreparingRebalance: "preparing rebalance", CompletingRebalance: "completing rebalance" };

export function stateWords(groupState) {
  return WORDS[groupState] || groupState.toLowerCase() || "unknown";
}

// Rows by key: those that stay are kept, so that focus, selection and what is folded open stay, too.
export class Rows {
  constructor(parent, make) {
    this.parent = parent;
    this.make = make;
    this.made = new Map();
  }

  show(keys, fill) {
    const focused = this.parent.contains(document.activeElement) ? document.activeElement : null;
    const kept = new Map();
    let place = this.parent.firstElementChild;
    for (const key of keys) {
      const row = this.made.get(key) || this.make(key);
      kept.set(key, row);
      fill(row, key);
      if (row.node === place) place = place.nextElementSibling;
      else this.parent.insertBefore(row.node, place);
    }
    for (const [key, row] of this.made) if (!kept.has(key)) row.node.remove();
    this.made = kept;
    if (focused !== null && focused !== document.activeElement && focused.isConnected) focused.focus({ preventScroll: true });
  }
}

// The line of a group's lag: points of equal distance, the newest at the right.
export function linePoints(values, points, width, height) {
  const top = Math.max(1, ...values.filter((value) => value !== null));
  const first = points - values.length;
  const step = width / Math.max(1, points - 1);
  const found = [];
  values.forEach((value, index) => {
    if (value !== null) found.push(`${((first + index) * step).toFixed(1)},${(height - 1 - value / top * (height - 2)).toFixed(1)}`);
  });
  return found;
}
