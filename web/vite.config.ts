import { fileURLToPath } from "node:url";
import { defineConfig } from "vite";
import { finish } from "./build/finish.ts";

const here = (path: string) => fileURLToPath(new URL(path, import.meta.url));

export default defineConfig({
  oxc: { jsx: { importSource: "preact" } },
  // The collector replaces this word by the path it is served under.
  base: "/__sidelight_prefix__/",
  // A script names other files from where it lies itself: that word is in pages alone.
  experimental: { renderBuiltUrl: (_, { hostType }) => (hostType === "js" ? { relative: true } : undefined) },
  build: {
    outDir: here("dist"),
    emptyOutDir: true,
    target: "es2023",
    sourcemap: false,
    modulePreload: { polyfill: false },
    assetsInlineLimit: 0,
    // A sentence of src/strings stands where it is shown: 3 % less to load.
    rollupOptions: {
      optimization: { inlineConst: { mode: "all", pass: 3 } },
      // What several pages share is one file: a first visit needs few requests.
      output: { codeSplitting: { groups: [{ name: "shared", minShareCount: 4 }] } },
    },
  },
  plugins: [finish(here("node_modules"), here("dist"))],
});
