import { readdirSync } from "node:fs";

/** Runs all tests in one process: starting one for each file takes longer than the tests. */
const names = readdirSync(new URL(".", import.meta.url)).filter((name) => name.endsWith(".test.js"));
for (const name of names.sort()) await import(new URL(name, import.meta.url).href);
