// The status page of a program: shows what /status/events sends, and asks about Services. It changes nothing.
"use strict";

const byId = (id) => document.getElementById(id);
const SVG = "http://www.w3.org/2000/svg";

/** Makes an element with text or children. Nothing is ever parsed as HTML. */
function element(tag, className, ...children) {
  const made = document.createElement(tag);
  if (className) made.className = className;
  made.append(...children);
  return made;
}

function drawn(tag, attributes, text) {
  const made = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  if (text !== undefined) made.textContent = text;
  return made;
}

/** A time in the largest unit that leaves at least two of it. */
function age(millis) {
  if (millis === null || millis === undefined) return "\u2013";
  const seconds = Math.floor(millis / 1000);
  if (seconds < 2) return `${millis} ms`;
  if (seconds < 120) return `${seconds} s`;
  if (seconds < 7200) return `${Math.floor(seconds / 60)} min`;
  if (seconds < 172800) return `${Math.floor(seconds / 3600)} h`;
  return `${Math.floor(seconds / 86400)} d`;
}

const GOOD = ["synced"];
const WARN = ["pending", "syncing", "quarantine", "going", "unlisted"];
const level = (state) => (GOOD.includes(state) ? "good" : WARN.includes(state) ? "warn" : "bad");

function metric(label, value, className) {
  return element("span", `metric ${className || ""}`, element("span", "label", `${label} `), String(value));
}

/** The p99 of the last hour, minute by minute, on a logarithmic scale from 1 ms. */
function plot(history) {
  const box = { left: 56, right: 632, top: 12, bottom: 132 };
  const most = Math.max(1000, ...history.map((minute) => minute.p99Ms));
  const decades = Math.ceil(Math.log10(most));
  const x = (ageMs) => box.right - (Math.min(ageMs, 3600000) / 3600000) * (box.right - box.left);
  const y = (millis) => box.bottom - (Math.log10(Math.max(1, millis)) / decades) * (box.bottom - box.top);
  const latest = history[history.length - 1];
  const words = latest
    ? `Lag p99 over the last hour, minute by minute: last ${age(latest.p99Ms)}, ${age(latest.ageMs)} ago; largest ${age(Math.max(...history.map((minute) => minute.p99Ms)))}`
    : "No change within the last hour";
  const svg = drawn("svg", { viewBox: "0 0 640 160", role: "img", "aria-label": words });
  for (let decade = 0; decade <= decades; decade += 1) {
    const millis = 10 ** decade;
    svg.append(drawn("line", { class: "grid", x1: box.left, x2: box.right, y1: y(millis), y2: y(millis) }));
    const text = millis < 1000 ? `${millis} ms` : `${millis / 1000} s`;
    svg.append(drawn("text", { x: box.left - 6, y: y(millis) + 4, "text-anchor": "end" }, text));
  }
  for (const minutes of [60, 45, 30, 15, 0]) {
    const text = minutes ? `${minutes} min` : "now";
    svg.append(drawn("text", { x: x(minutes * 60000), y: box.bottom + 18, "text-anchor": minutes === 60 ? "start" : minutes ? "middle" : "end" }, text));
  }
  const points = history.map((minute) => `${x(minute.ageMs).toFixed(1)},${y(minute.p99Ms).toFixed(1)}`);
  if (points.length > 1) svg.append(drawn("polyline", { class: "p99", points: points.join(" ") }));
  for (const minute of history) {
    svg.append(drawn("circle", { class: "dot", r: 2.5, cx: x(minute.ageMs).toFixed(1), cy: y(minute.p99Ms).toFixed(1) }));
  }
  return element("figure", "", svg, element("figcaption", "note", words));
}

/** Fills the line of a backend, which is shown whether it is open or not. */
function backendLine(backend) {
  const lag = backend.lag;
  const days = backend.certificateDays;
  return [
    element("span", "name", backend.backend),
    element("span", `state ${level(backend.state)}`, backend.state),
    metric("Source age", backend.sourceAge),
    metric("Lag p99", lag ? age(lag.p99Ms) : "\u2013"),
    metric("Services", backend.services),
    metric("Endpoints", backend.endpoints),
    metric("Rejected", backend.rejected, backend.rejected ? "warn" : ""),
    metric("Held", backend.held, backend.held ? "bad" : ""),
    metric("Certificate days", days === null ? "\u2013" : days, days !== null && days < 14 ? "bad" : ""),
  ];
}

function backendBody(backend) {
  const parts = [];
  // A program that measures no lag sends none.
  if (backend.history) parts.push(element("h3", "", "Lag over the last hour"), plot(backend.history));
  const todo = backend.notes.map((note) =>
    element("li", "", note.text, ...(note.command ? [element("code", "todo", note.command)] : [])));
  if (backend.trouble) todo.unshift(element("li", "", backend.trouble));
  if (backend.rejected) {
    todo.push(element("li", "", `${backend.rejected} Services are not published as their source has them`,
      element("code", "todo", `gimbalctl services --backend ${backend.backend} --trouble`)));
  }
  if (todo.length) parts.push(element("h3", "", "What to do"), element("ul", "", ...todo));
  if (!parts.length) parts.push(element("p", "note", "Nothing is to be done."));
  return parts;
}

const rows = new Map();

function show(state) {
  document.title = byId("title").textContent = state.title;
  byId("standing").textContent = state.standing;
  const names = new Set(state.backends.map((backend) => backend.backend));
  for (const [name, row] of rows) {
    if (!names.has(name)) {
      row.item.remove();
      rows.delete(name);
    }
  }
  for (const backend of state.backends) {
    let row = rows.get(backend.backend);
    if (!row) {
      const summary = element("summary", "");
      const body = element("div", "body");
      const details = element("details", "", summary, body);
      row = { item: element("li", "", details), summary, body, details };
      details.addEventListener("toggle", () => details.open && body.replaceChildren(...backendBody(row.backend)));
      rows.set(backend.backend, row);
      byId("backends").append(row.item);
      byId("backend").append(new Option(backend.backend, backend.backend));
    }
    row.backend = backend;
    row.summary.replaceChildren(...backendLine(backend));
    if (row.details.open) row.body.replaceChildren(...backendBody(backend));
  }
  byId("no-backends").hidden = state.backends.length > 0;
}

/** Says whether what is shown is of now, only when that changes, so that a screen reader is not interrupted. */
function live(text) {
  if (byId("live").textContent !== text) byId("live").textContent = text;
}

/** How long after a failure another connection is opened, where the browser opens none. */
const AGAIN = 2000;
/** How long the next connection may take after one that ended as planned, before the page says that it is not live. */
const PATIENCE = 8000;

let late; // The timer of that, until a state comes.
let planned = false;

function watch() {
  const events = new EventSource("status/events");
  events.addEventListener("state", (event) => {
    clearTimeout(late);
    late = undefined;
    show(JSON.parse(event.data));
    live("Live");
  });
  events.addEventListener("again", () => {
    planned = true;
  });
  events.addEventListener("error", () => {
    const notLive = () => live("Not live: the program does not answer; trying again");
    if (late === undefined) late = setTimeout(notLive, planned ? PATIENCE : 0);
    planned = false;
    // After an answer that is no stream, such as 503 while the program starts, a browser does not try again.
    if (events.readyState === EventSource.CLOSED) setTimeout(watch, AGAIN);
  });
}

watch();

function serviceRow(service) {
  const summary = element("summary", "",
    element("span", "name", `${service.source}`),
    element("span", `state ${level(service.state)}`, service.state),
    metric("Backend", service.backend),
    metric("Ready", service.ready),
    metric("As", service.target || "\u2013"));
  const body = element("div", "body", element("p", "note", "Asking why"));
  const details = element("details", "", summary, body);
  details.addEventListener("toggle", async () => {
    if (!details.open) return;
    const query = new URLSearchParams({ backend: service.backend, service: service.source });
    body.replaceChildren(...(await ask(`status/why?${query}`, (answer) => [
      element("ul", "", ...answer.reasons.map((reason) => element("li", "", reason))),
    ])));
  });
  return element("li", "", details);
}

/** Asks, and returns what to show of the answer, or of the failure. */
async function ask(url, shown) {
  try {
    const answer = await fetch(url);
    if (answer.ok) return shown(await answer.json());
    return [element("p", "bad", await answer.text())];
  } catch (error) {
    return [element("p", "bad", `The program does not answer: ${error.message}`)];
  }
}

byId("search").addEventListener("submit", async (event) => {
  event.preventDefault();
  const query = new URLSearchParams({ q: byId("query").value.trim(), backend: byId("backend").value });
  if (byId("trouble").checked) query.set("trouble", "1");
  byId("found").textContent = "Searching";
  const items = await ask(`status/services?${query}`, (answer) => {
    const more = answer.more ? `the first ${answer.services.length} are shown: name more of it` : `${answer.services.length} found`;
    byId("found").textContent = more;
    return answer.services.map(serviceRow);
  });
  if (items.some((item) => item.tagName === "P")) {
    byId("found").replaceChildren(...items);
    byId("results").replaceChildren();
  } else {
    byId("results").replaceChildren(...items);
  }
});
