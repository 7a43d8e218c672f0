import { fileURLToPath } from "node:url";
import { defineConfig } from "vite";

/** A page for tests alone: what is shipped in Preact's place beside Preact itself. */
export default defineConfig({ root: fileURLToPath(new URL("check", import.meta.url)), base: "./", build: { target: "es2023", modulePreload: false } });
