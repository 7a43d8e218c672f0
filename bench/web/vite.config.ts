import { cpSync } from "node:fs";
import { defineConfig } from "vite";

/** Grafana's component looks at `process.env`, which browsers do not have. */
export default defineConfig({
  base: "./",
  resolve: { dedupe: ["react", "react-dom"] },
  define: { "process.env": "{}" },
  build: { outDir: "dist", target: "es2023", chunkSizeWarningLimit: 5000, rollupOptions: { input: ["index.html", "costs.html"] } },
  plugins: [{ name: "speedscope", closeBundle: () => cpSync("node_modules/speedscope/dist/release", "dist/speedscope", { recursive: true }) }],
});
