// A node's console and plots.
"use strict";

// The terminal makes style elements of its own; the policy lets in those that carry this page's mark.
const nonce = document.currentScript.nonce || document.currentScript.dataset.nonce;
const createElement = document.createElement;
document.createElement = function (name, ...rest) {
  const made = createElement.call(document, name, ...rest);
  if (String(name).toLowerCase() === "style") made.setAttribute("nonce", nonce);
  return made;
};

for (const part of document.querySelectorAll("[data-scripted]")) part.hidden = false;

// -- console --------------------------------------------------------------------------------------------

const place = document.getElementById("terminal");
const stateLine = document.querySelector("[data-console-state]");
const opener = document.querySelector("[data-console]");
let terminal = null;
let fitting = null;
let socket = null;
let replaying = 0;

function ready() {
  if (terminal) return;
  document.getElementById("last-words").hidden = true;
  place.hidden = false;
  terminal = new Terminal({convertEol: false, scrollback: 10000, fontSize: 13, cursorBlink: false, screenReaderMode: true,
    fontFamily: "ui-monospace, 'DejaVu Sans Mono', Menlo, Consolas, monospace", theme: {background: "#10141a", foreground: "#dfe6ee"}});
  fitting = new FitAddon.FitAddon();
  terminal.loadAddon(fitting);
  terminal.open(place);
  fitting.fit();
  window.addEventListener("resize", () => fitting.fit());
  terminal.onData((data) => {
    if (socket && socket.readyState === WebSocket.OPEN) socket.send(new TextEncoder().encode(data));
  });
}

function say(words) { stateLine.textContent = words; }

function close() {
  replaying += 1;
  if (socket) { socket.onclose = null; socket.close(); socket = null; }
  opener.textContent = opener.dataset.words;
}

function open() {
  close();
  ready();
  terminal.reset();
  say("connecting");
  socket = new WebSocket(location.origin.replace(/^http/, "ws") + place.dataset.address + "/console");
  socket.binaryType = "arraybuffer";
  socket.onmessage = (event) => {
    if (typeof event.data !== "string") { terminal.write(new Uint8Array(event.data)); return; }
    const said = JSON.parse(event.data);
    if ("typing" in said) say(said.typing ? "you have the keyboard" : "watching: " + said.why_not);
    else if (said.text) terminal.write("\r\n[" + said.text.replace(/[^\x20-\x7e]/g, "?") + "]\r\n");
  };
  socket.onclose = (event) => {
    say(event.reason ? "closed: " + event.reason : "closed");
    socket = null;
    opener.textContent = opener.dataset.words;
  };
  socket.onopen = () => { opener.textContent = "Close"; terminal.focus(); };
}

if (opener) {
  opener.dataset.words = opener.textContent;
  opener.addEventListener("click", () => { if (socket) { close(); say("closed"); } else open(); });
  document.querySelector("[data-replay]").addEventListener("change", (event) => replay(event.target.value));
}

async function replay(since) {
  if (!since) return;
  close();
  const mine = replaying;
  ready();
  terminal.reset();
  say("fetching the recording");
  const answer = await fetch(place.dataset.address + "/recording?since=" + encodeURIComponent(since));
  const pieces = answer.ok ? await answer.json() : [];
  if (!pieces.length) { say("nothing was recorded then"); return; }
  for (const [index, [pause, text]] of pieces.entries()) {
    const speed = Number(document.querySelector("[data-speed]").value);
    if (pause / speed > 0.005) await new Promise((done) => setTimeout(done, pause / speed * 1000));
    if (mine !== replaying) return;
    terminal.write(Uint8Array.from(atob(text), (c) => c.charCodeAt(0)));
    if (index % 20 === 0) say("replaying " + Math.round(index / pieces.length * 100) + " %");
  }
  await new Promise((done) => terminal.write("", done));
  say("replayed");
}

// -- sensors --------------------------------------------------------------------------------------------

const plots = document.getElementById("plots");
const palette = ["#3b7dbd", "#c0762b", "#3f9a5f", "#a34fa0", "#b0473f", "#5b6bc0", "#878c2c", "#2b95a0"];
let drawn = [];

function kindOf(name) {
  if (/temp|°c|inlet|exhaust|therm/i.test(name)) return "Temperature, °C";
  if (/fan|rpm/i.test(name)) return "Fans, RPM";
  if (/watt|power|psu|consum/i.test(name)) return "Power, W";
  if (/volt|vcc|vbat|^\+?\d+(\.\d+)?v|12v|5v|3\.3v/i.test(name)) return "Voltage, V";
  return "Others";
}

async function plot() {
  const hours = document.querySelector("[data-hours]").value;
  const answer = await fetch(plots.dataset.address + "?hours=" + hours);
  if (!answer.ok) return;
  const found = await answer.json();
  if (!found.at.length) return;
  const kinds = {};
  for (const name of Object.keys(found.sensors)) (kinds[kindOf(name)] ||= []).push(name);
  for (const old of drawn) old.destroy();
  drawn = [];
  plots.replaceChildren();
  const ink = getComputedStyle(document.body).color;
  const line = getComputedStyle(document.querySelector(".card")).borderTopColor;
  for (const [kind, names] of Object.entries(kinds)) {
    const box = document.createElement("figure");
    const title = document.createElement("figcaption");
    title.textContent = kind;
    box.append(title);
    plots.append(box);
    const axis = {stroke: ink, grid: {stroke: line, width: 1}, ticks: {stroke: line}};
    drawn.push(new uPlot({
      width: Math.max(280, plots.clientWidth), height: 180, axes: [axis, {...axis, size: 60}], legend: {live: true},
      series: [{}, ...names.slice(0, 16).map((name, i) => ({label: name, stroke: palette[i % palette.length], width: 1.5}))],
    }, [found.at, ...names.slice(0, 16).map((name) => found.sensors[name])], box));
  }
}

if (plots && window.uPlot) {
  plot();
  document.querySelector("[data-hours]").addEventListener("change", plot);
  setInterval(() => { if (!document.hidden) plot(); }, 60000);
  window.addEventListener("resize", () => drawn.forEach((one) => one.setSize({width: Math.max(280, plots.clientWidth), height: 180})));
}
