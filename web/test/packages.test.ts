import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { findPathKey, pathKey } from "../src/flamegraph/tree/focus.ts";
import { groupOf } from "../src/flamegraph/tree/groups.ts";
import { packageOf } from "../src/flamegraph/tree/packages.ts";
import { buildTree } from "./stacks.ts";

/** Shared with tests/model/test_packages.py: both sides of the house have one rule. */
const vectors = JSON.parse(readFileSync("test/vectors/packages.json", "utf8")) as [string, string, string][];

test("a frame's package is the one that the collector counts it under", () => {
  for (const [frame, name, kind] of vectors) assert.deepEqual(packageOf(frame), { name, kind }, frame);
});

test("frames are grouped by whose code they are, as the collector does", () => {
  const groups = JSON.parse(readFileSync("test/vectors/groups.json", "utf8")) as [string, string][];
  for (const [frame, group] of groups) assert.equal(groupOf(frame), group, frame);
});

/** Shared with tests/collector/test_stack_filter.py: the collector finds a call path by its word. */
test("a call path's word is the one that the collector reads", () => {
  const paths = JSON.parse(readFileSync("test/vectors/focus.json", "utf8")) as [string[], string][];
  for (const [path, word] of paths) {
    const tree = buildTree([{ path, us: [1000] }], 1);
    assert.equal(pathKey(tree, path.length), word);
    assert.equal(findPathKey(tree, word), path.length);
  }
});
