import { defineConfig } from "vite";

const here = (name) => new URL(name, import.meta.url).pathname;

export default defineConfig({
  base: "./",
  resolve: {
    alias: [
      { find: /^@grafana\/assistant$/, replacement: here("assistant.js") },
      { find: /^react-custom-scrollbars-2$/, replacement: here("scrollbars.js") },
    ],
  },
  // Grafana's component looks at `process.env`, which browsers do not have.
  define: { "process.env.NODE_ENV": '"production"', "process.env": "{}" },
  build: { chunkSizeWarningLimit: 10_000 },
});
