// A browser for the tests: Debian's Chromium through Playwright, watched for everything that must not happen.
import {createRequire} from "node:module";

const require = createRequire(import.meta.url);
const {chromium} = require("playwright-core");

// As root there is no sandbox, and without these a browser looks for its maker's hosts all the time.
const FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
  "--disable-component-update", "--disable-sync"];

export async function launch() {
  return chromium.launch({executablePath: "/usr/bin/chromium", args: FLAGS});
}

// A page; `troubles` collects scripts that were let in, errors, and anything asked of another host.
export async function open(browser, base, troubles, options = {}) {
  const context = await browser.newContext({viewport: {width: 1280, height: 800}, ...options});
  const page = await context.newPage();
  page.setDefaultTimeout(60000);
  page.on("dialog", async (dialog) => { troubles.push("dialog: " + dialog.message()); await dialog.dismiss(); });
  page.on("pageerror", (error) => troubles.push("script error: " + error.message));
  page.on("console", (message) => {
    if (message.type() === "error" && !/status of (401|422)/.test(message.text())) troubles.push("console: " + message.text());
  });
  page.on("request", (request) => {
    const url = new URL(request.url());
    if (url.host !== new URL(base).host && !["data:", "blob:"].includes(url.protocol)) troubles.push("asked of another host: " + url);
  });
  return page;
}

export async function login(page, base, name, password) {
  await page.goto(base + "/login");
  await page.fill("[name=name]", name);
  await page.fill("[name=password]", password);
  await page.click("button.primary");
  await page.waitForURL(base + "/");
}

export function axeSource() {
  return require.resolve("axe-core/axe.min.js");
}
