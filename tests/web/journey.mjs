// From the first admin's link to the audit log, as a person would go.
import {launch, open, login} from "./browser.mjs";

const {BASE: base, LINK: link, PASSWORD: password} = process.env;
const troubles = [];
const said = {};
const browser = await launch();
const page = await open(browser, base, troubles);

function must(truth, words) { if (!truth) throw new Error(words); }

try {
  // The first admin, then a login like any other.
  await page.goto(base + link);
  await page.fill("[name=name]", "ada");
  await page.fill("[name=password]", password);
  await page.fill("[name=again]", password);
  await page.click("button.primary");
  await page.waitForURL(base + "/");
  await page.click(".me summary");
  await page.click("text=Log out");
  await page.waitForURL(base + "/login");
  await login(page, base, "ada", password);

  // Keys: to the nodes, help, search.
  await page.keyboard.press("g");
  await page.keyboard.press("n");
  await page.waitForURL(base + "/nodes");
  await page.keyboard.press("?");
  await page.waitForSelector("#help[open]");
  await page.keyboard.press("Escape");
  await page.keyboard.press("/");
  must(await page.evaluate(() => document.activeElement.name) === "text", "/ does not search");
  await page.keyboard.press("Escape");

  // A list with one bad row, put right in place.
  await page.goto(base + "/enrol");
  const rows = (mac) => `name,mac,bmc,profile,rack,position\nweb01,52:54:00:bb:00:01,,gpu,r7,1\nweb02,${mac},,gpu,r7,2\n`;
  await page.fill("#text", rows("52:54:00:bb:00"));
  await page.waitForSelector("#preview .verdict-problem >> text=web02");
  said.problem = await page.textContent("#preview .verdict-problem td:last-child");
  await page.fill("#text", rows("52:54:00:bb:00:02"));
  await page.waitForSelector("#preview >> text=2 new nodes");
  await page.click("text=Enrol them");
  await page.waitForURL(/\/nodes\?state=enrolled/);
  await page.waitForSelector("table.nodes >> text=web02");

  // The filter works while typing, and the address holds it.
  await page.goto(base + "/nodes");
  await page.fill("[name=nodes]", "web[01-02]");
  await page.waitForSelector("#matching:has-text('2 of')");
  await page.waitForFunction(() => location.search.includes("nodes=web"));

  // Deploy, and watch it come up without touching the page.
  await page.goto(base + "/nodes/gpu01");
  await page.click("nav.actions >> text=Deploy");
  await page.waitForSelector("text=What will happen");
  must(await page.isDisabled("button.danger"), "the button is awake before the number is typed");
  await page.fill("[name=count]", "1");
  await page.click("button.danger");
  await page.waitForURL(/\/jobs\//);
  await page.goto(base + "/nodes/gpu01");
  await page.waitForSelector("h1 .state-deploying");
  await page.waitForSelector("text=stream image");
  await page.waitForSelector("h1 .state-up", {timeout: 60000});
  said.live = await page.evaluate(() => performance.getEntriesByType("navigation").length);

  // The console: what it said, what is typed, what comes back.
  await page.click("[data-console]");
  await page.waitForSelector("text=you have the keyboard");
  await page.waitForFunction(() => document.querySelector("#terminal").textContent.includes("gpu01 login:"));
  await page.click("#terminal");
  await page.keyboard.type("whoami\n");
  await page.waitForFunction(() => document.querySelector("#terminal").textContent.includes("you typed whoami"));
  await page.click("[data-console]");
  await page.selectOption("[data-speed]", "100");
  await page.selectOption("[data-replay]", "15m");
  await page.waitForSelector("text=replayed", {timeout: 60000});
  // The terminal draws what it was given a moment later.
  await page.waitForFunction(() => document.querySelector("#terminal").textContent.includes("you typed whoami"));

  // Off, with the number typed; a wrong number is refused also by the server.
  await page.goto(base + "/act/power-off?nodes=gpu01");
  await page.fill("[name=count]", "2");
  await page.evaluate(() => { document.querySelector("button.danger").disabled = false; });
  await page.click("button.danger");
  await page.waitForSelector("[role=alert]:has-text('type 1')");
  await page.fill("[name=count]", "1");
  await page.click("button.danger");
  await page.waitForSelector("#job >> text=done", {timeout: 30000});

  await page.goto(base + "/audit");
  said.audit = await page.$$eval("table.nodes tbody tr", (rows) => rows.slice(0, 8).map((row) => row.innerText.replace(/\s+/g, " ")));
  said.troubles = troubles;
} catch (error) {
  await page.screenshot({path: process.env.SHOT || "/tmp/journey-failed.png"}).catch(() => {});
  said.failed = `${error.message} at ${page.url()}`;
  said.troubles = troubles;
}
await browser.close();
console.log(JSON.stringify(said));
