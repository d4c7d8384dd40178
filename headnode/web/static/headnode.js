// What a page can do beyond showing: it stays up to date, and it has keys. Everything is readable without this.
"use strict";

document.documentElement.classList.add("scripted");

// -- news ---------------------------------------------------------------------------------------------
// One connection for all open tabs, because a browser opens only six to one server.

const body = document.body;
const pulse = document.getElementById("pulse");
let waiting = null;
let heard = null;

function show(how, words) {
  if (!pulse) return;
  pulse.className = "pulse " + how;
  pulse.title = words;
  pulse.firstElementChild.textContent = words;
}

function tell(news) {
  heard = heard && !news.many && !heard.many ? {many: false, nodes: heard.nodes.concat(news.nodes)} : news;
  if (waiting) return;
  // Many pages hear of it at the same moment; they need not all ask at the same moment.
  waiting = setTimeout(() => {
    waiting = null;
    const said = heard;
    heard = null;
    if (document.hidden) { missed = true; return; }
    body.dispatchEvent(new CustomEvent("headnode:change", {detail: said}));
  }, 50 + Math.random() * 250);
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
