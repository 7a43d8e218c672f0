/** Elements as calls with their children behind each other: the same elements in fewer bytes. */
export const JSX = {
  jsx: { runtime: "classic", pragma: "$element", pragmaFrag: "$fragment" },
  jsxInject: 'import { h as $element, Fragment as $fragment } from "preact"',
} as const;
