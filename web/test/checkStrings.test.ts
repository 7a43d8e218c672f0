import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { test } from "node:test";

/** What the check says about one module. */
function check(code: string, path = "pages/A.tsx"): string[] {
  const root = mkdtempSync(join(tmpdir(), "strings-"));
  try {
    mkdirSync(dirname(join(root, path)), { recursive: true });
    writeFileSync(join(root, path), code);
    const { stderr } = spawnSync(process.execPath, ["build/checkStrings.mjs", root], { encoding: "utf8" });
    return stderr.split("\n").filter((line) => line !== "").map((line) => line.replace(/^.*src\/strings: /, ""));
  } finally {
    rmSync(root, { recursive: true });
  }
}

test("all user-visible text of the UI is in src/strings", () => {
  const { status, stderr } = spawnSync(process.execPath, ["build/checkStrings.mjs"], { encoding: "utf8" });
  assert.deepEqual([status, stderr], [0, ""]);
});

test("text, visible attributes and sentences outside src/strings fail the check", () => {
  assert.deepEqual(check('const A = () => <p title="Why">Apply {x ? "no data" : `${n} of them`}</p>;\n'), ["Why", "Apply", "no data", "`${n} of them`"]);
  assert.deepEqual(check('const A = () => <Box aria-label={wide ? "Wide" : strings.narrow} />;\n'), ["Wide"]);
  assert.deepEqual(check('export const hint = "Remove the filter";\n', "lib/a.ts"), ["Remove the filter"]);
});

test("classes, code, units and single letters pass the check, and src/strings has sentences", () => {
  assert.deepEqual(check('const A = () => <p class="big quiet" title="s"><code>--version</code> {n} ms · A</p>;\nconst b = document.querySelector("main button");\n'), []);
  assert.deepEqual(check('export const hint = "Remove the filter";\n', "strings/a.ts"), []);
});
