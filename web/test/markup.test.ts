import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";

test("names and labels enter the page as text: nothing writes markup", () => {
  const writes = /\b(innerHTML|outerHTML|insertAdjacentHTML|dangerouslySetInnerHTML|createContextualFragment|document\.write|DOMParser|srcdoc)\b/;
  const modules = readdirSync("src", { recursive: true, encoding: "utf8" }).filter((path) => /\.tsx?$/.test(path));
  assert.ok(modules.length > 100);
  assert.deepEqual(modules.filter((path) => writes.test(readFileSync(join("src", path), "utf8"))), []);
});
