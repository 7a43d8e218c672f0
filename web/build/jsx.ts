import { fileURLToPath } from "node:url";

/** Elements as calls with their children behind each other: the same elements in fewer bytes. */
export const JSX = {
  jsx: { runtime: "classic", pragma: "$element", pragmaFrag: "$fragment" },
  jsxInject: 'import { h as $element, Fragment as $fragment } from "preact"',
} as const;

/** What is shipped in the place of Preact, whose types the pages are written against. */
export const PREACT = { find: /^preact(\/hooks)?$/, replacement: fileURLToPath(new URL("../src/dom/index.ts", import.meta.url)) };
