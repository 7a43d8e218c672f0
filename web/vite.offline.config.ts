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
      { find: /^.*\/viewsOnDemand\.ts$/, replacement: here("src/offline/viewsAtOnce.ts") },
    ],
  },
  build: {
    outDir: here("dist"),
    emptyOutDir: false,
    target: "es2023",
    sourcemap: false,
    modulePreload: false,
    cssCodeSplit: false,
    rollupOptions: { input: here("offline.html") },
  },
  plugins: [inline()],
});
