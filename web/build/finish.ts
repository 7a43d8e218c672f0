import { cpSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { extname, join } from "node:path";
import { brotliCompressSync, constants, gzipSync } from "node:zlib";
import type { Plugin } from "vite";

const COMPRESSED = new Set([".js", ".css", ".svg", ".wasm", ".json"]);

/**
 * Puts speedscope's release, unmodified, and everybody's licence beside the pages, then writes .br and .gz siblings
 * of what is worth it.
 */
export function finish(modules: string, out: string): Plugin {
  return {
    name: "sidelight-finish",
    apply: "build",
    closeBundle() {
      cpSync(join(modules, "speedscope", "dist", "release"), join(out, "speedscope"), { recursive: true });
      for (const extra of readdirSync(join(out, "speedscope"))) {
        if (extra.startsWith("perf-vertx-stacks")) rmSync(join(out, "speedscope", extra));
      }
      const licences = shipped(modules).map((name) => licence(modules, name));
      writeFileSync(join(out, "assets", "licences.txt"), licences.join("\n"));
      filesUnder(out).forEach(compress);
    },
  };
}

/** Whose code the pages are made of, apart from our own: the dependencies that are not for development. */
function shipped(modules: string): string[] {
  const file = JSON.parse(readFileSync(join(modules, "..", "package.json"), "utf8")) as { dependencies: object };
  return Object.keys(file.dependencies);
}

function licence(modules: string, name: string): string {
  const { version } = JSON.parse(readFileSync(join(modules, name, "package.json"), "utf8")) as { version: string };
  return `${name} ${version}\n\n${readFileSync(join(modules, name, "LICENSE"), "utf8")}`;
}

function filesUnder(folder: string): string[] {
  return readdirSync(folder).flatMap((name) => {
    const path = join(folder, name);
    return statSync(path).isDirectory() ? filesUnder(path) : [path];
  });
}

function compress(path: string): void {
  const plain = readFileSync(path);
  if (!COMPRESSED.has(extname(path)) || plain.length < 1024) return;
  writeFileSync(`${path}.gz`, gzipSync(plain, { level: 9 }));
  writeFileSync(`${path}.br`, brotliCompressSync(plain, { params: { [constants.BROTLI_PARAM_QUALITY]: 11 } }));
}
