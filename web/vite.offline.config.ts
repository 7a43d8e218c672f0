import { fileURLToPath } from "node:url";
import { defineConfig } from "vite";
import { inline } from "./build/inline.ts";

const here = (path: string) => fileURLToPath(new URL(path, import.meta.url));

/** The page that exports are made of: one file, its place in the `#` of its address. */
export default defineConfig({
  oxc: { jsx: { importSource: "preact" } },
  base: "./",
  publicDir: false,
  resolve: {
    alias: [
      { find: /^.*\/location\.ts$/, replacement: here("src/offline/fragmentLocation.ts") },
      { find: /^.*\/LinesView\.tsx$/, replacement: here("src/offline/LinesUnavailable.tsx") },
    ],
  },
  build: {
    outDir: here("dist"),
    emptyOutDir: false,
    target: "es2023",
    sourcemap: false,
    modulePreload: false,
    cssCodeSplit: false,
    // One script: what other pages load on demand is in it too.
    rollupOptions: { input: here("offline.html"), output: { codeSplitting: false } },
  },
  plugins: [inline()],
});
