// Every page in light and dark, on a desk and on a phone: accessible, quiet, and pictured when asked for.
import {launch, open, login, axeSource} from "./browser.mjs";
import {mkdirSync} from "node:fs";

const {BASE: base, PASSWORD: password, SHOTS: shots, PAGES: wanted} = process.env;
const pages = JSON.parse(wanted);
const troubles = [];
const violations = [];
const browser = await launch();
if (shots) mkdirSync(shots, {recursive: true});

const looks = [["desktop-light", {colorScheme: "light"}], ["desktop-dark", {colorScheme: "dark"}],
  ["phone-light", {colorScheme: "light", viewport: {width: 390, height: 844}}],
  ["phone-dark", {colorScheme: "dark", viewport: {width: 390, height: 844}}]];

// In the dark a phone has the desk's colours and the light phone's widths: only for the picture.
for (const [look, options] of looks.slice(0, shots ? 4 : 3)) {
  const page = await open(browser, base, troubles, {...options, reducedMotion: "reduce"});
  await page.goto(base + "/login");
  await check(page, look, "login");
  await login(page, base, "ada", password);
  for (const [name, path] of Object.entries(pages)) {
    await page.goto(base + path);
    // A live page never falls silent; what it has to fetch, it has by then.
    await page.waitForSelector(".pulse.live");
    await page.waitForTimeout(shots ? 900 : 250);
    await check(page, look, name);
  }
  await page.context().close();
}
await browser.close();
console.log(JSON.stringify({troubles, violations}));

async function check(page, look, name) {
  if (shots) {
    await page.screenshot({path: `${shots}/${name}-${look}.png`});
    return;
  }
  const wide = await page.evaluate(() => document.documentElement.scrollWidth > document.documentElement.clientWidth + 1);
  if (wide) violations.push(`${name} ${look}: wider than the screen`);
  // The policy lets no script in that is not ours, so this one comes through the debugger.
  const session = await page.context().newCDPSession(page);
  await session.send("Runtime.evaluate", {expression: (await import("node:fs")).readFileSync(axeSource(), "utf8")});
  const found = await page.evaluate(() => axe.run(document, {runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa"]}));
  for (const one of found.violations) {
    violations.push(`${name} ${look}: ${one.id}: ${one.nodes.slice(0, 3).map((node) => node.target.join(" ") + " " + (node.any[0]?.message || "")).join("; ")}`);
  }
}
