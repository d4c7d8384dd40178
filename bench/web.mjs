// How long until the table of nodes has its first rows, and from a keystroke in the filter to its result.
import {launch, open, login} from "../tests/web/browser.mjs";

const {BASE: base, PASSWORD: password, ROUNDS: rounds, WORDS: words} = process.env;
const browser = await launch();
const page = await open(browser, base, []);
await login(page, base, "ada", password);
const first = [], keys = [];
for (let round = 0; round < Number(rounds); round++) {
  await page.goto("about:blank");
  await page.goto(base + "/nodes", {waitUntil: "commit"});
  await page.waitForSelector("table.nodes tbody tr");
  first.push(await page.evaluate(() => performance.getEntriesByName("first-contentful-paint")[0]?.startTime ?? performance.now()));
  await page.waitForSelector(".pulse.live");
  const box = page.locator("#filter [name=nodes]");
  for (const word of words.split(" ")) {
    await box.fill("");
    await page.waitForFunction(() => !document.querySelector("#matching").textContent.includes(" of "));
    // In the page itself, so that the driver's own way is not measured.
    keys.push(await page.evaluate((text) => new Promise((done) => {
      const field = document.querySelector("#filter [name=nodes]");
      const watch = new MutationObserver(() => {
        if (document.querySelector("#matching")?.textContent.includes(" of ")) { watch.disconnect(); done(performance.now() - begun); }
      });
      watch.observe(document.querySelector("#table"), {childList: true, subtree: true});
      const begun = performance.now();
      field.value = text;
      field.dispatchEvent(new Event("input", {bubbles: true}));
    }), word));
  }
}
await browser.close();
console.log(JSON.stringify({first, keys}));
