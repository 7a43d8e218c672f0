/**
 * Checks that user-visible text is in `src/strings`: `node build/checkStrings.mjs [folder]`.
 *
 * It fails on text and on visible attributes of elements, and on literals of several words, in any other module.
 * Code in `<code>` and `<kbd>` is the same in every language and may stay.
 */

import { readdirSync, readFileSync } from "node:fs";
import { join, relative, sep } from "node:path";
import { fileURLToPath } from "node:url";
import ts from "typescript";

/** Attributes that a person reads or hears. */
const VISIBLE = /^(title|alt|placeholder|label|text|what|summary|rowLabel|aria-(label|description|roledescription|valuetext|placeholder))$/;
const INVISIBLE = /^(class|className|style|rel|d|viewBox|patternTransform|font)$/;
const UNITS = /\b(ms|Hz|min)\b/g;
/** Names of groups, and values of the browser's API, that look like words. */
const IDENTIFIERS = new Set(["third party", "standard library", "no file", "no boundary"]);
/** Modules whose literals are code: generated types, lists of packages, commands, SVG, fonts. */
const CODE = /^(strings\/|api\/schema\.ts|flamegraph\/tree\/(groups|packages)\.ts|viewmodels\/shellCommands\.ts|flamegraph\/render\/pictureFile\.ts)/;
const CALLS_WITH_CODE = /(querySelector(All)?|matchMedia|closest|matches|split|addEventListener|Error)$/;

const source = process.argv[2] ?? fileURLToPath(new URL("../src", import.meta.url));
const problems = readdirSync(source, { recursive: true })
  .filter((path) => /\.tsx?$/.test(path)).map((path) => relative(source, join(source, path)).replaceAll(sep, "/")).filter((path) => !CODE.test(path)).sort()
  .flatMap((path) => check(path, readFileSync(join(source, path), "utf8")));
for (const problem of problems) console.error(problem);
process.exitCode = problems.length > 0 ? 1 : 0;

/** The text that one module has of its own, each with its place. */
function check(path, code) {
  const file = ts.createSourceFile(path, code, ts.ScriptTarget.Latest, true, path.endsWith("x") ? ts.ScriptKind.TSX : ts.ScriptKind.TS);
  const found = [];
  const report = (node, text) => found.push(`${path}:${file.getLineAndCharacterOfPosition(node.getStart()).line + 1}: move this text to src/strings: ${text.trim().slice(0, 60)}`);
  const visit = (node) => {
    if (ts.isTypeNode(node) || ts.isImportDeclaration(node) || ts.isExportDeclaration(node)) return;
    // Only a Failure is shown; other errors are for developers.
    if (ts.isThrowStatement(node) && node.expression && ts.isNewExpression(node.expression) && node.expression.expression.getText() !== "Failure") return;
    if (ts.isJsxElement(node) && /^(code|kbd)$/.test(node.openingElement.tagName.getText())) return;
    if (ts.isJsxAttribute(node) && INVISIBLE.test(node.name.getText())) return;
    if (ts.isPropertyAssignment(node) && INVISIBLE.test(node.name.getText())) return;
    if ((ts.isCallExpression(node) || ts.isNewExpression(node)) && CALLS_WITH_CODE.test(node.expression.getText())) return;
    if (node.kind === ts.SyntaxKind.JsxText) {
      if (/[A-Za-z]{2}/.test(node.text.replace(UNITS, ""))) report(node, node.text);
    } else if (ts.isStringLiteral(node) || ts.isNoSubstitutionTemplateLiteral(node)) {
      if (isWord(node) || isSentence(node.text)) report(node, node.text);
    } else if (ts.isTemplateExpression(node)) {
      if (isSentence([node.head.text, ...node.templateSpans.map(({ literal }) => literal.text)].join(" 0 "))) report(node, node.getText());
    }
    ts.forEachChild(node, visit);
  };
  visit(file);
  return found;
}

/** Whether a literal is what a visible attribute shows, itself or as one of its alternatives. */
function isWord(node) {
  if (!/[A-Za-z]{2}/.test(node.text)) return false;
  let at = node.parent;
  while (ts.isConditionalExpression(at) || ts.isParenthesizedExpression(at) || ts.isJsxExpression(at)) at = at.parent;
  return ts.isJsxAttribute(at) && VISIBLE.test(at.name.getText());
}

/** Whether a literal has two words that are no code. */
function isSentence(text) {
  return /[A-Za-z]{2,}[,:;.]? [a-z]{2,}/.test(text) && !/[<={}#[\]]|--/.test(text) && !/^(sidelight|side|badge|number|drift|half|button|card|\d+px) /.test(text) && !IDENTIFIERS.has(text);
}
