/**
 * Checks how the modules under `src` import each other: `node build/checkImports.mjs [folder]`.
 *
 * It fails on an import of a folder above the importing one, on circular imports, on two modules with the same name
 * and on a folder with more than 15 modules. Imports of types count like all others.
 */

import { existsSync, readdirSync, readFileSync } from "node:fs";
import { basename, dirname, extname, join, posix, relative, sep } from "node:path";
import { fileURLToPath } from "node:url";

/** The folders from the bottom up. A module imports from its own folder and from folders below it. */
const LAYERS = [
  "strings",
  "lib",
  "api",
  "flamegraph/tree",
  "flamegraph/analysis",
  "flamegraph/render",
  "charts",
  "viewmodels",
  "components/ui",
  "components/answer",
  "components/controls",
  "components/notes",
  "components/captures",
  "components/palette",
  "components/services",
  "components/fleet",
  "components/verdict",
  "components/tables",
  "components/profile",
  "components/depth",
  "components/heatmap",
  "components/timeline",
  "components/breakdown",
  "pages",
  "offline",
  ".",
];

const MOST_MODULES = 15;

const IMPORT = /^\s*(?:import|export)\b[^"';]*?from\s*"(\.[^"?]*)|^\s*import\s*"(\.[^"?]*)|\bimport\(\s*"(\.[^"?]*)/gm;

const source = process.argv[2] ?? fileURLToPath(new URL("../src", import.meta.url));
const problems = [...check(readModules(source))];
for (const problem of problems) console.error(problem);
process.exitCode = problems.length > 0 ? 1 : 0;

/** The modules below a folder, each with the modules that it imports; all as paths relative to the folder. */
function readModules(root) {
  const paths = readdirSync(root, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile() && /\.tsx?$/.test(entry.name))
    .map((entry) => relative(root, join(entry.parentPath, entry.name)).split(sep).join("/"));
  return new Map(paths.sort().map((path) => [path, importsOf(root, path)]));
}

function importsOf(root, path) {
  const text = readFileSync(join(root, path), "utf8").replace(/\/\*[^]*?\*\//g, "");
  return [...text.matchAll(IMPORT)]
    .map((match) => posix.join(dirname(path), match[1] ?? match[2] ?? match[3]))
    .filter((target) => /\.tsx?$/.test(target) && existsSync(join(root, target)));
}

function* check(modules) {
  const folders = groupBy(modules.keys(), dirname);
  for (const [folder, paths] of folders) {
    if (!LAYERS.includes(folder)) yield `${folder}: no layer has this folder; add it to LAYERS in build/checkImports.mjs`;
    if (paths.length > MOST_MODULES) yield `${folder}: ${paths.length} modules, at most ${MOST_MODULES} are allowed`;
  }
  const names = groupBy(modules.keys(), (path) => basename(path, extname(path)).toLowerCase());
  for (const [name, paths] of names) if (paths.length > 1) yield `${paths.join(" and ")} have the same name: ${name}`;
  for (const [path, imports] of modules) {
    for (const target of imports) {
      if (LAYERS.indexOf(dirname(target)) > LAYERS.indexOf(dirname(path))) yield `${path} imports ${target}, which is in a layer above it`;
    }
  }
  for (const circle of circles(modules)) yield `circular imports: ${circle.join(" -> ")}`;
}

function groupBy(paths, keyOf) {
  const groups = new Map();
  for (const path of paths) groups.set(keyOf(path), [...(groups.get(keyOf(path)) ?? []), path]);
  return groups;
}

/** A circle for each import that closes one, found depth first. */
function* circles(modules) {
  const done = new Set();
  const path = [];
  function* visit(name) {
    const start = path.indexOf(name);
    if (start >= 0) yield [...path.slice(start), name];
    if (start >= 0 || done.has(name)) return;
    path.push(name);
    for (const target of modules.get(name) ?? []) yield* visit(target);
    path.pop();
    done.add(name);
  }
  for (const name of modules.keys()) yield* visit(name);
}
