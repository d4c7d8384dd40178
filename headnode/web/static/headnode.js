// What a page can do beyond showing: it stays up to date, and it has keys. Everything is readable without this.
"use strict";

document.documentElement.classList.add("scripted");

// -- news ---------------------------------------------------------------------------------------------
// One connection for all open tabs, because a browser opens only six to one server.

const body = document.body;
const pulse = document.getElementById("pulse");
let waiting = null;
let heard = null;
let last = 0;

function show(how, words) {
  if (!pulse) return;
  pulse.className = "pulse " + how;
  pulse.title = words;
  pulse.firstElementChild.textContent = words;
}

function tell(news) {
  heard = heard && !news.many && !heard.many ? {many: false, nodes: heard.nodes.concat(news.nodes)} : news;
  if (waiting) return;
  // Many pages hear of it at the same moment and need not all ask at that moment; nor more than about once a second.
  const pause = Math.max(50 + Math.random() * 250, last + 800 - Date.now());
  waiting = setTimeout(() => {
    waiting = null;
    last = Date.now();
    const said = heard;
    heard = null;
    if (document.hidden) { missed = true; return; }
    body.dispatchEvent(new CustomEvent("headnode:change", {detail: said}));
  }, pause);
}

let missed = false;
document.addEventListener("visibilitychange", () => {
  if (!document.hidden && missed) {
    missed = false;
    body.dispatchEvent(new CustomEvent("headnode:change", {detail: {nodes: [], many: true}}));
  }
});

function hear(message) {
  if (message.kind === "open") {
    show("live", "Live: what changes appears here by itself");
    if (message.again) tell({nodes: [], many: true});
  } else if (message.kind === "lost") {
    show("lost", "Not live right now: trying again");
  } else if (message.kind === "change") {
    tell(message.news);
  }
}

if (body.dataset.worker) {
  if (window.SharedWorker) {
    const worker = new SharedWorker(body.dataset.worker);
    worker.port.onmessage = (event) => hear(event.data);
    worker.port.start();
    window.addEventListener("pagehide", () => worker.port.postMessage("bye"));
  } else {
    const source = new EventSource("/live");
    let before = false;
    source.onopen = () => { hear({kind: "open", again: before}); before = true; };
    source.onerror = () => hear({kind: "lost"});
    source.addEventListener("change", (event) => hear({kind: "change", news: JSON.parse(event.data)}));
  }
}

// A part of a page that is about one node asks again only when that node has changed.
document.addEventListener("htmx:confirm", (event) => {
  const part = event.detail.elt;
  const about = event.detail.triggeringEvent && event.detail.triggeringEvent.detail;
  if (!part.dataset.only || !about || !about.nodes || about.many || !about.nodes.length) return;
  if (!about.nodes.includes(part.dataset.only)) event.preventDefault();
});

// What somebody is reading or choosing right now is not taken away from them.
document.addEventListener("htmx:beforeSwap", (event) => {
  const part = event.detail.target;
  const about = event.detail.requestConfig && event.detail.requestConfig.triggeringEvent;
  if (about && about.type === "headnode:change" && part.querySelector("details[open], dialog[open], [data-keep]")) {
    event.detail.shouldSwap = false;
  }
});

// A table that was scrolled down is brought up to date as long as it is.
document.addEventListener("htmx:configRequest", (event) => {
  if (event.detail.elt.id === "table") {
    event.detail.parameters.set("shown", document.querySelectorAll("#table tbody tr:not(.more)").length);
  }
});

// -- choosing rows: kept while rows come and go ---------------------------------------------------------

const ticked = new Set();

function showTicked() {
  const form = document.getElementById("chosen");
  if (!form) return;
  for (const box of form.querySelectorAll("input[name=node]")) box.checked = ticked.has(box.value);
  const count = form.querySelector("[data-count]");
  if (count) count.textContent = ticked.size ? ticked.size + " chosen" : "";
}

document.addEventListener("change", (event) => {
  if (event.target.matches("#chosen input[name=node]")) {
    if (event.target.checked) ticked.add(event.target.value); else ticked.delete(event.target.value);
    showTicked();
  } else if (event.target.matches("[data-submit]")) {
    event.target.form.requestSubmit();
  }
});
document.addEventListener("submit", (event) => {
  if (event.target.id !== "chosen") return;
  // Also those whose rows are not there right now.
  const there = new Set([...event.target.querySelectorAll("input[name=node]")].map((box) => box.value));
  for (const name of ticked) {
    if (there.has(name)) continue;
    const field = document.createElement("input");
    field.type = "hidden"; field.name = "node"; field.value = name;
    event.target.append(field);
  }
});
document.addEventListener("htmx:afterSettle", showTicked);
window.addEventListener("pageshow", () => {
  for (const box of document.querySelectorAll("#chosen input[name=node]:checked")) ticked.add(box.value);
  showTicked();
});

// The button that does it wakes up when the number is right; the server asks for it all the same.
document.addEventListener("input", (event) => {
  if (!event.target.dataset.expect) return;
  const button = event.target.form.querySelector("button");
  button.disabled = event.target.value.trim() !== event.target.dataset.expect;
});
for (const field of document.querySelectorAll("[data-expect]")) {
  field.form.querySelector("button").disabled = field.value.trim() !== field.dataset.expect;
}
for (const field of document.querySelectorAll("[data-copy]")) field.addEventListener("focus", () => field.select());

// The address holds the filter, so that it can be sent to somebody.
document.addEventListener("htmx:afterRequest", (event) => {
  if (event.detail.elt.id !== "filter" || !event.detail.successful) return;
  const given = new URLSearchParams(new FormData(event.detail.elt));
  for (const [key, value] of [...given]) if (!value || (key === "sort" && value === "name")) given.delete(key);
  const query = given.toString();
  history.replaceState(history.state, "", location.pathname + (query ? "?" + query : ""));
});

// -- times stay true ------------------------------------------------------------------------------------

function relative(seconds) {
  const size = Math.abs(seconds);
  if (size < 5) return "just now";
  const [length, unit] = size < 60 ? [1, "s"] : size < 3600 ? [60, "min"] : size < 86400 ? [3600, "h"] : [86400, "d"];
  const words = Math.floor(size / length) + " " + unit;
  return seconds > 0 ? "in " + words : words + " ago";
}

setInterval(() => {
  for (const time of document.querySelectorAll("time[datetime]")) {
    const words = relative((Date.parse(time.dateTime) - Date.now()) / 1000);
    if (time.textContent !== words) time.textContent = words;
  }
}, 5000);

// -- keys -----------------------------------------------------------------------------------------------

const help = document.getElementById("help");
for (const button of document.querySelectorAll("[data-help]")) {
  button.hidden = false;
  button.addEventListener("click", () => help.showModal());
}

let went = 0;
document.addEventListener("keydown", (event) => {
  const typing = event.target.closest("input, textarea, select, [contenteditable], .xterm");
  if (event.key === "Escape" && typing && !event.target.closest(".xterm")) { event.target.blur(); return; }
  if (typing || event.ctrlKey || event.metaKey || event.altKey || help.open) return;
  if (event.key === "/") {
    event.preventDefault();
    const search = document.querySelector("[data-search]");
    if (search) search.focus(); else location.assign("/nodes#search");
  } else if (event.key === "?") {
    help.showModal();
  } else if (event.key === "g") {
    went = Date.now();
  } else if (Date.now() - went < 1500) {
    const link = document.querySelector(`nav a[data-key="${CSS.escape(event.key)}"]`);
    if (link) { event.preventDefault(); link.click(); }
  }
});
if (location.hash === "#search") document.querySelector("[data-search]")?.focus();

// A menu closes when somebody clicks elsewhere.
document.addEventListener("click", (event) => {
  for (const open of document.querySelectorAll(".me details[open]")) if (!open.contains(event.target)) open.open = false;
});
