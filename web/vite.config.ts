import { fileURLToPath } from "node:url";
import { defineConfig } from "vite";
import { finish } from "./build/finish.ts";
import { JSX } from "./build/jsx.ts";

const here = (path: string) => fileURLToPath(new URL(path, import.meta.url));

export default defineConfig({
  oxc: JSX,
  // The collector replaces this word by the path it is served under.
  base: "/__sidelight_prefix__/",
  build: {
    outDir: here("dist"),
    emptyOutDir: true,
    target: "es2023",
    sourcemap: false,
    modulePreload: false,
    assetsInlineLimit: 0,
  },
  plugins: [finish(here("node_modules"), here("dist"))],
});
