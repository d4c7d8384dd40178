// Shared by all tabs of this browser: one connection to the head node, every tab is told.
"use strict";

const tabs = new Set();
let source = null;
let state = "lost";
let before = false;

function tell(message) {
  for (const tab of tabs) tab.postMessage(message);
}

function connect() {
  source = new EventSource("/live");
  source.onopen = () => { state = "open"; tell({kind: "open", again: before}); before = true; };
  source.onerror = () => {
    state = "lost";
    tell({kind: "lost"});
    // A refusal ends it for good: try again later, somebody may have logged in.
    if (source.readyState === EventSource.CLOSED) { source = null; setTimeout(() => { if (tabs.size && !source) connect(); }, 5000); }
  };
  source.addEventListener("change", (event) => tell({kind: "change", news: JSON.parse(event.data)}));
}

onconnect = (event) => {
  const tab = event.ports[0];
  tabs.add(tab);
  tab.onmessage = () => {
    tabs.delete(tab);
    if (!tabs.size && source) { source.close(); source = null; before = false; }
  };
  tab.start();
  if (!source) connect();
  else tab.postMessage({kind: state === "open" ? "open" : "lost", again: false});
};
