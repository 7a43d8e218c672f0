import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { test } from "node:test";

/** What the check says about modules, given as path and text. */
function check(modules: Readonly<Record<string, string>>): { status: number | null; problems: string[] } {
  const root = mkdtempSync(join(tmpdir(), "imports-"));
  try {
    for (const [path, text] of Object.entries(modules)) {
      mkdirSync(dirname(join(root, path)), { recursive: true });
      writeFileSync(join(root, path), text);
    }
    const { status, stderr } = spawnSync(process.execPath, ["build/checkImports.mjs", root], { encoding: "utf8" });
    return { status, problems: stderr.split("\n").filter((line) => line !== "") };
  } finally {
    rmSync(root, { recursive: true });
  }
}

test("imports of lower layers pass the import check", () => {
  const modules = { "lib/a.ts": "", "api/b.ts": 'import "../lib/a.ts";\n', "pages/C.tsx": 'import type { B } from "../api/b.ts";\nimport json from "../lib/d.json?url";\n' };
  assert.deepEqual(check(modules), { status: 0, problems: [] });
});

test("an import of a higher layer fails the import check, even of types alone", () => {
  const modules = { "lib/a.ts": 'import type { B } from "../api/b.ts";\n', "api/b.ts": "" };
  assert.deepEqual(check(modules), { status: 1, problems: ["lib/a.ts imports api/b.ts, which is in a layer above it"] });
});

test("circular imports fail the import check, also through imports on several lines", () => {
  const modules = { "lib/a.ts": 'import {\n  b,\n} from "./b.ts";\n', "lib/b.ts": 'export { c } from "./c.ts";\n', "lib/c.ts": 'const a = await import("./a.ts");\n' };
  assert.deepEqual(check(modules), { status: 1, problems: ["circular imports: lib/a.ts -> lib/b.ts -> lib/c.ts -> lib/a.ts"] });
});

test("equal names, unknown folders and large folders fail the import check", () => {
  const many = Object.fromEntries(Array.from({ length: 16 }, (_, at) => [`charts/c${at}.ts`, ""]));
  assert.deepEqual(check({ "lib/side.ts": "", "api/Side.tsx": "", "misc/d.ts": "", ...many }).problems, [
    "charts: 16 modules, at most 15 are allowed",
    "misc: no layer has this folder; add it to LAYERS in build/checkImports.mjs",
    "api/Side.tsx and lib/side.ts have the same name: side",
  ]);
});
