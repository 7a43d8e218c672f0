import { cpSync } from "node:fs";
import { defineConfig } from "vite";

const client = (name: string) => new URL(`../../tests/collector/pyroscope_clients/flamegraph/${name}`, import.meta.url).pathname;

/** Grafana's component looks at `process.env`, which browsers do not have. */
export default defineConfig({
  base: "./",
  resolve: {
    dedupe: ["react", "react-dom"],
    // What Grafana's component imports and a plain page lacks: as in the test that draws with it.
    alias: [
      { find: /^@grafana\/assistant$/, replacement: client("assistant.js") },
      { find: /^react-custom-scrollbars-2$/, replacement: client("scrollbars.js") },
      { find: "react-custom-scrollbars-2/lib/index.js", replacement: new URL("node_modules/react-custom-scrollbars-2/lib/index.js", import.meta.url).pathname },
    ],
  },
  define: { "process.env.NODE_ENV": '"production"', "process.env": "{}" },
  build: { outDir: "dist", target: "es2023", chunkSizeWarningLimit: 5000, rollupOptions: { input: ["index.html", "costs.html"] } },
  plugins: [{ name: "speedscope", closeBundle: () => cpSync("node_modules/speedscope/dist/release", "dist/speedscope", { recursive: true }) }],
});
