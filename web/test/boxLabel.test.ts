import assert from "node:assert/strict";
import { test } from "node:test";
import { boxLabel } from "../src/flamegraph/render/draw.ts";

const style = (label: string, hatch: "" | "new" | "removed" = "") => ({ label, hatch, fill: 0 });

test("a box drops the file before it cuts the function, and has none below 140 pixels", () => {
  const execute = style("▲ execute (sqlalchemy/engine/base.py:1412)");
  assert.equal(boxLabel(execute, 400, 55), "▲ execute (sqlalchemy/engine/base.py:1412)");
  assert.equal(boxLabel(execute, 200, 27), "▲ execute");
  assert.equal(boxLabel(style("get (a.py)"), 139, 18), "get", "although it would fit");
  assert.equal(boxLabel(style("<lambda> (a (b).py)"), 100, 12), "<lambda> (a (b).py)", "what is no file stays");
});

test("a new or removed frame says so in words where they fit, else with a sign", () => {
  assert.equal(boxLabel(style("deepcopy (copy.py)", "new"), 300, 40), "new ▸ deepcopy (copy.py)");
  assert.equal(boxLabel(style("deepcopy (copy.py)", "new"), 150, 20), "new ▸ deepcopy");
  assert.equal(boxLabel(style("deepcopy (copy.py)", "new"), 100, 13), "+ deepcopy");
  assert.equal(boxLabel(style("deepcopy (copy.py)", "removed"), 60, 7), "− deepcopy");
});
